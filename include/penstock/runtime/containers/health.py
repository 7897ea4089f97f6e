"""How a service is: exit status 0 or 1, and a line that says why.

``python -m penstock.runtime.containers.health WHAT WHERE``, from within its container. It is
asked every few seconds in each of them, so it imports little: Airflow's own check takes seconds.
"""

import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.runtime.streams.wish import runner_is_well

OWNER, DATABASE = "postgres", "airflow"
FRESH_SECONDS = 60
"""Of a heartbeat; Airflow's processes write one every 5 s."""
PATIENCE_SECONDS = 10


def page(url: str) -> str:
    """Whether a page is there; an empty text: it is."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=PATIENCE_SECONDS):  # raises for anything but success
        return ""


def database(sockets: str) -> str:
    """Whether PostgreSQL answers."""
    _query(sockets, "postgres", "select 1")
    return ""


def heartbeat(sockets: str, job: str, host: str) -> str:
    """Whether a process of Airflow wrote its heartbeat lately.

    Args:
        sockets: folder of the database's socket file.
        job: its kind, as Airflow's table of jobs says it.
        host: where it runs.
    """
    statement = (
        "select extract(epoch from now() - max(latest_heartbeat)) from job"
        " where state = 'running' and job_type = %s and hostname = %s"
    )
    age = _query(sockets, DATABASE, statement, job, host)
    if age is None:
        return "has not begun"
    return "" if float(str(age)) < FRESH_SECONDS else f"its last heartbeat is {age:.0f} s old"


def runner(streams: str) -> str:
    """Whether a stream runner has looked after the streams lately."""
    well = runner_is_well(Path(streams), SystemClock())
    return "" if well else "no runner has looked after the streams lately"


def _query(sockets: str, name: str, statement: str, *values: str) -> object:
    """The first value of the first row."""
    import psycopg2

    connection = psycopg2.connect(
        host=sockets, user=OWNER, dbname=name, connect_timeout=PATIENCE_SECONDS
    )
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            (first, *_) = cursor.fetchone()
            return first
    finally:
        connection.close()


def main(what: str, *where: str) -> int:
    """Ask, and say what is wrong."""
    asked: dict[str, Callable[..., str]] = {
        "page": page, "database": database, "heartbeat": heartbeat, "runner": runner,
    }  # fmt: skip
    try:
        wrong = asked[what](*where)
    except Exception as error:  # noqa: BLE001  whatever it is, the service is not well
        wrong = f"does not answer: {error}"
    sys.stdout.write(f"{wrong or 'healthy'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
