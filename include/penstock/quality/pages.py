"""How Data Docs pages look: ours, complete, without scripts and without any foreign address.

Great Expectations' own pages load sixteen files from five content networks and show nothing
until they have come. These use its site builder and its stores, but a page is plain HTML with
two style sheets that the web mount serves; folded parts are ``<details>``. Having no script
at all, the mount can forbid scripts, and nothing that a record holds can become one.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from html import escape
from typing import Any

from great_expectations.core import ExpectationSuite, ExpectationSuiteValidationResult
from great_expectations.render import (
    RenderedComponentContent,
    RenderedDocumentContent,
    RenderedSectionContent,
    RenderedTableContent,
    TextContent,
)
from great_expectations.render.renderer.page_renderer import (
    ExpectationSuitePageRenderer,
    ValidationResultsPageRenderer,
)
from great_expectations.render.renderer.site_builder import SiteBuilder
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from penstock.quality.bound import bound_of
from penstock.quality.checks import Severity
from penstock.quality.outcome import Outcome, observed_of, read_outcome
from penstock.quality.reports import VIEWS

STATUS = {
    "passed": "Passed",
    "warning": "Passed, with warnings",
    "failed": "Failed",
    "nothing": "Nothing to say",
}
# Rows of the table of numbers: the column, and how a person calls it.
NUMBERS = (
    ("through_seq", "log read up to number"),
    ("records_new", "covered: records since the last green audit"),
    ("records_again", "covered again: older records"),
    ("received", "records received"),
    ("accepted", "= accepted"),
    ("quarantined", "+ quarantined"),
    ("pairs_events", "(record, window) pairs"),
    ("pairs_on_time", "= on time"),
    ("pairs_late", "+ late, or shed"),
    ("pairs_shed", "of these shed"),
    ("pairs_open", "+ in open windows"),
    ("pairs_preloaded", "+ preloaded"),
    ("pairs_excluded", "+ excluded"),
    ("pairs_unaccounted", "+ unaccounted for"),
    ("answers_compared", "answers compared"),
    ("wrong_answers", "wrong"),
    ("missing_answers", "missing"),
    ("extra_answers", "extra"),
    ("doubled_answers", "doubled"),
    ("forged_answers", "forged"),
    ("merged_wrong", "merged unlike those in force"),
    ("timely_miscounted", "timely, miscounted"),
    ("late_miscounted", "late, miscounted"),
    ("pending_answers", "pending a correction"),
    ("overdue_answers", "overdue"),
    ("late_without_answer", "late, without an answer"),
    ("exclusions_wrong", "excluded, miscounted"),
    ("blocks_wrong", "blocks unlike their records"),
    ("files_unreadable", "unreadable files"),
    ("files_changed", "files changed since they were taken"),
    ("plans_overdue", "plans that do not end"),
    ("blocks_overdue", "stands still"),
    ("batches_wrong", "micro-batches unlike the log"),
    ("generations_wrong", "generations unlike the log"),
    ("corrections_wrong", "corrections without their answers"),
)
WAIT = (
    "K and the wait are event time, from a window's end on: the wait is until the newest record of"
    " the block that brought the answer. Only windows that closed under the present policy count."
)
WHOLES = frozenset(
    {"through_seq", "records_new", "records_again", "received", "pairs_events", "answers_compared"}
)
PARTS = frozenset(label for column, label in NUMBERS if column not in WHOLES)


class OfflineSite(SiteBuilder):
    """A site without Great Expectations' index and static files (3.5 MB, mostly animations)."""

    def build(
        self,
        resource_identifiers: Sequence[Any] | None = None,
        build_index: bool = True,  # noqa: ARG002  part of the signature; there is no index here
    ) -> tuple[str | None, None]:
        """Write the pages of the given validations and suites; the index is not written here."""
        for section in self.site_section_builders.values():
            section.run_name_filter = (
                None  # by default runs with "profiling" in their name have no page
            )
            section.build(resource_identifiers=resource_identifiers)
        return self.get_resource_url(only_if_exists=False), None


class OfflineView(DefaultJinjaPageView):
    """Renders with our templates where we have one, else with Great Expectations'."""

    def __init__(  # Great Expectations passes only what the signature names
        self, custom_styles_directory: str | None = None, custom_views_directory: str | None = None
    ) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        self.env.loader = ChoiceLoader([FileSystemLoader(VIEWS), self.env.loader])


class AuditRenderer(ValidationResultsPageRenderer):
    """One audit: the verdict, what failed, examples, the numbers, then every expectation."""

    def render(
        self,
        validation_results: ExpectationSuiteValidationResult,
        suite_parameters: Any = None,  # noqa: ARG002  part of the signature
    ) -> RenderedDocumentContent:
        """Make the content of a page from a stored validation."""
        result = validation_results.to_json_dict()
        outcome = read_outcome(result)
        sections = [
            _section("Verdict", *_verdict(outcome)),
            _section("Not as expected", _failures(outcome)) if outcome.failed else None,
            _section("Examples", _examples(outcome)) if outcome.examples else None,
            _section("Slack: what it costs and brings", *_slacks(outcome))
            if outcome.slacks
            else None,
            _section("Numbers", _numbers(outcome)),
            _section("Expectations", _expectations(result["results"])),
            _section(
                "About this run", self._generate_collapse_content_block([], validation_results)
            ),
        ]
        return RenderedDocumentContent(
            renderer_type="ValidationResultsPageRenderer",
            page_title=f"{outcome.pipeline}: audit {outcome.run_name}",
            expectation_suite_name=validation_results.suite_name,
            sections=[section for section in sections if section],
        )


class SuiteRenderer(ExpectationSuitePageRenderer):
    """What every audit checks: one table, instead of a section for each column."""

    def render(self, expectations: ExpectationSuite) -> RenderedDocumentContent:
        """Make the content of the page from a stored suite."""
        rows = [
            (Severity(each.severity).value, each.description, each.column, each.meta["meaning"])
            for each in expectations.expectations
        ]
        table = _table(
            ("When not", "Expectation", "Column", "Then"),
            rows,
            styled={0: lambda severity: f"severity severity-{severity}"},
        )
        return RenderedDocumentContent(
            renderer_type="ExpectationSuitePageRenderer",
            page_title=f"{expectations.name}: what every audit checks",
            expectation_suite_name=expectations.name,
            sections=[_section("Expectations, for every step", table)],
        )


def _section(name: str, *blocks: RenderedComponentContent) -> RenderedSectionContent:
    return RenderedSectionContent(section_name=name, content_blocks=list(blocks))


def _verdict(outcome: Outcome) -> Iterable[RenderedComponentContent]:
    evaluated = outcome.statistics["evaluated_expectations"]
    held = outcome.statistics["successful_expectations"]
    yield TextContent(
        text=[
            f'<span class="status status-{outcome.status}">{STATUS[outcome.status]}</span>'
            f" {held} of {evaluated} expectations hold."
        ],
        styling={"classes": ["col-12"]},
    )
    for note in outcome.notes:
        yield TextContent(text=[escape(note)], styling={"classes": ["col-12"]})
    yield _table(
        None,
        [
            ("Pipeline", outcome.pipeline),
            ("Run", outcome.run_name),
            ("Audited at", outcome.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")),
        ],
        classes=("facts",),
    )


def _failures(outcome: Outcome) -> RenderedComponentContent:
    return _table(
        ("Severity", "Expected", "Observed", "Meaning"),
        [(f.severity.value, f.claim, f.observed, f.meaning) for f in outcome.failed],
        styled={0: lambda severity: f"severity severity-{severity}"},
    )


def _examples(outcome: Outcome) -> RenderedComponentContent:
    return _table(
        ("Step", "Window start", "Key", "What", "Expected", "Found"),
        [(e.step, e.window_start, e.key, e.what, e.expected, e.found) for e in outcome.examples],
    )


def _slacks(outcome: Outcome) -> Iterable[RenderedComponentContent]:
    header, *rows = outcome.slacks
    yield TextContent(text=[WAIT], styling={"classes": ["col-12"]})
    yield _table(header, rows)


def _numbers(outcome: Outcome) -> RenderedComponentContent:
    return _table(
        ("", *(row["step"] for row in outcome.comparisons)),
        [
            (label, *(f"{row[column]:,}" for row in outcome.comparisons))
            for column, label in NUMBERS
        ],
        classes=("numbers",),
        styled={0: lambda label: "part" if label in PARTS else "whole"},
    )


def _expectations(results: Sequence[Any]) -> RenderedComponentContent:
    def marked(each: Any) -> str:
        return "holds" if each["success"] else f"fails: {each['expectation_config']['severity']}"

    rows = [
        (
            marked(each),
            each["expectation_config"]["description"],
            each["expectation_config"]["kwargs"]["column"],
            "" if each["success"] and bound_of(each) is None else observed_of(each),
        )
        for each in results
    ]
    return _table(
        ("", "Expectation", "Column", "Observed"),
        rows,
        styled={0: lambda mark: f"severity severity-{mark.removeprefix('fails: ')}"},
    )


def _table(
    header: Sequence[str] | None,
    rows: Iterable[Sequence[object]],
    *,
    classes: Sequence[str] = (),
    styled: dict[int, Callable[[str], str]] | None = None,
) -> RenderedComponentContent:
    """A table whose cells are text: Great Expectations itself does not escape plain cells."""

    def cell(column: int, value: object) -> str:
        text = escape(str(value))
        style = (styled or {}).get(column)
        return f'<span class="{style(text)}">{text}</span>' if style else text

    return RenderedTableContent(
        header_row=[escape(name) for name in header] if header else None,
        table=[[cell(column, value) for column, value in enumerate(row)] for row in rows],
        styling={
            "classes": ["col-12", "table-responsive"],
            "body": {"classes": ["table", "table-sm", *classes]},
        },
    )
