"""What people are told of a pipeline over the answers of another one."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.lake.serve.above import owed_above, waits_above
from penstock.quality.pictures import pictures
from penstock.runtime.terminal.explain import show_explanation
from penstock.runtime.terminal.removal import remove_pipeline
from penstock.runtime.terminal.show import _owed
from penstock.runtime.terminal.to_remove import StoodOnError
from tests import chains
from tests.lakes import make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

BELOW = """source: {files: gates, format: jsonl}
columns: {gate: string}
event_time: at
steps:
  minute:
    keys: [gate]
    window: {size: PT1M}
    measures: {passed: count(*)}
    slack: {fixed: PT10S}
"""
ABOVE = """source: {pipeline: gates, step: minute}
columns: {passed: long}
steps:
  rush: {window: {size: PT1H}, measures: {most: max(passed)}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "gates.yaml").write_text(BELOW)
    (folder / "rush.yaml").write_text(ABOVE)
    return Settings(home=tmp_path / "home", pipelines=folder)


def test_what_waits_above_is_counted_as_far_as_it_is_known_here(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]))
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(200, 5))
    lake.query()
    lake.ingest()
    lake.query().run()
    one = chains.first(lake)
    two = chains.second(one)
    for each in (one, two):
        each.query()
        each.feed().catch_up()
        each.query().run()
    waiting = chains.late_windows(lake)
    assert waiting
    assert [*waits_above(two.tables, two.pipeline)] == [("first", "s", 0), ("p", "s", waiting)]
    lake.correct()
    assert [*waits_above(one.tables, one.pipeline)] == [("p", "s", waiting)]
    one.feed().catch_up()
    one.query().run()
    assert [*waits_above(one.tables, one.pipeline)] == [("p", "s", 0)]
    drawn = pictures(one.tables, one.pipeline, {})["timely-s.svg"]
    assert "pairs revised" in drawn
    assert "shed" not in drawn
    two.feed().catch_up()
    above, _ = waits_above(two.tables, two.pipeline)
    assert above == ("first", "s", chains.late_windows(one))


def test_what_is_owed_above_is_told(tmp_path: Path) -> None:
    """A step that begins where much is there already is waited for."""
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]))
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(200, 5))
    lake.ingest()
    two = chains.second(chains.first(lake))
    assert [*owed_above(two.tables, two.pipeline)] == [], "nothing has begun"
    lake.query().run()
    assert [*owed_above(two.tables, two.pipeline)] == [("p", "s")]
    assert "nothing comes from it before correct__p has run" in str(_owed("p", "s"))
    lake.correct()
    assert [*owed_above(two.tables, two.pipeline)] == []


def test_the_tree_of_steps_is_drawn(settings: Settings) -> None:
    out = io.StringIO()
    pipeline = Catalog.read(settings.pipelines).pipeline("rush")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    show_explanation(settings, pipeline, now, Console(file=out, width=120))
    said = out.getvalue()
    below, above = said.index("gates.minute: windows of 1 min"), said.index("rush.rush: windows")
    assert said.index("events of gates") < below < above
    assert "slack" not in said
    assert "a record of 2025-12-31 23:59:59.999999 UTC belongs to" in said, "a minute ends there"


def _explained(settings: Settings, pipeline: Pipeline, now: datetime) -> str:
    out = io.StringIO()
    show_explanation(settings, pipeline, now, Console(file=out, width=200))
    return out.getvalue()


def test_a_guest_is_told_whose_log_it_stands_on(settings: Settings) -> None:
    text = BELOW[BELOW.index("steps:") :].replace("minute", "hour")
    (settings.pipelines / "trucks.yaml").write_text("source: {pipeline: gates}\n" + text)
    (settings.home / "gates").mkdir(parents=True)
    now, catalog = datetime(2026, 1, 1, tzinfo=UTC), Catalog.read(settings.pipelines)
    own, guest = (_explained(settings, catalog.pipeline(name), now) for name in ("gates", "trucks"))
    said = f"that of gates: {settings.pipelines}/gates.yaml says what its records are, and their"
    assert said in guest
    assert "that of gates" not in own
    for table in ("pipelines", "steps", "tasks", "shares", "rescalings"):
        assert f"\n  {table} " in own
        assert f"\n  {table} " in guest


def test_a_pipeline_that_others_stand_on_is_not_removed(settings: Settings) -> None:
    with pytest.raises(StoodOnError, match="rush is made of"):
        remove_pipeline(settings, "gates", Console(file=io.StringIO()), sure=True)
    (settings.pipelines / "rush.yaml").unlink()
    assert remove_pipeline(settings, "gates", Console(file=io.StringIO()), sure=True) == 0
