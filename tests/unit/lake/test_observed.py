"""Observed errors of timely answers, against the oracle's timely and corrected answers."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from penstock.columns import watermark
from penstock.config.settings import Settings
from penstock.config.slack import Quality
from penstock.core.coverage import QualityTarget
from penstock.core.window import micros
from penstock.lake.history.position import Position, position
from penstock.lake.history.view import answers_at, in_force
from penstock.lake.ingest import door
from penstock.lake.proof.covered import Recorder, errors_of, newest_rows
from penstock.lake.proof.observed import beside, measured, newest_errors, observed, waited
from penstock.lake.proof.present import patients_at
from penstock.lake.storage.commit import Table
from penstock.runtime.terminal.quality import show_quality
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake
from tests.laws.test_steered_slack import filled

EPSILON = dict.fromkeys(("n", "total", "mean", "bags_sum", "known"), 0.1) | {"mean": 0.3}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    made = filled(tmp_path, "quantile")
    made.query(blocks=9).run()
    made.correct()
    Recorder(made.tables, made.pipeline, made.step, made.clock).record()
    return made


def at_of(lake: Lake) -> Position:
    at = position(lake.tables, lake.step)
    assert at is not None
    return at


def quality_of(lake: Lake) -> Quality:
    quality = lake.pipeline.steps["s"].quality
    assert quality is not None
    return quality


@pytest.mark.parametrize("least", [1, 6])
def test_the_errors_are_the_oracle_s(lake: Lake, least: int) -> None:
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline))
    quality = quality_of(lake).model_copy(update={"least": least})
    found = {one.measure: one for one in observed(lake.tables, lake.step, at_of(lake), quality)}
    assert {name: one.epsilon for name, one in found.items()} == EPSILON
    for name, one in found.items():
        errors = []
        for pair, now in truth.corrected.items():
            if now.n_records < least:
                continue
            was = truth.timely.get(pair)
            old, new = was and was.values[name].value, now.values[name].value
            if old == new and was is not None:
                errors.append(0.0)
            elif old is None or not new:
                errors.append(0.0 if was is None and new is None else 1.0)
            else:
                errors.append(abs(old - new) / abs(new))
        assert one.answers == len(errors) > 100
        assert one.beyond == sum(e >= EPSILON[name] for e in errors) > 0
        assert one.mean == pytest.approx(sum(errors) / len(errors))
        assert one.greatest == pytest.approx(max(errors))


def test_what_is_shown_names_k_coverage_and_errors(lake: Lake, tmp_path: Path) -> None:
    out = Console(record=True, width=140)
    settings = Settings(home=lake.home)
    show_quality(settings, lake.pipeline, lake.pipeline.specs, out)
    text = out.export_text()
    assert "Slack quantile" in text
    assert "windows measured" in text
    assert [
        line.split()[:2] for line in text.splitlines() if " mean " in line and "0." in line
    ] == [["mean", "0.3"]] * 2, "its errors, and what came of its target"
    assert "values decide lateness: late values of" in text
    steered = [w for w in waited(lake.tables, lake.step, at_of(lake)) if w.steering is not None]
    assert steered
    assert f"{steered[-1].steering['coverage']:.2%}" in text
    events = lake.tables.events(lake.pipeline.types)
    windows, _ = measured(lake.tables, lake.step, at_of(lake), events)
    sums = [sum(w.steering[n] for w in steered) for n in ("windows_measured", "windows_below")]
    assert [len(windows), sum(w.below for w in windows)] == sums
    picture = (settings.docs / "p" / "quality-s.svg").read_text()
    assert "<svg" in picture


def test_the_newest_errors_are_of_the_measure_furthest_off(lake: Lake) -> None:
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline))
    rows = newest_rows(Table(lake.tables.coverage(lake.step)))
    recorded = {micros(start) for start in rows["window_start"].to_pylist()}
    known = patients_at(lake.tables, lake.step, at_of(lake))[""]
    assert known is not None
    assert known.since is not None
    steady = known.since - lake.step.window.size
    assert {start for start in recorded if start <= steady}, "while K was not known yet"
    recorded = {start for start in recorded if start > steady}
    truth.corrected = {p: a for p, a in truth.corrected.items() if p[0] in recorded}
    wanted = []
    for pair, now in sorted(truth.corrected.items(), key=lambda each: each[0][0], reverse=True):
        was = truth.timely.get(pair)
        if now.n_records >= 3:
            wanted.append(max(error_of(was, now, name) for name in EPSILON))
    (found,) = newest_errors(lake.tables, lake.step, [[*EPSILON]], 3)
    assert sorted(found) == pytest.approx(sorted(wanted))
    (some,) = newest_errors(lake.tables, lake.step, [[*EPSILON]], 3, most=50)
    assert some == found[:50]
    assert len(some) == 50 < len(found)
    newest = max(start for start, _ in truth.corrected)
    least = [p for p, a in truth.corrected.items() if p[0] == newest and a.n_records >= 3]
    errors = [
        max(error_of(truth.timely.get(p), truth.corrected[p], m) for m in EPSILON) for p in least
    ]
    assert sorted(found[: len(least)]) == pytest.approx(sorted(errors))


def test_answers_with_records_of_the_history_are_left_out(lake: Lake) -> None:
    """A late record came to a window of the history: no timely answer was ever due."""
    rows = answers_at(lake.tables, lake.step, at_of(lake))
    last = in_force(rows, lake.step).slice(0, 5)
    reason = rows.schema.get_field_index("reason")
    past = last.set_column(reason, "reason", pa.array(["backfill"] * 5))
    with beside(rows, lake.step) as (connection, joined):
        before = connection.execute(f"SELECT count(*) FROM {joined}").fetchall()[0][0]
    with beside(pa.concat_tables([past, rows]), lake.step) as (connection, joined):
        after = connection.execute(f"SELECT count(*) FROM {joined}").fetchall()[0][0]
    assert after == before - 5


def test_any_name_of_a_measure_is_fine(lake: Lake) -> None:
    rows = answers_at(lake.tables, lake.step, at_of(lake))
    names = ["row" if name == "known" else name for name in rows.column_names]
    measures = [replace(m, name="row") if m.name == "known" else m for m in lake.step.measures]
    step = replace(lake.step, measures=tuple(measures))
    found = in_force(rows.rename_columns(names), step)
    assert found["row"].equals(in_force(rows, lake.step)["known"])


def test_measures_with_one_target_are_judged_together(lake: Lake) -> None:
    found = {
        name: (target, e) for name, target, e in errors_of(lake.tables, lake.step, quality_of(lake))
    }
    targets = {
        "s: n": QualityTarget(0.1, 0.5),
        "s: total, bags_sum, known": QualityTarget(0.1, 0.4),
        "s: mean": QualityTarget(0.3, 0.4),
    }
    assert {name: target for name, (target, _) in found.items()} == targets
    for name, (_, errors) in found.items():
        names = name.removeprefix("s: ").split(", ")
        assert [errors] == newest_errors(lake.tables, lake.step, [names], 1)
        assert len(errors) > 100
    alone = quality_of(lake).model_copy(update={"measures": {}})
    assert [name for name, *_ in errors_of(lake.tables, lake.step, alone)] == ["s"]


def error_of(was: ref.Answer | None, now: ref.Answer, name: str) -> float:
    old, new = was and was.values[name].value, now.values[name].value
    if was is not None and old == new:
        return 0.0
    return 1.0 if old is None or not new else abs(old - new) / abs(new)
