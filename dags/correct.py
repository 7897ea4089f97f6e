"""Airflow DAGs ``correct__<pipeline>``: repair the answers that late records touched."""

from airflow.sdk import DAG, CronDataIntervalTimetable

from penstock_airflow import forms, wiring
from penstock_airflow.operators import SubmitJobOperator

TEXT = """
### Correct the answers of NAME

DESCRIPTION. Windows of STEPS that late records missed are computed again from all records;
the result is appended as a further revision. Correcting twice changes nothing.

- **By itself** (see the schedule): every window that waits for its correction, however old.
- **Trigger** without filling the form: the same, now. With `Windows from` / `Windows to`: only
  windows that start in that range. `Recheck` also computes windows that no late record touched.
  Its logical date and data interval mean nothing here.
- **Backfill**: one run per interval of the schedule, each restricted to its own data interval.

Then `audit__NAME` starts and proves the answers.
"""

for pipeline in wiring.catalog().pipelines:
    with DAG(
        dag_id=f"correct__{pipeline.name}",
        description=f"Repairs late answers: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        schedule=CronDataIntervalTimetable(pipeline.correction.cron, timezone="UTC"),
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        params=forms.correction(),
        tags=["penstock", "correct", pipeline.name],
    ):
        SubmitJobOperator(
            task_id="correct",
            job="correct",
            pipeline=pipeline.name,
            digest=pipeline.digest,
            outlets=[wiring.answers(pipeline.name)],
        )
