"""Airflow DAGs ``correct_soon__<pipeline>``: repair before the next scheduled run."""

from airflow.sdk import DAG

from penstock_airflow import wiring
from penstock_airflow.operators import SubmitJobOperator
from penstock_airflow.watch import late

TEXT = """
### Correct the answers of NAME soon

DESCRIPTION. Starts by itself when late records of STEPS span more event time than
`correction.soon.span`, or wait so long that `correction.soon.within` asks for it. The run repairs
every window that waits, like `correct__NAME`, whose schedule stays the guarantee.

There is nothing to fill in. Then `audit__NAME` starts and proves the answers.
"""

for pipeline in wiring.catalog().pipelines:
    if pipeline.correction.soon is None:
        continue
    with DAG(
        dag_id=f"correct_soon__{pipeline.name}",
        description=f"Repairs late answers soon: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        schedule=[late(pipeline.name)],
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        tags=["penstock", "correct", "correct_soon", pipeline.name],
    ):
        SubmitJobOperator(
            task_id="correct",
            job="correct",
            pipeline=pipeline.name,
            digest=pipeline.digest,
            outlets=[wiring.answers(pipeline.name)],
        )
