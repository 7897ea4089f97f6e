"""Repair every answer that late records touched."""

import sys

from penstock.config.settings import Settings
from penstock.control.job import Outcome, pipeline_of, run_job
from penstock.core.clock import SystemClock
from penstock.core.request import JobRequest
from penstock.lake.storage.tables import Tables
from penstock.spark.alike import require_alike
from penstock.spark.correct import correct_pipeline
from penstock.spark.session import open_session, settings_of


def correct(request: JobRequest, settings: Settings) -> Outcome:
    """Freeze the plans, carry them out; with a range, only windows that start in it."""
    pipeline = pipeline_of(request, settings)
    tables = Tables(settings.lake_uri, pipeline.log)
    with open_session(f"correct__{pipeline.name}", settings_of(settings)) as spark:
        require_alike(spark, settings)
        done = correct_pipeline(
            spark,
            tables,
            pipeline,
            SystemClock(),
            request.run_id,
            since=request.start,
            until=request.end,
            recheck=request.recheck,
        )
    return {"answers": done.answers, "changed": done.changed}


if __name__ == "__main__":
    sys.exit(run_job(correct, sys.argv[1:]))
