"""Coverage of each window as it is written down, against the oracle's records."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from rich.console import Console

from penstock.columns import watermark
from penstock.config.settings import Settings
from penstock.core.coverage import predicted_error
from penstock.core.errors import ConfigError
from penstock.lake.history import position as positions
from penstock.lake.history.position import position
from penstock.lake.ingest import door
from penstock.lake.log.blocks import HISTORY
from penstock.lake.proof.covered import Recorder, newest_rows
from penstock.lake.proof.observed import measured, waited
from penstock.runtime.terminal.beside import show_beside
from penstock.spark.correct import start_epochs
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake, make_lake
from tests.laws.test_steered_slack import filled
from tests.steps import CASES
from tests.streams import disordered, write_jsonl

EPSILON = {"quantile": {"mean": 0.3}, "max_delay": {}}
USUAL = {"quantile": 0.1, "max_delay": 0.05}


def recorder(lake: Lake) -> Recorder:
    return Recorder(lake.tables, lake.pipeline, lake.step, lake.clock)


def rows_of(lake: Lake) -> dict[int, dict[str, Any]]:
    rows = newest_rows(recorder(lake).table)
    starts = pc.cast(rows["window_start"], "int64").to_pylist()
    return dict(zip(starts, rows.to_pylist(), strict=True))


def measured_until(lake: Lake) -> int:
    """The last start of a window that can have been measured."""
    at, tuning = position(lake.tables, lake.step), lake.step.slack.tuning
    assert at is not None
    assert tuning is not None
    return at.sealed.state.t_max - tuning.horizon - lake.step.window.size


@pytest.mark.parametrize("slack", EPSILON)
@pytest.mark.parametrize("parts", [1, 4])
def test_every_window_stands_as_the_log_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: str, parts: int
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lake = filled(tmp_path, slack)
    query = lake.query(blocks=6)
    written = 0
    for _ in range(parts - 1):
        for _ in range(5):
            query.work()
        lake.correct()
        written += recorder(lake).record()
        if slack == "quantile":
            assert max(rows_of(lake)) <= measured_until(lake)
    query.run()
    lake.correct()
    written += recorder(lake).record()
    assert recorder(lake).record() == 0, "twice is once"
    found = rows_of(lake)
    assert written >= len(found) > 50
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline))
    windows = {start for start, _ in truth.corrected}
    at = position(lake.tables, lake.step)
    assert at is not None
    every, _ = measured(lake.tables, lake.step, at, lake.tables.events(lake.pipeline.types))
    early = {one.window_start: one for one in every}
    assert found.keys() == windows, "at the end of the source also what was not measured any more"
    assert slack != "quantile" or 0 < len(early.keys() & windows) < len(windows)
    for start, row in found.items():
        assert_row(row, start, truth, {m: EPSILON[slack].get(m, USUAL[slack]) for m in BOUNDED})
        one = early.get(start)
        if one is not None:
            assert (row["records_early"], row["coverage_early"]) == (one.records, one.coverage)
            assert (row["slack_us"], row["threshold"]) == (one.slack, one.threshold)
        seen = row["coverage"] if one is None else one.coverage
        z = lake.pipeline.steps["s"].quality
        target = 1.959964 if z is None else z.target().z
        assert row["error_predicted"] == pytest.approx(
            predicted_error(seen, row["records"], 1.0, target), rel=1e-5
        )


def assert_row(
    row: dict[str, Any], start: int, truth: ref.Answers, below: dict[str, float]
) -> None:
    now = {key: a for (s, key), a in truth.corrected.items() if s == start}
    was = {key: a for (s, key), a in truth.timely.items() if s == start}
    assert row["records"] == sum(a.n_records for a in now.values())
    assert row["records_timely"] == sum(a.n_records for a in was.values())
    assert row["coverage"] == row["records_timely"] / row["records"]
    assert row["answers"] == len(now)
    beyond = [any(error(was.get(k), a, m) >= e for m, e in below.items()) for k, a in now.items()]
    assert row["answers_beyond"] == sum(beyond)
    totals = [total(was, now, m) for m in ("n", "total", "bags_sum", "known")]
    assert row["error_observed"] == pytest.approx(max(totals), rel=1e-6, abs=1e-9)


BOUNDED = ("n", "total", "mean", "bags_sum", "known")


def error(was: ref.Answer | None, now: ref.Answer, name: str) -> float:
    old, new = was and was.values[name].value, now.values[name].value
    return relative(old if was is not None else None, new)


def relative(old: float | None, new: float | None) -> float:
    if old == new:
        return 0.0
    if old is None or new is None or new == 0:
        return 1.0
    return abs(old - new) / abs(new)


def total(was: dict[Any, ref.Answer], now: dict[Any, ref.Answer], name: str) -> float:
    old, new = (sum(a.values[name].value or 0 for a in answers.values()) for answers in (was, now))
    return relative(old, new)


def test_windows_that_an_idle_block_closed_stand_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are answered at the position of the data before it, which is recorded already."""
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lake = filled(tmp_path, "max_delay", mode="live")
    query = lake.query(blocks=6)
    query.run()
    lake.correct()
    before = recorder(lake).record()
    source = lake.pipeline.source.model_copy(update={"idle_after": timedelta(microseconds=1)})
    lake.pipeline = lake.pipeline.model_copy(update={"source": source})
    lake.ingest()
    query.run()
    lake.correct()
    assert recorder(lake).record() > 0
    assert recorder(lake).record() == 0, "twice is once"
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline))
    found = rows_of(lake)
    assert found.keys() == {start for start, _ in truth.corrected}
    assert len(found) > before
    for start, row in found.items():
        assert_row(row, start, truth, dict.fromkeys(BOUNDED, 0.05))


def test_a_controller_that_came_later_leaves_older_rows_without_k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lakes = [filled(tmp_path, "max_delay", mode="live", name=name) for name in "pq"]
    out = Console(record=True, width=160)
    for lake in lakes:
        lake.query(blocks=6).run()
        lake.correct()
        recorder(lake).record()
    lakes[0].edit(slack={"quantile": {}}, quality={"epsilon": 0.1, "delta": 0.1})
    lakes[0].query()
    show_beside(Settings(home=tmp_path), [k.pipeline for k in lakes], lakes[0].pipeline.specs, out)
    assert "quantile" in out.export_text()


def test_two_pipelines_are_put_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lakes = []
    for name, slack in (("p", "quantile"), ("q", "max_delay")):
        lake = filled(tmp_path, slack, name=name)
        lake.query(blocks=6).run()
        lakes.append(lake)
    settings, out = Settings(home=tmp_path), Console(record=True, width=160)
    pipelines = [lake.pipeline for lake in lakes]
    with pytest.raises(ConfigError, match="has no coverage yet: it is written by correct__p"):
        show_beside(settings, pipelines, lakes[0].pipeline.specs, out)
    for lake in lakes:
        lake.correct()
        recorder(lake).record()
    show_beside(settings, pipelines, lakes[0].pipeline.specs, out)
    said = out.export_text()
    for lake, policy in zip(lakes, ("quantile", "max_delay"), strict=True):
        rows = list(rows_of(lake).values())
        line = next(line for line in said.splitlines() if policy in line)
        corrected = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline)).late
        assert f"{len(rows):,}" in line
        assert f"{sum(row['answers'] for row in rows):,}" in line
        assert f"{len(corrected):,}" in line
    picture = (tmp_path / "docs" / "p" / "beside-q-s.svg").read_text()
    assert "<svg" in picture
    other = lakes[1].pipeline.model_copy(update={"steps": {}})
    with pytest.raises(ConfigError, match="no step of the same name"):
        show_beside(settings, (pipelines[0], other), lakes[0].pipeline.specs, out)


def test_what_stood_open_in_the_history_waits_for_no_k(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first micro-batch of an epoch takes no live block; a fixed K is what the file says."""
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    step, oracle = CASES["sites"]
    history = {"files": str(tmp_path / "history"), "format": "jsonl"}
    lake = make_lake(tmp_path, (step | {"slack": {"fixed": "PT1M"}}, oracle), history=history)
    rows = disordered(400, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    write_jsonl(tmp_path / "history" / "0.jsonl", rows[:100])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    query = lake.query(blocks=1_000)
    query.run()
    write_jsonl(tmp_path / "live" / "0.jsonl", rows[100:])
    lake.ingest()
    query.run()
    lake.correct()
    recorder(lake).record()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert [row.state.slack for row in positions.rows_of(lake.tables, lake.step, at)] == [
        0,
        60_000_000,
    ]
    assert [w.slack for w in waited(lake.tables, lake.step, at)] == [60_000_000]
    out = Console(record=True, width=160)
    show_beside(Settings(home=tmp_path), [lake.pipeline] * 2, lake.pipeline.specs, out)
    lines = [line.split() for line in out.export_text().splitlines()]
    assert [line[2:4] for line in lines if line[:2] == ["p", "fixed"]] == [["1", "min"]] * 2
    for slide in (60, 20):  # another definition, and the former one again: all is history to it
        window = {"size": "PT60S", "slide": f"PT{slide}S"}
        lake.edit(window=window)
        lake.query().run()
    with pytest.raises(ConfigError, match="no live block yet since it was defined anew"):
        show_beside(Settings(home=tmp_path), [lake.pipeline] * 2, lake.pipeline.specs, out)
