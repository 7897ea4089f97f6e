"""The suite on Great Expectations itself: verdicts, reports, order among writers, pruning."""

import json
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest

from penstock.quality import suite
from penstock.quality.checks import CHECKS, Severity
from penstock.quality.comparisons import complete
from penstock.quality.lock import ReportsBusyError, locked
from penstock.quality.reports import Appendix, safe_name
from penstock.quality.suite import SuiteResult, run_suite

Make = Callable[..., pd.DataFrame]
Audit = Callable[..., SuiteResult]

FOREIGN = re.compile(r"""(?:src|href)\s*=\s*["']?\s*(?:[a-z]+:)?//|url\(|@import|<script""", re.I)


def page_of(tmp_path: Path, result: SuiteResult) -> str:
    return (tmp_path / "flights" / unquote(result.report)).read_text()


def example(what: str, key: str = "JFK") -> str:
    item = {"window_start": "2013-10-03T12:15:00Z", "key": {"site": key}, "what": what}
    return json.dumps([item | {"expected": 31, "found": 30}])


def test_clean_comparisons_are_green(audit: Audit, comparisons: Make, tmp_path: Path) -> None:
    result = audit(comparisons())
    assert (result.success, result.failed) == (True, ())
    assert result.expectations == result.statistics["successful_expectations"] == len(CHECKS) + 2
    latest = json.loads((tmp_path / "flights" / "latest.json").read_text())
    assert latest["success"] is True
    assert latest["report"] == result.report
    assert latest["at"] == "2013-10-01T00:00:00+00:00"
    assert latest["failed"] == {"critical": 0, "warning": 0, "info": 0}


RED = (
    "numbers_missing", "numbers_doubled", "pairs_unaccounted", "wrong_answers", "missing_answers",
    "extra_answers", "doubled_answers", "overdue_answers", "late_without_answer", "blocks_wrong",
    "batches_wrong", "generations_wrong", "corrections_wrong", "forged_answers",
    "timely_miscounted", "late_miscounted", "files_unreadable", "plans_overdue",
    "merged_wrong", "exclusions_wrong",
)  # fmt: skip


@pytest.mark.parametrize("value", [3, -3])
def test_each_count_other_than_zero_is_red_and_no_other(
    audit: Audit, comparisons: Make, value: int
) -> None:
    """Of each step another one, so that each is the only one that its expectation sees."""
    clean = comparisons().iloc[0].to_dict()
    result = audit(pd.DataFrame([clean | {"step": n, n: value} for n in RED]), steps=RED)
    assert not result.success
    failed = {one.claim: one for one in result.failed}
    assert len(failed) == len(result.failed) == len(RED)
    for column in RED:
        check = next(check for check in CHECKS if check.column == column)
        one = failed[check.claim]
        assert (one.severity, one.meaning) == (Severity.CRITICAL, check.meaning)
        assert one.observed == f"{column}: {value}"


def test_received_must_be_accepted_and_quarantined(audit: Audit, comparisons: Make) -> None:
    (failed,) = audit(comparisons(accepted=989)).failed
    assert failed.claim == "Received = accepted + quarantined."
    assert failed.observed == "sightings_per_plate: 1"


@pytest.mark.parametrize(("steps", "observed"), [
    (["sightings_per_plate"], "missing: sightings_per_site"),
    ([], "missing: sightings_per_plate, sightings_per_site"),
    (["sightings_per_plate", "sightings_per_site", "other"], "unknown: other"),
    (["sightings_per_plate", "sightings_per_plate", "sightings_per_site"],
     "twice: sightings_per_plate"),
])  # fmt: skip
def test_every_step_must_be_there_once(
    audit: Audit, comparisons: Make, steps: list[str], observed: str
) -> None:
    clean = comparisons()
    frame = clean.iloc[[0] * len(steps)].assign(step=steps) if steps else clean.iloc[:0]
    result = audit(frame)
    assert not result.success
    assert [failed.observed for failed in result.failed] == [observed]


@pytest.mark.parametrize(("row", "severity"), [
    ({"quarantined": 51, "accepted": 949}, Severity.WARNING),
    ({"pending_answers": 4}, Severity.INFO),
    ({"answers_compared": 0}, Severity.WARNING),  # of one step: nothing is proved
    ({"readings_unclear": 5500}, Severity.INFO),
    ({"readings_assumed": 5500}, Severity.WARNING),
    ({"files_changed": 2}, Severity.WARNING),
    ({"blocks_overdue": 1}, Severity.WARNING),
])  # fmt: skip
def test_what_is_not_critical_stays_green_and_is_told(
    audit: Audit, comparisons: Make, row: dict[str, int], severity: Severity
) -> None:
    result = audit(comparisons(**row))
    assert result.success
    assert [failed.severity for failed in result.failed] == [severity]


def test_an_audit_that_compared_nothing_has_nothing_to_say(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    frame = comparisons().assign(answers_compared=0)
    note = "s: answers of its former definition <b>"
    result = audit(frame, appendix=Appendix(notes=[note]))
    assert (result.status, result.success) == ("nothing", True), "neither passed nor failed"
    assert "nothing to say" in result.said
    latest = json.loads((tmp_path / "flights" / "latest.json").read_text())
    assert (latest["status"], latest["success"]) == ("nothing", None)
    assert latest["notes"] == [note]
    for page in (page_of(tmp_path, result), (tmp_path / "flights" / "index.html").read_text()):
        assert "Nothing to say" in page
        assert "Passed" not in page
    assert note in unescape(page_of(tmp_path, result))
    red = audit(frame.assign(overdue_answers=1))
    assert red.status == "failed"


def test_a_step_of_which_there_is_nothing_is_not_left_out(audit: Audit, comparisons: Make) -> None:
    compared = comparisons().to_dict("records")[:1]
    rows = complete(compared, ["sightings_per_plate", "sightings_per_site"])
    result = audit(pd.DataFrame(rows))
    assert result.status == "warning"
    assert [failed.observed for failed in result.failed] == ["sightings_per_site: 0"]
    assert audit(pd.DataFrame(complete([], [*rows[0]["step"].split(), "sightings_per_site"])),
                 ).status == "nothing"  # fmt: skip


def test_an_example_is_told_where_it_belongs_and_stands_in_the_report(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    frame = comparisons(wrong_answers=1, numbers_missing=1, examples=example("wrong"))
    result = audit(frame)
    by_claim = {failed.claim: failed for failed in result.failed}
    (shown,) = by_claim["Every compared answer equals its recomputation."].examples
    assert (shown.window_start, shown.key) == ("2013-10-03T12:15:00Z", "site=JFK")
    assert by_claim["Every number of the log stands in events or in quarantine."].examples == ()
    page = page_of(tmp_path, result)
    for text in ("2013-10-03T12:15:00Z", "site=JFK", *by_claim, "wrong"):
        assert text in page


def test_an_example_of_an_unknown_kind_is_not_lost(audit: Audit, comparisons: Make) -> None:
    (failed,) = audit(comparisons(extra_answers=1, examples=example("odd"))).failed
    assert [shown.what for shown in failed.examples] == ["odd"]


def test_a_page_is_complete_and_asks_for_nothing_from_elsewhere(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    audit(comparisons(wrong_answers=1, examples=example("wrong")))
    pages = list((tmp_path / "flights").rglob("*.html"))
    assert len(pages) == 3  # the index, the suite, the audit
    for page in pages:
        text = page.read_text()
        assert not FOREIGN.search(text), page
        sheets = re.findall(r'<link rel="stylesheet" href="([^"]+)"', text)
        top = tmp_path.parent / "static"  # the mount serves sites below docs/, sheets beside it
        assert {(page.parent / sheet).resolve() for sheet in sheets} == {
            (top / name).resolve() for name in ("bootstrap.min.css", "penstock.css")
        }


def test_what_a_record_holds_cannot_become_markup(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    key = "<img src=x onerror=alert(1)> ${x} {{ 7 * 7 }}"
    frame = comparisons(wrong_answers=1, examples=example("wrong", key))
    result = audit(frame, run_name="<script>alert(1)</script>")
    page = page_of(tmp_path, result)
    assert "<img" not in page
    assert key in unescape(page)
    for each in (tmp_path / "flights").rglob("*.html"):
        assert "<script" not in each.read_text()


@pytest.mark.parametrize(("name", "folder"), [
    ("scheduled__2013-10-01T00:00:00+00:00", "scheduled__2013-10-01T00:00:00+00:00"),
    ("../../etc", "_.._etc"),
    ("a/b c", "a_b_c"),
    ("", "run"),
    ("..", "run"),
    ("x" * 400, "x" * 150),
])  # fmt: skip
def test_a_run_name_is_a_harmless_folder(name: str, folder: str) -> None:
    assert safe_name(name) == folder


def test_a_run_of_any_name_gets_its_page(audit: Audit, comparisons: Make, tmp_path: Path) -> None:
    for name in ("manual__profiling", "../x", "a b%2F"):
        assert page_of(tmp_path, audit(comparisons(), run_name=name))


def test_nothing_is_printed(
    audit: Audit, comparisons: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    audit(comparisons())
    audit(comparisons())
    assert capfd.readouterr() == ("", "")


def test_what_a_killed_run_left_half_written_does_no_harm(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    first = audit(comparisons())
    written = [*(tmp_path / ".gx").rglob("*"), *(tmp_path / "flights").glob("*.json")]
    for file in (each for each in written if each.is_file()):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    second = audit(comparisons())
    assert second.success
    assert page_of(tmp_path, second)
    assert page_of(tmp_path, first)


def test_only_the_newest_reports_stay(
    audit: Audit, comparisons: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "KEPT_REPORTS", 2)
    results = [audit(comparisons(), run_name=f"run{n}") for n in range(4)]
    site, store = tmp_path / "flights", tmp_path / ".gx" / "flights" / "gx" / "uncommitted"
    kept = [unquote(result.report) for result in results[-2:]]
    assert {str(p.relative_to(site)) for p in (site / "validations").rglob("*.html")} == {*kept}
    assert len(list((store / "validations").rglob("*.json"))) == 2
    assert {folder.name for folder in (site / "validations" / "flights").iterdir()} == {
        "run2",
        "run3",
    }
    audits = json.loads((site / "audits.json").read_text())
    assert [each["run_name"] for each in audits] == ["run3", "run2"]


def test_the_latest_audit_is_the_newest_also_when_an_older_one_ends_after_it(
    audit: Audit, comparisons: Make, tmp_path: Path
) -> None:
    newest = audit(comparisons(), run_name="newest")
    at = json.loads((tmp_path / "flights" / "latest.json").read_text())["at"]
    earlier = pd.Timestamp(at).to_pydatetime() - timedelta(hours=3)
    audit(comparisons(wrong_answers=1), run_name="older", at=earlier)
    latest = json.loads((tmp_path / "flights" / "latest.json").read_text())
    assert (latest["run_name"], latest["report"]) == ("newest", newest.report)


def audit_twice(folder: Path, name: str, frame: pd.DataFrame) -> list[str]:
    """What one of several processes does."""
    begin = pd.Timestamp("2013-10-01", tz="UTC").to_pydatetime()
    return [
        run_suite(
            frame,
            pipeline="flights",
            steps=sorted(frame["step"]),
            run_name=f"{name}{n}",
            root=folder / ".gx" / "flights",
            site=folder / "flights",
            at=begin + timedelta(hours=n),
        ).report
        for n in range(3)
    ]


def test_audits_of_several_processes_do_not_harm_each_other(
    comparisons: Make, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        runs = [pool.submit(audit_twice, tmp_path, name, comparisons()) for name in "ab"]
        reports = [report for run in runs for report in run.result(timeout=120)]
    assert len(set(reports)) == 6
    for report in reports:
        assert "Passed" in (tmp_path / "flights" / unquote(report)).read_text()
    audits = json.loads((tmp_path / "flights" / "audits.json").read_text())
    assert {each["report"] for each in audits} == {*reports}


def test_a_held_lock_is_reported_not_waited_for_endlessly(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ReportsBusyError), locked(tmp_path / "lock", patience_seconds=0.1):
            pass
        holder.communicate(b"\n")
    with locked(tmp_path / "lock", patience_seconds=0.1):
        pass


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def test_importing_the_suite_does_not_load_the_engine() -> None:
    code = "import sys, penstock.quality.suite; sys.exit('great_expectations' in sys.modules)"
    path = Path(run_suite.__code__.co_filename).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(path)})
