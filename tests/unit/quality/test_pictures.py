"""Pictures of timely answers: what they say is what the table holds."""

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns import watermark
from penstock.core.shedding import Model, Shedding
from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.view import answers_at
from penstock.lake.ingest import door
from penstock.lake.proof.covered import Recorder, newest_rows
from penstock.lake.proof.worth import all_worths
from penstock.lake.proof.worth_told import in_short
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.quality import pictures as pictures_module
from penstock.quality.courses import courses
from penstock.quality.pictures import POINTS, pictures
from tests.joins import CASES as JOINS
from tests.joins import check_settled, join_lake
from tests.joins import seen as seen_near
from tests.lakes import Lake, make_lake, some_rows
from tests.laws.test_steered_slack import filled
from tests.lookups import lookup_lake, seen
from tests.steps import CASES
from tests.streams import write_jsonl


def words(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)  # noqa: S314  drawn here
    return [text.strip() for text in root.itertext() if text.strip()]


def recorded(home: Path, slack: str) -> Lake:
    lake = filled(home, slack)
    lake.query(blocks=6).run()
    lake.correct()
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    return lake


def drawn(lake: Lake) -> dict[str, str]:
    return pictures(lake.tables, lake.pipeline, all_worths(lake.tables, lake.pipeline))


@pytest.mark.parametrize("slack", ["quantile", "max_delay"])
def test_a_picture_says_what_came_of_a_step_s_slack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: str
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)
    lake = recorded(tmp_path, slack)
    found = drawn(lake)
    assert [*found] == ["timely-s.svg"]
    said = words(found["timely-s.svg"])
    rows = newest_rows(Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).table)
    off, answers = (sum(rows[name].to_pylist()) for name in ("answers_beyond", "answers"))
    epsilon = "epsilon" if slack == "quantile" else "0.05"
    counted = f"{off:,} of {answers:,} timely answers were off by {epsilon} or more"
    title = f"slack {slack}; {counted}"  # the page names the step above it
    assert title in said
    found_worth = all_worths(lake.tables, lake.pipeline)["s"]
    assert in_short(found_worth) in " ".join(said), "the wait and the rates"
    steered = {"slack K, s", "needed", "at most wanted"}
    assert steered & {*said} == (steered if slack == "quantile" else set())
    assert found == drawn(lake), "the same table gives the same picture"
    points = re.findall(r"<use ", found["timely-s.svg"])
    series = 4 if slack == "quantile" else 3
    assert min(rows.num_rows, POINTS) < len(points) < (series + 1) * POINTS
    assert not {"1.02", "102"} & {*said}


def test_no_line_is_drawn_through_a_gap() -> None:
    slide = 60
    starts = np.array([0, 60, 120, 600, 660, 6_000])
    runs = pictures_module._runs(starts, slide)
    assert [[list(part) for part in run] for run in runs] == [[[0], [1], [2]], [[3], [4]], [[5]]]
    many = np.arange(5_000) * 2 * slide
    assert len(pictures_module._runs(many, slide)) == POINTS // 4 + 1
    assert sum(map(len, pictures_module._runs(np.arange(5_000) * slide, slide))) == POINTS


def test_nothing_recorded_is_no_picture(tmp_path: Path) -> None:
    lake = filled(tmp_path, "max_delay")
    assert drawn(lake) == {}


def test_of_newest_records_no_size_of_an_error_is_drawn(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["seen"])
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(120, seed=3))
    lake.ingest()
    lake.query().run()
    lake.correct()
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    said = words(drawn(lake)["timely-s.svg"])
    assert f"slack {lake.step.slack.policy}" in said
    assert "in time" in said
    assert not any("off" in text for text in said)


def test_a_picture_says_how_alarms_were_told(tmp_path: Path) -> None:
    rows = seen(random.Random(3), 90)  # noqa: S311
    lake = lookup_lake(tmp_path, "consecutive", keep=2)
    assert drawn(lake) == {}
    query = lake.query()
    for number in range(9):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[10 * number :][:10])
        lake.ingest()
        while query.work():
            pass
        if number % 3 == 1:
            lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    every = answers_at(lake.tables, lake.step, at).to_pylist()
    every.sort(key=lambda row: (row["through_seq"], row["revision"]))
    last = {(row["new_seq"], row["old_seq"]): row for row in every}.values()
    how = {"speed": "at once", "late": "by a correction"}
    counts = Counter(how[r["reason"]] if r["n_records"] else "taken back" for r in last)
    assert len(counts) == 3
    found = drawn(lake)
    said = ", ".join(
        f"{counts[name]} {name}" for name in ("at once", "by a correction", "taken back")
    )
    assert said in words(found["timely-s.svg"])
    assert found == drawn(lake), "the same tables give the same picture"


def shed_meanwhile(lake: Lake, rows: list[Any]) -> None:
    """Half of it comes while a part is shed, then a correction."""
    lake.query()
    for number, (ratio, some) in enumerate(((0, rows[:40]), (60, rows[40:80]), (0, rows[80:]))):
        lake.shed(ratio)
        write_jsonl(lake.home / "live" / f"{number}.jsonl", some)
        lake.ingest()
        lake.query(blocks=1).run()
    lake.correct()


def numbers_of(lake: Lake, names: Sequence[str]) -> list[int]:
    rows = read_table(Table(lake.tables.control(lake.step)))
    return [sum(n or 0 for n in rows[name].to_pylist()) for name in names]


def test_a_picture_of_pairs_says_what_was_compared_and_shed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    lake = join_lake(tmp_path, "far")
    shed_meanwhile(lake, seen_near(random.Random(5), 120, 1.0))  # noqa: S311
    pairs = check_settled(lake, JOINS["far"])
    compared, told = numbers_of(lake, ["compared", "answers"])
    known = balance(lake.tables, lake.step)
    assert known is not None
    assert 0 < told < pairs < compared
    assert known.shed
    said = words(drawn(lake)["timely-s.svg"])
    assert f"{told} at once, {pairs - told} by a correction" in said
    assert (
        f"{told / compared:.2%} of {compared:,} candidates compared are pairs told at once;"
        f" {known.shed} of {known.pairs} records shed"
    ) in said
    assert {"said at once, %", "shed, %", "pairs of candidates"} <= {*said}


def test_a_picture_of_windows_says_what_was_shed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    lake = make_lake(tmp_path, CASES["sites"])
    shed_meanwhile(lake, some_rows(120, seed=3))
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    known = balance(lake.tables, lake.step)
    assert known is not None
    assert known.shed
    said = words(drawn(lake)["timely-s.svg"])
    assert "shed, %" in said
    assert any(f"{known.shed} of {known.pairs} (record, window) pairs shed" in s for s in said)


@pytest.mark.parametrize(
    ("micro_batches", "points"), [(0, 0), (1, 1), (POINTS, POINTS), (999, 200)]
)
def test_many_micro_batches_are_one_point(tmp_path: Path, micro_batches: int, points: int) -> None:
    step = join_lake(tmp_path, "far").step
    may = Shedding(Model.LINEAR, 0.5, 0.5, 10**7)
    count = np.arange(micro_batches)
    rows = pa.table({
        "t_max_us": count * 10**6, "compared": np.full(len(count), 8), "answers": count % 3,
        "shed": pa.array([None if n % 2 else 50 for n in count], pa.int64()),
    })  # fmt: skip
    found = courses(rows, dataclasses.replace(step, shed=may))
    assert [len(course.when) for course in found] == [points] * (2 if points else 0)
    for course, part in zip(found, (count % 3 / 8, (count % 2 == 0) / 2), strict=points > 0):
        means = [100 * run.mean() for run in np.array_split(part, points)]
        assert course.shares == pytest.approx(means)
