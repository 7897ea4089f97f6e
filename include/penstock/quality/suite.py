"""Run the audit's Great Expectations suite over its comparisons and write its Data Docs."""

import json
import logging
import shutil
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from penstock.core.crash import reached
from penstock.quality import bound
from penstock.quality.bound import Errors, with_errors
from penstock.quality.checks import (
    CHECKS,
    ONCE_CLAIM,
    ONCE_MEANING,
    STEPS_CLAIM,
    STEPS_MEANING,
    Check,
    Severity,
)
from penstock.quality.comparisons import checked
from penstock.quality.lock import locked
from penstock.quality.outcome import NOTHING, FailedExpectation, read_outcome
from penstock.quality.reports import KEPT_REPORTS, Appendix, Reports, safe_name

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import Checkpoint, ExpectationSuite
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context import FileDataContext
    from great_expectations.expectations.expectation import Expectation

log = logging.getLogger(__name__)

SITE = "penstock"
NO_APPENDIX = Appendix()
PATIENCE_SECONDS = 300.0  # a run takes less than a second, but its machine may be busy


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What the audit of one pipeline found.

    Args:
        success: no critical expectation failed; of nothing compared, too.
        status: ``failed``, ``nothing`` (no answer was compared), ``warning`` or ``passed``.
        failed: every expectation that failed, the gravest first.
        report: URL path of this run's page, relative to the pipeline's site.
        expectations: how many were evaluated.
        statistics: Great Expectations' own counts.
    """

    success: bool
    status: str
    failed: tuple[FailedExpectation, ...]
    report: str
    expectations: int
    statistics: Mapping[str, Any]

    @property
    def said(self) -> str:
        """The verdict in a line."""
        if self.status == NOTHING:
            return "nothing to say: no answer could be compared, so that nothing is proved"
        return self.status

    @property
    def told(self) -> str:
        """What failed, with a few examples."""
        examples = (str(e) for f in self.failed for e in f.examples[:3])
        return "; ".join([*(f.told for f in self.failed), *examples])


def run_suite(
    comparisons: "pd.DataFrame",
    *,
    pipeline: str,
    steps: Collection[str],
    run_name: str,
    root: Path,
    site: Path,
    at: datetime,
    errors: Mapping[str, Errors] | None = None,
    appendix: Appendix = NO_APPENDIX,
) -> SuiteResult:
    """Validate the comparisons, write this run's report and the site's index.

    Several audits of one pipeline may run at once: they take turns.

    Args:
        comparisons: one row a step, columns as in ``penstock.quality.comparisons``.
        pipeline: the pipeline's name.
        steps: names of all steps the pipeline has.
        run_name: the audit's run, for people; need not be unique.
        root: folder of the Great Expectations project, for this pipeline alone.
        site: folder of the pipeline's Data Docs.
        at: instant of the audit, aware.
        errors: of timely answers, for each step with a quality target; too few say nothing.
        appendix: pictures, notes, and what slacks cost and bring.

    Raises:
        ComparisonsError: the table has not the agreed shape.
        ReportsBusyError: another audit of this pipeline did not end in time.
        ReportError: the page could not be written.
    """
    frame = checked(comparisons, pipeline=pipeline)
    bounded = {s: e for s, e in (errors or {}).items() if e.says_something}
    audit = {
        "pipeline": pipeline,
        "run_name": run_name,
        "at": at.isoformat(),
        "notes": list(appendix.notes),
        "slacks": [list(row) for row in appendix.slacks],
        "comparisons": json.loads(frame.to_json(orient="records")),
    }
    reports = Reports(
        site=site, store=root / "gx" / "uncommitted" / "validations", kept=KEPT_REPORTS
    )
    with locked(root / "lock", patience_seconds=PATIENCE_SECONDS), _quiet():
        import great_expectations as gx

        reached("suite begun")
        _forget_configuration(root / "gx")
        reached("suite cleared")
        context = gx.get_context(mode="file", project_root_dir=root)
        batch = _configured(context, site)
        suite = context.suites.add_or_update(
            gx.ExpectationSuite(name=pipeline, expectations=_expectations(steps, audit, bounded))
        )
        validated = _checkpoint(context, suite, batch).run(
            batch_parameters={"dataframe": with_errors(frame, bounded)},
            run_id=gx.RunIdentifier(run_name=safe_name(run_name), run_time=at),
        )
        ((key, result),) = validated.run_results.items()
        outcome = read_outcome(result.to_json_dict())
        reached("suite judged")
        reports.prune()
        context.build_data_docs(site_names=[SITE], resource_identifiers=[key, _key_of(suite)])
        page = PurePosixPath("validations", *key.to_tuple()).with_suffix(".html")
        report = reports.record(outcome, page)
        reports.illustrate(appendix.pictures)
    log.info("audited pipeline=%s status=%s report=%s", pipeline, outcome.status, report)
    return SuiteResult(
        success=not outcome.critical,
        status=outcome.status,
        failed=outcome.failed,
        report=report,
        expectations=outcome.statistics["evaluated_expectations"],
        statistics=outcome.statistics,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the engine's deprecation warnings out of a job's output."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _forget_configuration(project: Path) -> None:
    """Start from an empty configuration: a former run may have been killed while writing it.

    The results of former runs stay; everything else is written anew by each run.
    """
    for name in ("great_expectations.yml", "uncommitted/config_variables.yml"):
        (project / name).unlink(missing_ok=True)
    for name in ("expectations", "checkpoints", "validation_definitions"):
        shutil.rmtree(project / name, ignore_errors=True)


def _configured(context: "FileDataContext", site: Path) -> "BatchDefinition":
    """Set up the project: no telemetry, no progress bars, our pages."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context.enable_analytics(enable=False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.variables.data_docs_sites = {SITE: _site_config(site)}
    context.variables.save()
    source = context.data_sources.add_or_update_pandas("audit")
    return source.add_dataframe_asset("comparisons").add_batch_definition_whole_dataframe("run")


def _site_config(site: Path) -> dict[str, Any]:
    pages = "penstock.quality.pages"
    view = {"module_name": pages, "class_name": "OfflineView"}
    return {
        "module_name": pages,
        "class_name": "OfflineSite",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(site.resolve()),
        },
        "site_section_builders": {
            "expectations": {
                "renderer": {"module_name": pages, "class_name": "SuiteRenderer"},
                "view": view,
            },
            "validations": {
                "renderer": {"module_name": pages, "class_name": "AuditRenderer"},
                "view": view,
            },
            "profiling": "None",
        },
    }


def _expectations(
    steps: Collection[str], audit: Mapping[str, Any], bounded: Mapping[str, Errors]
) -> list["Expectation"]:
    """The suite; its first expectation carries the audit itself, so that a page is complete."""
    import great_expectations.expectations as gxe

    every = gxe.ExpectColumnDistinctValuesToEqualSet(
        column="step",
        value_set=sorted(steps),
        description=STEPS_CLAIM,
        severity=Severity.CRITICAL.value,
        meta={"meaning": STEPS_MEANING, "audit": dict(audit)},
    )
    once = gxe.ExpectColumnValuesToBeUnique(
        column="step",
        description=ONCE_CLAIM,
        severity=Severity.CRITICAL.value,
        meta={"meaning": ONCE_MEANING},
    )
    bounds = [bound.expectation(step, errors) for step, errors in bounded.items()]
    return [every, once, *map(_expectation, CHECKS), *bounds]


def _expectation(check: Check) -> "Expectation":
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeBetween(
        column=check.column,
        min_value=check.least,
        max_value=check.greatest,
        description=check.claim,
        severity=check.severity.value,
        meta={"meaning": check.meaning},
    )


def _checkpoint(
    context: "FileDataContext", suite: "ExpectationSuite", batch: "BatchDefinition"
) -> "Checkpoint":
    """What runs the suite over a batch; its results are kept in the project's store."""
    import great_expectations as gx

    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=suite.name, data=batch, suite=suite)
    )
    return context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=suite.name,
            validation_definitions=[definition],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["step"],
            },
        )
    )


def _key_of(suite: "ExpectationSuite") -> Any:
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
    )

    return ExpectationSuiteIdentifier(name=suite.name)
