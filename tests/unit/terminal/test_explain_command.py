import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core.clock import SystemClock
from penstock.core.slack import SlackSpec, WatermarkState
from penstock.core.window import micros
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.sample import alternatives, effect, queue, read_sample

World = Any
Run = Callable[..., tuple[int, str, str]]

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
COUNT = 6_000


@pytest.fixture
def disordered(world: World) -> World:
    """Records one a second, each held back by up to ten minutes, in three files."""
    folder: Path = world.settings.home / "doors"
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    held = np.where(random.random(COUNT) < 0.3, random.exponential(120, COUNT), 0)
    order = np.argsort(np.arange(COUNT) + np.minimum(held, 600), kind="stable")
    start = datetime(2024, 5, 1, 8, tzinfo=UTC)
    lines = [
        json.dumps(
            {
                "at": (start + timedelta(seconds=int(i))).isoformat(),
                "door": "AB"[i % 2],
                "seconds": float(i % 10),
            }
        )
        for i in order
    ]
    lines[10] = '{"door": "A", "seconds": 1}'
    for n, part in enumerate(np.array_split(np.arange(COUNT), 3)):
        content = "\n".join(lines[i] for i in part)
        (folder / f"{n}.jsonl").write_text(content + "\n")
    return world


def late_by_hand(world: World, step: Any, slack: SlackSpec) -> tuple[int, int]:
    """(record, window) pairs and late ones, record by record, with the core's own functions."""
    sample = read_sample(world.pipeline, world.settings.home, NOW)
    seconds = sample.columns["seconds"].to_pylist() if step.where is not None else None
    records = list(zip(sample.at.tolist(), sample.times.tolist(), strict=True))
    state, newest, marks = WatermarkState(), None, []
    for _, time in records:
        marks.append(state.watermark)
        behind = 0 if newest is None else max(0, newest - time)
        newest = time if newest is None else max(newest, time)
        state = state.after(time, behind, slack)
    pairs = late = 0
    for i, (_, time) in enumerate(records):
        if seconds is not None and not seconds[i] < 5:
            continue
        for start in step.window.windows_of(time):
            pairs += 1
            late += start + step.window.size <= marks[i]
    return pairs, late


@pytest.mark.parametrize("name", ["per_door", "passing"])
def test_the_sample_counts_pairs_as_the_core_does(disordered: World, name: str) -> None:
    step = disordered.pipeline.spec(name)
    sample = read_sample(disordered.pipeline, disordered.settings.home, NOW)

    found = effect(sample, step)

    assert (found.pairs, found.late_pairs) == late_by_hand(disordered, step, step.slack)
    assert sample.refused == {"missing event time": 1}


def test_more_slack_never_makes_more_pairs_late(disordered: World) -> None:
    sample = read_sample(disordered.pipeline, disordered.settings.home, NOW)

    found = list(alternatives(sample, disordered.step).values())

    assert found[0].late_pairs > 0
    assert [e.late_pairs for e in found] == sorted((e.late_pairs for e in found), reverse=True)
    assert found[-1].late_pairs == 0  # as much as the latest record needs


def test_a_landmark_has_no_windows_before_it(disordered: World) -> None:
    path = disordered.settings.pipelines / "doors.yaml"
    landmark = "window: {since: 2024-05-01T09:00:00Z, period: PT1M}"
    path.write_text(path.read_text().replace("window: {size: PT1M}", landmark))
    sample = read_sample(disordered.pipeline, disordered.settings.home, NOW)

    found = effect(sample, disordered.step)

    since = micros(datetime(2024, 5, 1, 9, tzinfo=UTC))
    assert found.pairs == int((sample.times >= since).sum())


def test_a_sample_ends_where_it_is_enough(disordered: World) -> None:
    sample = read_sample(disordered.pipeline, disordered.settings.home, NOW, enough=2_500)

    assert (sample.received, sample.files) == (2_500, 2)


def test_files_that_wait_are_counted(corrected: World) -> None:
    source, home = corrected.pipeline.source, corrected.settings.home
    (home / "doors" / "two.jsonl").write_text("{}\n")

    found = queue(source, home, corrected.tables, "live")

    assert (found.files, found.waiting, found.more) == (2, 1, False)


def test_explain_needs_no_manual(disordered: World, run: Run) -> None:
    status, said, _ = run("explain", "doors")

    assert status == 0
    for phrase in (
        "3 of 3 files",
        "no at",
        "every 15 minutes",
        "of the (record, window) pairs",
        "2 panes of 5 min a window",
        "where seconds < 5",
        "6,000 records",
        "1 missing event time",
        str(disordered.settings.home / "lake" / "doors"),
        "correct__doors",
        "once an event time of",
    ):
        assert phrase in said, phrase


def test_explain_says_what_a_quality_target_promises(disordered: World, run: Run) -> None:
    path = disordered.settings.pipelines / "doors.yaml"
    quality = """slack: {quantile: {}}
    quality: {epsilon: 0.05, delta: 0.1, least: 5, measures: {people: {epsilon: 0.2}}}"""
    path.write_text(path.read_text().replace("slack: {fixed: PT10S}", quality))

    status, said, _ = run("explain", "doors")

    assert status == 0
    text = " ".join(said.split())
    assert (
        "at most 0.1 of the answers of 5 records or more may be off by 0.05 or more, relative"
        in text
    )
    assert "of people at most 0.1, by 0.2 or more" in text
    assert "lateness" in text


@pytest.mark.parametrize(
    ("parallelism", "said"),
    [("3", "tasks 3 "), ("auto", "as many as the load asks for, one more or less at a time")],
)
def test_explain_says_into_how_many_tasks_a_step_is_cut(
    disordered: World, run: Run, parallelism: str, said: str
) -> None:
    file = disordered.settings.pipelines / "doors.yaml"
    assert said not in " ".join(run("explain", "doors")[1].split())
    text = file.read_text().replace(
        "slack: {fixed", f"parallelism: {parallelism}\n    slack: {{fixed"
    )
    file.write_text(text)
    assert said in " ".join(run("explain", "doors")[1].split())


def test_explain_a_landmark_s_average(disordered: World, run: Run) -> None:
    path = disordered.settings.pipelines / "doors.yaml"
    landmark = "window: {since: 2024-05-01T09:00:00Z, period: PT1M}"
    path.write_text(path.read_text().replace("window: {size: PT1M}", landmark))

    status, said, _ = run("explain", "doors")

    assert status == 0
    assert "count of what is averaged" in said


def test_explain_a_source_that_is_not_there_yet(world: World, run: Run) -> None:
    status, said, _ = run("explain", "doors")

    assert status == 0
    assert "the source cannot be read" in said


def test_a_plan_that_waits_for_its_file_is_said(disordered: World) -> None:
    home = disordered.settings.home
    door = Door(disordered.tables, disordered.pipeline, home, SystemClock())
    door._catch_up()
    assert door._plan("live", None, None) is not None
    found = queue(disordered.pipeline.source, home, disordered.tables, "live")

    assert [*found.notices] == ["planned, and not all of it read yet"]
    assert found.waiting == 0


def test_what_is_left_alone_is_said_once(
    disordered: World, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    (disordered.settings.home / "doors" / "more.jsonl.gz").write_bytes(b"")
    _, said, complained = run("explain", "doors")

    assert " ".join(said.split()).count("left alone: a name that does not end in .jsonl") == 1
    assert "more.jsonl.gz" in said
    assert complained + caplog.text == ""


def test_a_source_that_is_no_folder_is_one_message(world: World, run: Run) -> None:
    world.settings.home.mkdir()
    (world.settings.home / "doors").write_text("a file")

    status, _, complained = run("explain", "doors")

    assert status == 1
    assert "its source cannot be listed" in complained
