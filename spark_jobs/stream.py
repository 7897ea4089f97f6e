"""Run one pipeline's stream: ingest and every step, until stopped or ended."""

import sys

from penstock.config.settings import Settings
from penstock.control.job import Outcome, pipeline_of, run_job
from penstock.core.clock import SystemClock
from penstock.core.request import JobRequest
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.heart import Heart
from penstock.runtime.streams.linked import LinkedPipelines
from penstock.runtime.streams.paths import StreamPaths
from penstock.spark.alike import require_alike
from penstock.spark.load import watched
from penstock.spark.session import open_session, settings_of_a_stream
from penstock.spark.stream_host import StreamHost


def stream(request: JobRequest, settings: Settings) -> Outcome:
    """Read the pipeline, hold the driver's lock, open Spark, run."""
    pipeline = pipeline_of(request, settings)
    tables = Tables(settings.lake_uri, pipeline.log)
    with (
        Heart(StreamPaths(settings.streams, pipeline.log)) as heart,
        open_session(f"stream__{pipeline.log}", settings_of_a_stream(settings)) as spark,
    ):
        require_alike(spark, settings)
        clock = SystemClock()
        host = StreamHost(
            spark, tables, pipeline, settings.home, clock, heart, shards=settings.shards,
            linked=LinkedPipelines(settings, pipeline),
        )  # fmt: skip
        with watched(spark, tables, settings, clock, lambda: host.progress):
            host.run()
        return {"pipeline": pipeline.log, "stopped": heart.should_stop()}


if __name__ == "__main__":
    sys.exit(run_job(stream, sys.argv[1:]))
