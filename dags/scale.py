"""Airflow DAG ``scale__cluster``: nodes come and go."""

from itertools import pairwise

from airflow.sdk import DAG, AssetOrTimeSchedule, MultipleCronTriggerTimetable

from penstock_airflow import forms, wiring
from penstock_airflow.scaling import Phase, ScaleOperator, load

TEXT = """
### Scale the cluster

Adds nodes to the cluster of `include/cluster.yaml`, or drains some. Runs by itself when a rule of
that file holds (nodes overloaded, or idle, for long enough) and at the times of its `schedule`.

**Trigger** it with a number of `Nodes` and a `Reason`; without a number it does what the rules say.
`Dry run` only says what would be done.

Each decision is kept with what it went by, and with what came of it: page *Cluster*. **Red** means
that nodes did not come, or did not go, in time: the message says which. **Skipped** means that
there was nothing to do. Streams go on meanwhile, and answers do not depend on nodes.
"""

cluster, _problems = wiring.cluster()
if cluster is not None:
    times = [line.cron for line in cluster.scale.schedule]
    soon = [load(cluster)]
    with DAG(
        dag_id="scale__cluster",
        description="Adds and drains nodes of the cluster",
        doc_md=TEXT,
        schedule=AssetOrTimeSchedule(
            timetable=MultipleCronTriggerTimetable(*times, timezone="UTC"), assets=soon
        )
        if times
        else soon,
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        params=forms.scaling(),
        tags=["penstock", "scale"],
    ):
        tasks = [ScaleOperator(phase=phase.value) for phase in Phase]
        for before, after in pairwise(tasks):
            before >> after
