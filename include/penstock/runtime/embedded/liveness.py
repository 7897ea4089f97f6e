"""A process that runs and does nothing is as good as dead: its heartbeats have stopped.

Airflow's scheduler, once it has lost its database, waits for its tasks before it ends, however
long they take; what hangs on the way out never dies, so nobody would start it again. Liveness
probes of Airflow's Helm chart are there for the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psycopg2

from penstock.runtime.embedded.metadata import DATABASE
from penstock.runtime.embedded.postgres import Postgres

JOBS = {
    "scheduler": "SchedulerJob",
    "dag-processor": "DagProcessorJob",
    "triggerer": "TriggererJob",
}
"""What Airflow calls the job of each process that writes heartbeats, one every 5 s."""
PATIENCE_SECONDS = 120.0  # as for a stream's driver; a start takes up to a minute under load
_BEATS = "select job_type, max(latest_heartbeat)::text from job where state = 'running' group by 1"


@dataclass(frozen=True, slots=True)
class _Heard:
    pid: int
    beat: str | None
    at: float


class Liveness:
    """Which processes have gone silent.

    Times are of one monotonic clock, and only a change of a heartbeat counts: its own instant
    would be old after the machine slept, and wrong after its clock was set.

    Args:
        beats: the newest heartbeat of each kind of job; none: the database does not answer, and
            nobody is to blame for silence.
        clock: seconds, monotonic.
    """

    def __init__(
        self, beats: Callable[[], Mapping[str, str] | None], clock: Callable[[], float]
    ) -> None:
        self._beats, self._clock = beats, clock
        self._heard: dict[str, _Heard] = {}

    def silent(self, pids: Mapping[str, int | None]) -> dict[str, float]:
        """Seconds of silence of each process that has been silent for too long.

        Args:
            pids: of the processes by name; none: it does not run.
        """
        beats, now = self._beats(), self._clock()
        if beats is None:
            self._heard.clear()
            return {}
        found = {}
        for name, job in JOBS.items():
            pid, beat, heard = pids.get(name), beats.get(job), self._heard.get(name)
            if pid is None:
                self._heard.pop(name, None)
            elif heard is None or (heard.pid, heard.beat) != (pid, beat):
                self._heard[name] = _Heard(pid, beat, now)
            elif now - heard.at > PATIENCE_SECONDS:
                found[name] = now - heard.at
        return found


def heartbeats(database: Postgres) -> Mapping[str, str] | None:
    """The newest heartbeat of each kind of job; none: the database does not answer."""
    try:
        rows = database.query(DATABASE, _BEATS)
    except psycopg2.Error:
        return None
    return {str(job): str(beat) for job, beat in rows}
