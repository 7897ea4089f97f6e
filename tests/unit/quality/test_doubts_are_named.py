"""What a stream cannot keep its target for is told apart: in explain, show and the audit's page.

Each lake is made so that one thing stands against its target; another one so that nothing does.
"""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from rich.console import Console

from penstock.columns import watermark
from penstock.config.settings import Settings
from penstock.core.request import Job, JobRequest
from penstock.lake.ingest import door
from penstock.lake.proof.covered import Recorder
from penstock.lake.proof.doubts import all_doubts
from penstock.quality.comparisons import COUNTS
from penstock.runtime.terminal.explain import show_explanation
from penstock.runtime.terminal.quality import show_quality
from spark_jobs import audit as job
from tests.doubles import NOON
from tests.lakes import Lake, make_lake
from tests.laws.test_measured_threshold import ORACLE
from tests.streams import BEGIN, disordered, write_jsonl

STEP: dict[str, Any] = {
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {"n": "count(*)", "weight": "sum(bags)"},
    "slack": {"quantile": {"measure_after": "PT60S"}},
    "quality": {"epsilon": 0.1, "delta": 0.1, "cv": 0.3},
}
CAUSES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "K is not known yet": {"quality": STEP["quality"] | {"delta": 0.01}},
    "no feedback yet": {},
    "too few records": {"keys": ["site"]},
    "values decide lateness": {},
}
REMEDY = {
    "K is not known yet": "It comes with more windows",
    "no feedback yet": "Let correct__p run",
    "too few records": "a greater least or epsilon help",
    "values decide lateness": "give it a target of its own",
}


def life_of(home: Path, cause: str) -> Lake:
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(home, (STEP | CAUSES[cause], ORACLE), source=source)
    lake.query()
    rows, newest = disordered(1_500, seed=4, apart=2.0, late_share=0.2, late_by=300.0), BEGIN
    for row in rows:
        late = newest - row["event_time"] > timedelta(seconds=60)
        newest = max(newest, row["event_time"])
        heavy = late and cause == "values decide lateness"
        row["bags"] = (4 if heavy else 1) * (2 + row["event_time"].second % 3)
    write_jsonl(home / "live" / "0.jsonl", rows)
    lake.ingest()
    lake.query(blocks=9).run()
    if cause != "no feedback yet":
        lake.correct()
        Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    return lake


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lake]:
    """A lake by cause; nobody may feed it further."""

    @cache
    def lived(cause: str) -> Lake:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(door, "BLOCK", 16)
            patch.setattr(watermark, "EVERY", 12)
            return life_of(tmp_path_factory.mktemp("life"), cause)

    return lived


def explained(lake: Lake) -> str:
    out = Console(record=True, width=2_000)
    show_explanation(Settings(home=lake.home), lake.pipeline, NOON, out)
    return out.export_text()


def shown(lake: Lake) -> str:
    out = Console(record=True, width=2_000)
    show_quality(Settings(home=lake.home), lake.pipeline, lake.pipeline.specs, out)
    return out.export_text()


def audited(lake: Lake) -> tuple[str, dict[str, Any]]:
    """The page of an audit, with what Spark would have compared given, and its outcome."""
    settings, name = Settings(home=lake.home), lake.pipeline.name
    row = dict.fromkeys(COUNTS, 0) | {"answers_compared": 1, "examples": "[]", "covered": "all"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "open_session", lambda *_: nullcontext())
        patch.setattr(job, "pipeline_of", lambda *_: lake.pipeline)
        patch.setattr(job.Audit, "comparisons", lambda *_: [row | {"step": lake.name}])
        outcome = dict(job.audit(JobRequest(Job.AUDIT, "r", name), settings))
    return (settings.docs / name / unquote(outcome["report"])).read_text(), outcome


@pytest.mark.parametrize("cause", CAUSES)
def test_what_stands_against_a_target_is_named_and_nothing_else(
    lives: Callable[[str], Lake], cause: str
) -> None:
    lake = lives(cause)
    page, outcome = audited(lake)
    places = {"explain": explained(lake), "show": shown(lake), "page": page}
    for place, text in places.items():
        found = {one for one in REMEDY if f"{one}:" in text}
        assert found == {cause} - {"nothing"}, place
        assert REMEDY.get(cause, "") in text, place
    said = all_doubts(lake.tables, lake.pipeline)
    assert outcome["doubts"] == said
    assert len(said) == (cause != "nothing")
    assert all(one.startswith("s: ") and not one.endswith("..") for one in said)


def test_until_k_is_known_the_page_says_so_of_what_is_expected(
    lives: Callable[[str], Lake],
) -> None:
    page, _ = audited(lives("K is not known yet"))
    assert page.count("not known yet") == 5, "a note; expected, observed, limit and verdict"
    assert "are off by it" not in page, "no expectation: nothing is judged"
    page, _ = audited(lives("nothing"))
    assert "expected: at most 7.50% in the long run" in page
    assert "under the present policy, of windows that end after" in page
    assert "at most 7.50% in the long run" in page
    assert "kept" in page or "missed" in page


def test_values_without_a_relative_error_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (STEP, ORACLE), source=source)
    lake.query()
    rows = disordered(1_500, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    for number, row in enumerate(rows):
        row["bags"] = 1 if number % 2 else -1
    write_jsonl(tmp_path / "live" / "0.jsonl", rows)
    lake.ingest()
    lake.query(blocks=9).run()
    lake.correct()
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    said = [one for one in all_doubts(lake.tables, lake.pipeline) if "no feedback: " in one]
    assert len(said) == 1
    assert "a mean near 0 is meaningless" in said[0]


def test_explain_looks_at_answers_that_count_and_at_steps_without_measures(tmp_path: Path) -> None:
    target = STEP["quality"] | {"least": 5_000}
    steps = {
        "s": STEP | {"quality": target},
        "seen": {"kind": "latest", "keys": ["site"], "slack": {"fixed": "PT10S"}},
    }
    lake = make_lake(tmp_path, (STEP, ORACLE))
    lake.config = lake.config | {"steps": steps}
    lake.edit()
    write_jsonl(tmp_path / "live" / "0.jsonl", disordered(300, seed=4))
    text = explained(lake)
    assert "no answer of the sample holds the 5000 from which on it counts" in text
    assert "Step seen" in text
