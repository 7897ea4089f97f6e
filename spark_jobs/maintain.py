"""Compact tables and remove files that no reader needs any more."""

import sys

from penstock.config.kept import catalog_in_force
from penstock.config.settings import Settings
from penstock.control.job import Outcome, run_job
from penstock.core.request import JobRequest
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.storage.tables import Tables


def maintain(request: JobRequest, settings: Settings) -> Outcome:  # noqa: ARG001  every pipeline
    """Every pipeline's tables, one after the other; nothing here needs a JVM."""
    pipelines = catalog_in_force(settings).pipelines
    done = {p.name: maintain_pipeline(Tables(settings.lake_uri, p.name), p) for p in pipelines}
    return {"pipelines": done}


if __name__ == "__main__":
    sys.exit(run_job(maintain, sys.argv[1:]))
