"""A stream host that takes one block a micro-batch: to be killed in mid-run by a test."""

import sys

from penstock.config.catalog import Catalog
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.storage.tables import Tables
from penstock.spark import results
from penstock.spark.session import open_session, settings_of
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse

if __name__ == "__main__":
    settings, results.LARGE = Settings(), 5_000  # some results are written by their tasks
    pipeline = Catalog.read(settings.pipelines).pipeline(sys.argv[1])
    tables = Tables(settings.lake_uri, pipeline.name)
    with open_session("killed", settings_of(settings)) as spark:
        host = StreamHost(spark, tables, pipeline, settings.home, SystemClock(), RecordingPulse())
        host.run(records=1)
