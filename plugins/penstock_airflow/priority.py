"""Who gets the Spark slot next: a person before the clock, a correction before an audit.

The scheduler sorts what waits for a slot by priority weight, then by logical date.
"""

from typing import Any

from airflow.task.priority_strategy import PriorityWeightStrategy
from airflow.utils.types import DagRunType

OF_A_JOB = {"correct": 30, "preload": 20, "audit": 10, "maintain": 5}
OF_A_RUN = {DagRunType.MANUAL: 200, DagRunType.BACKFILL_JOB: 100}
"""Above every job's. A backfill is a person's wish, too, but one run of many."""


class PersonsFirst(PriorityWeightStrategy):
    """The job's weight, and more for a run that a person asked for."""

    def get_weight(self, ti: Any) -> int:
        """Of a task instance. A manual run cannot have the id of another kind of run."""
        kind = DagRunType.from_run_id(ti.run_id)
        return int(ti.task.priority_weight) + OF_A_RUN.get(kind, 0)
