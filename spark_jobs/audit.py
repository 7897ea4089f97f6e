"""Recompute a pipeline's answers independently and judge them."""

import sys

import pandas as pd

from penstock.config.settings import Settings
from penstock.control.job import BlockedByQualityError, Outcome, pipeline_of, run_job, runs_on
from penstock.core.clock import SystemClock
from penstock.core.request import JobRequest
from penstock.lake.history.standing import notes
from penstock.lake.proof.audits import record_audit
from penstock.lake.proof.doubts import all_doubts
from penstock.lake.proof.unsettled import with_unsettled
from penstock.lake.proof.worth import all_worths
from penstock.lake.proof.worth_told import worth_table
from penstock.lake.storage.tables import Tables
from penstock.quality.bound import errors_of
from penstock.quality.comparisons import complete, named
from penstock.quality.pictures import pictures
from penstock.quality.reports import Appendix
from penstock.quality.suite import run_suite
from penstock.runtime.streams.links import reasons
from penstock.spark.alike import require_alike
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.session import open_session, settings_of


def audit(request: JobRequest, settings: Settings) -> Outcome:
    """One pass of Spark over what is to be covered, then one suite over the comparisons."""
    pipeline = pipeline_of(request, settings)
    tables, clock = Tables(settings.lake_uri, pipeline.log), SystemClock()
    with open_session(f"audit__{pipeline.name}", settings_of(settings)) as spark:
        require_alike(spark, settings)
        asked = Audit(spark, tables, pipeline, clock, everything=request.everything)
        found = asked.comparisons(correction_interval(pipeline))
    rows, at = complete(found, [step.id for step in pipeline.specs]), clock.now()
    why = reasons(settings.streams, pipeline.log, pipeline.name)
    rows = with_unsettled(rows, tables, pipeline, settings.home, at, why)
    worths, doubted = all_worths(tables, pipeline), all_doubts(tables, pipeline)
    told = [*notes(tables, pipeline.specs, found, runs_on(settings, pipeline.log)), *doubted]
    verdict = run_suite(
        pd.DataFrame(named(rows, pipeline)), pipeline=pipeline.name, steps=[*pipeline.steps],
        run_name=request.run_id, root=settings.docs / ".gx" / pipeline.name,
        site=settings.docs / pipeline.name, at=at, errors=errors_of(worths),
        appendix=Appendix(pictures(tables, pipeline, worths), told, worth_table(worths)),
    )  # fmt: skip
    failed = [f.told for f in verdict.failed]
    record_audit(tables, pipeline.specs, request.run_id, at, rows, verdict.success, failed)
    outcome = {"audited": len(found), "state": verdict.status, "report": verdict.report,
               "failed": failed, "doubts": doubted, "said": verdict.said}  # fmt: skip
    if not verdict.success:
        said = f"{pipeline.name}: {verdict.told}{asked.missed}. Report: {verdict.report}"
        raise BlockedByQualityError(said, outcome)
    asked.raise_missed()
    return outcome


if __name__ == "__main__":
    sys.exit(run_job(audit, sys.argv[1:]))
