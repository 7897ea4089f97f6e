"""What every start sees to before the services: secrets, folders, Airflow's database."""

import sys
import threading
from pathlib import Path

from penstock.config.settings import Settings
from penstock.runtime.containers.programs import database
from penstock.runtime.embedded import metadata
from penstock.runtime.embedded.airflow_environment import airflow_environment
from penstock.runtime.embedded.checks import check_jars, check_pyspark
from penstock.runtime.embedded.credentials import spark_secret, write_spark_defaults
from penstock.runtime.embedded.logfiles import RotatingLog

DATABASE_SECONDS = 60.0


def prepare(settings: Settings) -> int:
    """Do what is missing; what is there stays as it is. Every start calls it.

    Raises:
        PenstockError: the image is damaged, or the database does not answer.
    """
    check_jars(settings.root / "jars" / "SHA256SUMS", settings.jars)
    check_pyspark()
    for folder in (settings.logs, settings.docs, settings.streams, settings.airflow_home):
        folder.mkdir(parents=True, exist_ok=True)
    ensure_spark_secret(settings.home / "spark" / "spark-defaults.conf")
    server, stop = database(settings), threading.Event()
    environment = airflow_environment(settings, server.url(metadata.DATABASE))
    metadata.wait_ready(server, stop, DATABASE_SECONDS)
    stamp = settings.airflow_home / "schema.json"
    log = RotatingLog(settings.logs / "migrate.log")
    metadata.migrate(server, stamp, environment, log, stop)
    metadata.ensure_pool(server)
    sys.stdout.write("secrets, folders and Airflow's database are in place\n")
    return 0


def ensure_spark_secret(defaults: Path) -> None:
    """Make what Spark's processes ask each other for, unless it is there."""
    if not defaults.exists():
        write_spark_defaults(defaults, spark_secret())
