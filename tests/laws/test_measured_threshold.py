"""What is measured of a step, against plain Python over its records; and how it becomes K."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean, median, pvariance
from typing import Any

import pytest

from penstock.columns import watermark
from penstock.config.slack import Quality
from penstock.core import coverage as c
from penstock.lake.ingest import door
from penstock.lake.log.blocks import slack_changes
from penstock.lake.proof.covered import Recorder, newest_rows
from penstock.lake.proof.figures import Figures, figures
from penstock.lake.storage.commit import Table
from penstock.spark.measured import propose_threshold
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake, make_lake
from tests.steps import over
from tests.streams import BEGIN, SECOND, disordered, us, write_jsonl

pytestmark = pytest.mark.law
QUALITY = {"epsilon": 0.1, "delta": 0.1, "records": 50, "cv": 0.3}
STEP = {
    "keys": ["site"],
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {"n": "count(*)", "weight": "sum(bags)"},
    "slack": {"quantile": {"measure_after": "PT60S", "recent": "PT10M"}},
}
ORACLE = ref.Step(
    ("site",),
    ref.Window(60 * SECOND, 20 * SECOND),
    (ref.Measure("n", "count"), ref.Measure("weight", "sum", over("bags"))),
    (),
)


def corrected(home: Path, of: str, ratio: int) -> Lake:
    """A lake whose late records weigh so many times as much as others, corrected and recorded."""
    step = STEP | {"quality": QUALITY | {"of": of}}
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(home, (step, ORACLE), source=source)
    lake.query()
    rows, newest = disordered(1_500, seed=4, apart=2.0, late_share=0.2, late_by=300.0), BEGIN
    for row in rows:
        late = newest - row["event_time"] > timedelta(seconds=60)
        newest = max(newest, row["event_time"])
        row["bags"] = (ratio if late else 1) * (2 + row["event_time"].second % 3)
    write_jsonl(home / "live" / "0.jsonl", rows)
    lake.ingest()
    lake.query(blocks=5).run()
    lake.correct()
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    return lake


@pytest.mark.parametrize("of", ["answer", "total"])
def test_the_figures_are_those_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lake = corrected(tmp_path, of, ratio=2)
    blocks = blocks_of(lake.tables, lake.pipeline)
    truth = ref.run(lake.epoch_oracle(), blocks)
    found = figures(lake.tables, lake.pipeline, lake.step)
    assert found is not None
    values = [r["bags"] for b in blocks for r in b.records if r is not None]
    mean = fmean(values)
    assert found.cv2 == pytest.approx(pvariance(values) / mean**2)
    late = truth.late.values()
    weight, count = (sum(a.values[m].value for a in late) for m in ("weight", "n"))
    assert found.rho == pytest.approx(weight / count / mean)
    assert found.rho > 1.5
    windows = windows_of(truth, lake)
    per = [w["records"] / (w["answers"] if of == "answer" else 1) for w in windows]
    assert found.records == max(2, round(median(per)))
    assert 0 < found.violations < 1
    rows = newest_rows(Table(lake.tables.coverage(lake.step))).to_pylist()
    used = 0.0  # the room, by its definition
    for row in rows:
        if row["threshold"] is not None:
            off = row["answers_beyond"] / row["answers"]
            if of == "total":
                off = float(row["error_observed"] >= QUALITY["epsilon"])
            used = min(max(used + 0.02 * (off - 0.75 * QUALITY["delta"]), 0.0), 2.0)
    assert found.room == pytest.approx(min(used, 1.0))


def windows_of(truth: ref.Answers, lake: Lake) -> list[dict[str, Any]]:
    """The recorded windows, counted anew."""
    recorded = newest_rows(Table(lake.tables.coverage(lake.step)))["window_start"].to_pylist()
    out: dict[int, dict[str, Any]] = {}
    for (start, _), answer in truth.corrected.items():
        one = out.setdefault(start, {"records": 0, "answers": 0})
        one["records"] += answer.n_records
        one["answers"] += 1
    return [out[us(start)] for start in recorded]


def test_heavier_late_values_raise_the_threshold_and_it_holds_from_the_next_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    thresholds = []
    for ratio in (1, 4):
        lake = corrected(tmp_path / str(ratio), "total", ratio)
        propose_threshold(lake.tables, lake.pipeline, lake.step, lake.clock)
        propose_threshold(lake.tables, lake.pipeline, lake.step, lake.clock)
        more = disordered(60, seed=8, begin=BEGIN + timedelta(seconds=3_100))
        write_jsonl(tmp_path / str(ratio) / "live" / "1.jsonl", more)
        assert len(slack_changes(lake.tables, lake.step.name)) == 1, "only proposed"
        block = len(blocks_of(lake.tables, lake.pipeline))
        lake.ingest()
        lake.query(blocks=3).run()
        changes = slack_changes(lake.tables, lake.step.name)
        assert len(changes) == 2, "what is proposed already is not proposed again"
        assert changes[1].block == block
        lake.check()
        tuning = changes[1].spec.tuning
        assert tuning is not None
        thresholds.append(tuning.threshold)
    assert thresholds[1] > thresholds[0] + 0.01


def test_the_threshold_is_the_formula_s_with_more_room_where_answers_were_off(
    tmp_path: Path,
) -> None:
    quality = Quality(epsilon=0.05, delta=0.05)
    step = make_lake(tmp_path, (STEP | {"quality": QUALITY}, ORACLE)).step
    plain = Figures(500, 1.0, {}, 0.0, 0.0)
    needed = c.of_sum(quality.target(), 500, 500 / 499 - 1)
    assert plain.threshold(quality, step.judged) == needed == pytest.approx(0.9659, abs=1e-4)
    more = replace(plain, room=0.25).threshold(quality, step.judged)
    assert more == pytest.approx(needed + 0.25 * (1 - needed))
    assert replace(plain, room=1.0).threshold(quality, step.judged) == 1
    late = replace(plain, late={"weight": 2.0}).threshold(quality, step.judged)
    assert late == c.of_sum(c.QualityTarget(0.025, 0.05), 500, 500 / 499 - 1)
