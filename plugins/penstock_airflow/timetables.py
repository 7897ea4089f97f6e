"""When DAGs run that only a person starts."""

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable


class AskedFor(CronDataIntervalTimetable):
    """Intervals of a cron expression, for backfills: nothing is scheduled.

    A DAG that had ended before it began would not be scheduled either; but Airflow takes its tasks
    to have ended with it, and leaves them out of runs by the form, which then are green with
    nothing done (``DagRun.verify_integrity``).
    """

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """None for the scheduler, since such a DAG does not catch up; a backfill always does."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
