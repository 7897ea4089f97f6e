"""Append a pipeline's history through the same door, and answer its complete windows."""

import sys

from penstock.config.settings import Settings
from penstock.control.job import Outcome, pipeline_of, run_job
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.request import JobRequest
from penstock.core.window import micros
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.tables import Tables
from penstock.spark.alike import require_alike
from penstock.spark.correct import correct_pipeline, start_epochs
from penstock.spark.crew import SparkCrew
from penstock.spark.session import open_session, settings_of


def preload(request: JobRequest, settings: Settings) -> Outcome:
    """Ingest [start, end) of the history; before a step's first record, answer it too."""
    pipeline = pipeline_of(request, settings)
    if not pipeline.histories:
        raise ConfigError(f"{pipeline.path}: there is no history to preload. Add history: ...")
    clock = SystemClock()
    tables = Tables(settings.lake_uri, pipeline.log)
    since, until = (None if t is None else micros(t) for t in (request.start, request.end))
    with open_session(f"preload__{pipeline.name}", settings_of(settings)) as spark:
        require_alike(spark, settings)
        door = Door(tables, pipeline, settings.home, clock, SparkCrew(spark))
        received = run_through(door, HISTORY, since, until)
        start_epochs(tables, pipeline, clock)
        done = correct_pipeline(spark, tables, pipeline, clock, request.run_id)
    return {"received": received, "answers": done.answers}


if __name__ == "__main__":
    sys.exit(run_job(preload, sys.argv[1:]))
