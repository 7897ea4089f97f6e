"""Airflow DAGs ``query__<pipeline>``: ask the answers, or once the log, by a form."""

from airflow.sdk import DAG

from penstock_airflow import forms, wiring
from penstock_airflow.asking import QueryOperator

TEXT = """
### Ask NAME

DESCRIPTION. **Trigger** it with `SQL` (DuckDB) over the views of STEPS, `events` and `quarantine`.
`As of` shows what all steps had said at an earlier moment: a record's number, an event time, or a
snapshot of the pipeline file.

Of a join also what nobody asked for when it came: choose it at `Pairs`, write a `Condition` over
`left.x` and `right.x`, and a period of left records; without SQL all pairs are the result, with SQL
their view is `asked`.

The newest results stand on the page *Queries*, and each is a Parquet file to take away. Nothing is
changed by asking.
"""

for pipeline in wiring.catalog().pipelines:
    with DAG(
        dag_id=f"query__{pipeline.name}",
        description=f"Answers questions: {pipeline.description}",
        doc_md=wiring.explain(TEXT, pipeline),
        schedule=None,
        start_date=wiring.EPOCH,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,  # it only does what it is asked
        params=forms.query(wiring.joins(pipeline)),
        tags=["penstock", "query", pipeline.name],
    ):
        QueryOperator(task_id="query", pipeline=pipeline.name)
