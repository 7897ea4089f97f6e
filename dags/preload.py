"""Airflow DAGs ``preload__<pipeline>``: take in the history."""

from airflow.sdk import DAG

from penstock_airflow import forms, wiring
from penstock_airflow.operators import SubmitJobOperator
from penstock_airflow.timetables import AskedFor

TEXT = """
### Preload the history of NAME

DESCRIPTION. Puts records of the history through the same door as live ones, answers its complete
windows of STEPS, and leaves open ones to the stream. It never runs by itself.

- **Trigger** without filling the form: the whole history. With `Records from` /
  `Records to`: only that range of event time. Its logical date means nothing here.
- **Backfill**: the range in parts, one run per interval. Records that are in already are not
  taken twice.

Its log says every few seconds how many records are in, how fast, and how long the rest will take.
Best done before the first start of `stream__NAME`; afterwards, too, history is taken in, mostly
as late records, and `correct__NAME` answers for it.
"""

for pipeline in wiring.catalog().pipelines:
    if not pipeline.histories:
        continue
    with DAG(
        dag_id=f"preload__{pipeline.name}",
        description=f"Takes in the history: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        schedule=AskedFor(next(iter(pipeline.histories.values())).cron, timezone="UTC"),
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        params=forms.preload(),
        tags=["penstock", "preload", pipeline.name],
    ):
        SubmitJobOperator(
            task_id="preload",
            job="preload",
            pipeline=pipeline.name,
            digest=pipeline.digest,
            outlets=[wiring.answers(pipeline.name)],
        )
