"""Airflow DAG ``apply__topology``: what pipeline files change, approved and applied."""

from airflow.sdk import DAG

from penstock_airflow import forms, wiring
from penstock_airflow.operators import SubmitJobOperator
from penstock_airflow.topology import (
    ApplyOperator,
    ApproveOperator,
    BuildOperator,
    PlanOperator,
    Task,
)

TEXT = """
### Apply the topology

Says what pipeline files change beside what runs: which steps start, share a run that is there,
are rebuilt from the log, wait otherwise, or end; how many records of the past corrections will
read for that, and how long this takes at the rate of former ones. `penstock plan` prints the same.

What files ask for is followed by itself. With the setting `PENSTOCK_APPROVE=true` an edit that has
a past computed anew is not: the former definition stays in force until a run of this DAG is
approved (*Required Actions*). **Rejected**, it stays.

Approved, and while the stream runs, it is built beside the one in force, which answers meanwhile:
`correct` answers its past, `audit` proves it, then `apply` lets readers switch, all at once. What
was in force before runs on as the version `PIPELINE@former`: **Trigger** with `Take back` lets it
be in force again; `penstock remove PIPELINE@former` ends it.

**Red** means that a step did not begin, or that the edit is not proved: the message says which.
A run that failed goes on where it was when it is cleared.
"""

with DAG(
    dag_id="apply__topology",
    description="Says what pipeline files change, and applies it",
    doc_md=TEXT,
    schedule=None,
    start_date=wiring.EPOCH,
    catchup=False,
    max_active_runs=1,
    params=forms.applied(wiring.former()),
    tags=["penstock", "apply"],
):
    build, apply = BuildOperator(), ApplyOperator()
    correct, audit = (
        SubmitJobOperator.partial(task_id=task.value, job=task.value).expand(pipeline=build.output)
        for task in (Task.CORRECT, Task.AUDIT)
    )
    PlanOperator() >> ApproveOperator() >> build >> correct >> audit >> apply
