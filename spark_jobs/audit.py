"""Recompute a pipeline's answers independently and judge them."""

import sys

import pandas as pd

from penstock.config.settings import Settings
from penstock.control.job import BlockedByQualityError, Outcome, pipeline_of, run_job
from penstock.core.clock import SystemClock
from penstock.core.request import JobRequest
from penstock.lake.audits import record_audit
from penstock.lake.covered import errors_of
from penstock.lake.tables import Tables
from penstock.quality.bound import Errors
from penstock.quality.pictures import pictures
from penstock.quality.suite import run_suite
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.session import open_session, settings_of


def audit(request: JobRequest, settings: Settings) -> Outcome:
    """One pass of Spark over events, then one suite over the comparisons."""
    pipeline = pipeline_of(request, settings)
    tables, clock = Tables(settings.lake_uri, pipeline.name), SystemClock()
    with open_session(f"audit__{pipeline.name}", settings_of(settings)) as spark:
        rows = Audit(spark, tables, pipeline, clock).comparisons(correction_interval(pipeline))
    if not rows:
        return {"audited": 0, "said": "no step has sealed anything yet: nothing to audit"}
    at = clock.now()
    errors = {
        name: Errors(target.epsilon, target.delta, values)
        for step in pipeline.specs
        if (quality := pipeline.steps[step.name].quality) is not None
        for name, target, values in errors_of(tables, step, quality)
    }
    verdict = run_suite(
        pd.DataFrame(rows),
        pipeline=pipeline.name,
        steps=[row["step"] for row in rows],
        run_name=request.run_id,
        root=settings.docs / ".gx" / pipeline.name,
        site=settings.docs / pipeline.name,
        at=at,
        errors=errors,
        pictures=pictures(tables, pipeline),
    )
    failed = [f"{f.claim}: {f.observed}" for f in verdict.failed]
    record_audit(tables, request.run_id, at, rows, verdict.success, failed)
    outcome = {"audited": len(rows), "report": verdict.report, "failed": failed}
    if not verdict.success:
        said = "; ".join([*failed, *(str(e) for f in verdict.failed for e in f.examples[:3])])
        raise BlockedByQualityError(f"{pipeline.name}: {said}. Report: {verdict.report}", outcome)
    return outcome


if __name__ == "__main__":
    sys.exit(run_job(audit, sys.argv[1:]))
