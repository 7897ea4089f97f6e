"""Airflow DAGs ``stream__<pipeline>``: see that the stream runs."""

from datetime import timedelta

from airflow.sdk import DAG

from penstock_airflow import wiring
from penstock_airflow.operators import StreamOperator

TEXT = """
### The stream of NAME

DESCRIPTION. Takes in what arrives and answers STEPS in time; `correct__NAME` repairs later.

The one task takes no worker slot. It watches a process of its own that goes on while Airflow
restarts, and that is started again from its last sealed position when it dies or hangs.

| I want to | do |
| --- | --- |
| stop it | pause this DAG, mark the task **failed**: it ends after the running micro-batch |
| start it again | unpause (a live source), or trigger (a bounded one) |
| restart it | **clear** the task |
| change its steps | edit the pipeline's YAML file: within seconds it follows, and goes on |
| change what it reads | edit the file: within half a minute it restarts by itself |

A live stream's runs follow each other every 6 hours without touching the stream. A bounded
source's run ends with success when everything is answered. After more than 6 failed starts in a
row the task fails with the error's text; after 3 such runs the DAG is paused.

Its log: `logs/streams/NAME.log` below Penstock's home folder.
"""

for pipeline in wiring.catalog().pipelines:
    live = pipeline.is_live()
    with DAG(
        dag_id=f"stream__{pipeline.name}",
        description=f"Answers in time: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        schedule="@continuous" if live else None,
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        max_consecutive_failed_dag_runs=3,
        tags=["penstock", "stream", pipeline.name],
    ):
        StreamOperator(
            task_id="stream",
            pipeline=pipeline.name,
            watch_for=timedelta(hours=6) if live else None,
        )
