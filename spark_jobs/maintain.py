"""Freeze what is older than is kept, compact tables, remove files that no reader needs any more."""

import logging
import sys

from penstock.config.kept import catalog_in_force
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.job import Outcome, run_job
from penstock.core.clock import SystemClock
from penstock.core.request import JobRequest
from penstock.lake.cluster.load import forget
from penstock.lake.cluster.scalings import scalings_spec
from penstock.lake.history.maintain import maintain_pipeline, maintain_table
from penstock.lake.history.merging import merge
from penstock.lake.proof.freezing import Freezer
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)


def maintain(request: JobRequest, settings: Settings) -> Outcome:  # noqa: ARG001  every pipeline
    """Every pipeline's tables, one after the other; nothing here needs a JVM."""
    pipelines = catalog_in_force(settings).pipelines
    maintain_table(scalings_spec(settings.lake_uri))
    return {"pipelines": {p.name: maintained(Tables(settings.lake_uri, p.log), p)
                          for p in pipelines}}  # fmt: skip


def maintained(tables: Tables, pipeline: Pipeline) -> Outcome:
    """One pipeline's."""
    said = Freezer(tables, pipeline, SystemClock()).work()
    if said:
        log.info("%s: %s", pipeline.name, said)
    chosen = merge(tables, pipeline)
    found = {name: what for name, what in (("freeze", said), ("answers", chosen)) if what}
    forget(tables, SystemClock().now())
    return found | maintain_pipeline(tables, pipeline)


if __name__ == "__main__":
    sys.exit(run_job(maintain, sys.argv[1:]))
