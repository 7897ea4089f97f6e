"""Parses dags/ twice and prints what came of it as JSON; run in a process of its own."""

import json
import sys
import time
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

ENGINES = ("pyspark", "delta", "great_expectations", "deltalake", "pandas", "duckdb")
folder = Path(sys.argv[1])
began = time.monotonic()
first, second = DagBag(folder), DagBag(folder)
seconds = (time.monotonic() - began) / 2
serialized = {name: DagSerialization.to_dict(dag) for name, dag in first.dags.items()}
again = {name: DagSerialization.to_dict(dag) for name, dag in second.dags.items()}


def facts(name: str) -> dict[str, object]:
    dag = first.dags[name]
    return {
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "description": dag.description,
        "schedule": type(dag.timetable).__name__,
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "pools": sorted({task.pool for task in dag.tasks}),
        "params": {k: dag.params.get_param(k).dump() for k in dag.params},
        "serialized": serialized[name],
    }


print(
    json.dumps(
        {
            "seconds": seconds,
            "dags": {name: facts(name) for name in first.dags},
            "stable": serialized == again,
            "errors": {Path(path).name: text for path, text in first.import_errors.items()},
            "engines": sorted(e for e in ENGINES if e in sys.modules),
        },
        default=str,
    )
)
