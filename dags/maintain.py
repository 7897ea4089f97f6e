"""Airflow DAG ``maintain__lake``: keep the tables small and quick."""

from airflow.sdk import DAG, CronDataIntervalTimetable

from penstock_airflow import wiring
from penstock_airflow.operators import SubmitJobOperator

TEXT = """
### Maintain the lake

Compacts the small files of all tables and removes files that no reader needs any more. Where a
pipeline says `keep`, it freezes what is older: records go, answers stay. Runs every quarter of an
hour; trigger it at any time, there is nothing to fill in.
"""

with DAG(
    dag_id="maintain__lake",
    description="Compacts the tables and removes files nobody needs",
    doc_md=TEXT,
    schedule=CronDataIntervalTimetable("*/15 * * * *", timezone="UTC"),
    start_date=wiring.EPOCH,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["penstock", "maintain"],
):
    SubmitJobOperator(task_id="maintain", job="maintain")
