"""The programs that containers become: PostgreSQL, Airflow's components, Spark's daemons."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from penstock.config.settings import Settings, child_environment
from penstock.core.errors import TransientError
from penstock.runtime.embedded.airflow_environment import (
    airflow_environment,
    project_environment,
    spark_home,
)
from penstock.runtime.embedded.metadata import DATABASE
from penstock.runtime.embedded.postgres import Postgres
from penstock.runtime.streams.paths import take_lock


@dataclass(frozen=True, slots=True)
class Program:
    """What to become.

    Attributes:
        command: program and arguments.
        environment: all of it.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]

    def run(self) -> NoReturn:
        """Become it: the process, and so its signals, are the program's."""
        os.execve(self.command[0], self.command, dict(self.environment))  # noqa: S606


def database(settings: Settings) -> Postgres:
    """PostgreSQL, reached by a socket file in a folder of its own: a volume of few services."""
    return Postgres(settings.postgres, settings.home / "sockets")


def postgres(settings: Settings) -> Program:
    """The database server, which is made at its first start.

    Raises:
        TransientError: another container has this data. PostgreSQL itself would not see that:
            it looks for a process.
    """
    lock = take_lock(settings.home / "postgres.lock")
    if lock is None:
        raise TransientError(f"another container runs PostgreSQL on {settings.postgres}")
    os.set_inheritable(lock, True)
    server, environment = database(settings), project_environment(settings)
    server.prepare(environment)
    return Program(server.spec(environment).command, environment)


def airflow(settings: Settings, *arguments: str) -> Program:
    """Airflow's command line, with its secrets."""
    environment = airflow_environment(settings, database(settings).url(DATABASE))
    return Program((sys.executable, "-m", "airflow", *arguments), environment)


def spark(daemon: str, *arguments: str) -> Program:
    """A daemon of Spark's standalone mode."""
    program = str(spark_home() / "bin" / "spark-class")
    return Program((program, f"org.apache.spark.deploy.{daemon}", *arguments), child_environment())
