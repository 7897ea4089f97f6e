"""Airflow DAGs ``audit__<pipeline>``: prove that nothing is lost and every answer is right."""

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable

from penstock_airflow import forms, wiring
from penstock_airflow.operators import SubmitJobOperator

TEXT = """
### Audit of NAME

DESCRIPTION. At one sealed position: every record received is in exactly one of `events` and
`quarantine`; every (record, window) pair of STEPS is accounted for; every closed window that
waits for no correction equals an independent recomputation.

Runs by its schedule, and after each run that corrects or preloads: over what came, closed or was
corrected since the last green audit, and a stretch of what is older. **Trigger** it at any time; it
changes no answer. With `Everything` it goes over all that was ever received.

**Red** means that a critical expectation failed: the message names it, the report (Data Docs)
shows examples. **Skipped** means that no answer could be compared: nothing failed and nothing is
proved. A retry gives the same, so there is none. Green again needs a cause found first;
`correct__NAME` with `Recheck` repairs answers that turned out wrong.
"""

for pipeline in wiring.catalog().pipelines:
    with DAG(
        dag_id=f"audit__{pipeline.name}",
        description=f"Proves the answers: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        # Airflow 3.3 may hold back the last of many asset events until the next one comes (its
        # issue 56050): the time is the guarantee, the asset only makes it soon.
        schedule=AssetOrTimeSchedule(
            timetable=CronTriggerTimetable(pipeline.audit.cron, timezone="UTC"),
            assets=wiring.answers(pipeline.name),
        ),
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        params=forms.audit(),
        tags=["penstock", "audit", pipeline.name],
    ):
        SubmitJobOperator(
            task_id="audit", job="audit", pipeline=pipeline.name, digest=pipeline.digest
        )
