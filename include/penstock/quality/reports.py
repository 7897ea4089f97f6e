"""The files of a pipeline's site: its reports, how many are kept, its index and its state.

Layout below the site, what the web mount serves:

    index.html                          all kept audits, the newest first
    latest.json, audits.json            the newest audit; all kept ones, the newest first
    expectations/<pipeline>.html        what every audit checks
    timely-<step>.svg                   how good a step's timely answers were
    validations/<pipeline>/<run>/<instant>/<batch>.html    one audit
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from jinja2 import Environment, FileSystemLoader

from penstock.core.crash import reached
from penstock.core.errors import TransientError
from penstock.quality.outcome import NOTHING, Outcome

KEPT_REPORTS = 50
VIEWS = Path(__file__).parent / "assets" / "views"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.~:+-]")  # what Airflow allows in the id of a run


class ReportError(TransientError):
    """Great Expectations did not write the page of an audit."""

    def __init__(self, pipeline: str, page: Path) -> None:
        self.pipeline, self.page = pipeline, page
        super().__init__(
            f"{pipeline}: the report {page} was not written; Great Expectations' own error stands"
            " in the log above. The audit itself is complete: run it again for a report."
        )


def safe_name(run_name: str) -> str:
    """A run's name as a folder's name: no separators, not hidden, not endless."""
    return _UNSAFE.sub("_", run_name).lstrip(".")[:150] or "run"


@dataclass(frozen=True, slots=True)
class Appendix:
    """What a report carries besides its verdict.

    Args:
        pictures: for the site, SVG by file name.
        notes: what there is to know, for people.
        slacks: a table of what slacks cost and bring, its header first; empty: nothing is known.
    """

    pictures: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    slacks: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Reports:
    """The site of one pipeline and the store of validations it is made from.

    Args:
        site: folder of the site.
        store: folder of Great Expectations' validation results, laid out as the site's
            ``validations``.
        kept: how many audits stay.
    """

    site: Path
    store: Path
    kept: int = KEPT_REPORTS

    def prune(self) -> None:
        """Remove all but the newest ``kept`` validations, with their pages."""
        results = sorted(self.store.glob("*/*/*/*.json"), key=lambda path: path.parts[-2])
        for result in results[: -self.kept]:
            page = self.site / "validations" / result.relative_to(self.store).with_suffix(".html")
            for path, top in ((page, self.site), (result, self.store)):
                path.unlink(missing_ok=True)
                _remove_empty(path.parent, top)

    def record(self, outcome: Outcome, page: PurePosixPath) -> str:
        """Enter an audit whose page exists, and write index and state anew.

        Args:
            outcome: what the audit found.
            page: its page, relative to the site.

        Returns:
            The page's URL path, relative to the site.

        Raises:
            ReportError: there is no such page.
        """
        if not (self.site / page).is_file():
            raise ReportError(outcome.pipeline, self.site / page)
        entry = _entry(outcome, quote(str(page)))
        others = (each for each in self._audits() if each["report"] != entry["report"])
        audits = [
            each
            for each in sorted((entry, *others), key=lambda each: each["at"], reverse=True)
            if (self.site / unquote(each["report"])).is_file()
        ][: self.kept]
        _replace(self.site / "index.html", _index(outcome.pipeline, audits))
        _replace(self.site / "audits.json", json.dumps(audits, indent=1))
        _replace(self.site / "latest.json", json.dumps(audits[0], indent=1))
        return str(entry["report"])

    def illustrate(self, pictures: Mapping[str, str]) -> None:
        """Write pictures anew: SVG by file name."""
        for name, picture in pictures.items():
            _replace(self.site / name, picture)

    def _audits(self) -> list[dict[str, Any]]:
        try:
            return list(json.loads((self.site / "audits.json").read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return []


def _entry(outcome: Outcome, report: str) -> dict[str, Any]:
    severities = [failed.severity.value for failed in outcome.failed]
    return {
        "pipeline": outcome.pipeline,
        "run_name": outcome.run_name,
        "at": outcome.at.astimezone(UTC).isoformat(timespec="seconds"),
        "success": None if outcome.status == NOTHING else not outcome.critical,
        "status": outcome.status,
        "expectations": outcome.statistics["evaluated_expectations"],
        "failed": {name: severities.count(name) for name in ("critical", "warning", "info")},
        "claims": [failed.claim for failed in outcome.critical],
        "notes": list(outcome.notes),
        "steps": len(outcome.comparisons),
        "through_seq": max((row["through_seq"] for row in outcome.comparisons), default=None),
        "answers_compared": sum(row["answers_compared"] for row in outcome.comparisons),
        "report": report,
    }


def _index(pipeline: str, audits: list[dict[str, Any]]) -> str:
    views = Environment(loader=FileSystemLoader(VIEWS), autoescape=True)
    return views.get_template("index.j2").render(pipeline=pipeline, audits=audits)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the former or the new text, never a part."""
    draft = path.with_name(f".{path.name}.new")
    reached("before report")
    draft.write_text(text)
    draft.replace(path)
    reached("after report")


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
