"""Airflow's metadata database: made, migrated when its version asks for it, with our pool."""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import psycopg2

from penstock.core.errors import PenstockError, TransientError
from penstock.runtime.embedded.airflow_environment import SPARK_POOL
from penstock.runtime.embedded.logfiles import RotatingLog
from penstock.runtime.embedded.postgres import Postgres
from penstock.runtime.embedded.processes import identify, kill_session

logger = logging.getLogger(__name__)

DATABASE = "airflow"
_POLL_SECONDS = 0.1


class StopRequestedError(PenstockError):
    """The start was given up because a stop was asked for."""


def wait_ready(database: Postgres, stop: threading.Event, limit_seconds: float) -> None:
    """Wait until the server answers.

    Raises:
        TransientError: Not within the limit.
        StopRequestedError: A stop came first.
    """
    deadline = time.monotonic() + limit_seconds
    while not database.is_ready():
        if time.monotonic() > deadline:
            raise TransientError(f"PostgreSQL did not answer within {limit_seconds:.0f} s.")
        if stop.wait(_POLL_SECONDS):
            raise StopRequestedError("stopped while PostgreSQL was starting")


def migrate(
    database: Postgres,
    stamp: Path,
    environment: Mapping[str, str],
    log: RotatingLog,
    stop: threading.Event,
) -> None:
    """Bring the schema to the installed Airflow's version; a moment when it is there already.

    Args:
        database: Running.
        stamp: File that tells which Airflow made which schema revision.
        environment: Airflow's.
        log: Takes the migration's output.
        stop: Ends the migration.

    Raises:
        TransientError: The migration failed.
        StopRequestedError: A stop came first.
    """
    database.ensure_database(DATABASE)
    wanted = {"airflow": version("apache-airflow-core"), "revision": _revision(database)}
    if wanted["revision"] and stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return
    stamp.unlink(missing_ok=True)
    logger.info("migrating from_revision=%s airflow=%s", wanted["revision"], wanted["airflow"])
    _run_migration(environment, log, stop)
    stamp.write_text(json.dumps(wanted | {"revision": _revision(database)}))


def ensure_pool(database: Postgres) -> None:
    """The pool that lets one batch job of Spark run at a time; an edited one stays as it is.

    By SQL: the command line would take three seconds for this one row.
    """
    database.query(
        DATABASE,
        "insert into slot_pool (pool, slots, description, include_deferred)"  # noqa: S608
        f" values ('{SPARK_POOL}', 1, 'Batch jobs of Spark: one at a time', false)"
        " on conflict (pool) do nothing",
    )


def _revision(database: Postgres) -> str:
    try:
        rows = database.query(DATABASE, "select version_num from alembic_version")
    except psycopg2.errors.UndefinedTable:
        return ""
    return ",".join(sorted(str(row[0]) for row in rows))


def _run_migration(environment: Mapping[str, str], log: RotatingLog, stop: threading.Event) -> None:
    process = subprocess.Popen(
        (sys.executable, "-m", "airflow", "db", "migrate"),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    threading.Thread(target=_copy, args=(process, log), daemon=True).start()
    leader = identify(process.pid)
    while process.poll() is None:
        if stop.wait(_POLL_SECONDS):
            if leader is not None:
                kill_session(leader)
            process.wait()
            raise StopRequestedError("stopped while the database was being migrated")
    if process.returncode:
        raise TransientError(
            f"the migration of Airflow's database failed; its last lines:\n{log.tail(15)}\n"
            f"All of it: {log.path}"
        )


def _copy(process: subprocess.Popen[bytes], log: RotatingLog) -> None:
    for line in process.stdout or ():
        log.write(line)
