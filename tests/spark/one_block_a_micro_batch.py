"""A stream host that takes one block a micro-batch: to be killed in mid-run by a test.

Its arguments are the pipeline and, for larger micro-batches, how many records each has. It stops
once a file ``stop`` lies in its home folder.
"""

import sys

from penstock.config.catalog import Catalog
from penstock.config.settings import Settings
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.lake.storage.tables import Tables
from penstock.spark import results
from penstock.spark.alike import require_alike
from penstock.spark.load import watched
from penstock.spark.session import open_session, settings_of
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse

if __name__ == "__main__":
    settings, clock = Settings(), SystemClock()
    results.LARGE = 5_000  # some results are written by their tasks
    pipeline = Catalog.read(settings.pipelines).pipeline(sys.argv[1])
    tables = Tables(settings.lake_uri, pipeline.name)
    pulse = RecordingPulse(lambda _: (settings.home / "stop").exists())
    with open_session("killed", settings_of(settings)) as spark:
        require_alike(spark, settings)
        host = StreamHost(spark, tables, pipeline, settings.home, clock, pulse)
        with watched(spark, tables, settings, clock, lambda: host.progress):
            host.run(Bounds.fixed(int(sys.argv[2]) if len(sys.argv) > 2 else 1))
