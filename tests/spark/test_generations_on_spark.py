"""History and seed, a changed step, a new slack: generations on real Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.ingest import door
from penstock.lake.log.blocks import HISTORY, slack_changes
from penstock.spark.correct import correct_pipeline, start_epochs
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import RisingClock
from tests.spark.conftest import EACH_FILE, STEPS, Scene, flow, make_scene
from tests.streams import MINUTE, write_files

pytestmark = pytest.mark.spark


def correct(spark: SparkSession, scene: Scene) -> None:
    lake = scene.lake("hourly")
    correct_pipeline(spark, lake.tables, lake.pipeline, RisingClock(), "r")


def test_preloaded_history_is_answered_and_seeds_the_open_panes(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = {"files": str(tmp_path / "history"), "format": "parquet"}
    scene = make_scene(tmp_path, history=history)
    rows = flow(8_000)
    write_files(tmp_path / "history", rows[:5_000], EACH_FILE)
    write_files(tmp_path / "live", rows[5_000:], EACH_FILE)
    lake = scene.lake("hourly")
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    correct(spark, scene)
    scene.answer(spark, blocks=3)
    blocks = blocks_of(lake.tables, lake.pipeline)
    for each in scene.lakes.values():
        epoch = generations(each.tables, each.step)[0]
        assert epoch.seq == 4_999
        expected = ref.run(each.epoch_oracle(), blocks, epoch.block)
        assert expected.preloaded, "there were complete windows"
        timely = rows_by_pair(each.step, timely_answers(each.tables, each.step), "through_seq")
        assert_same(expected.timely, timely)
        assert any(timely[p]["n_records"] > 0 for p in timely)
    correct(spark, scene)
    for each in scene.lakes.values():
        each.check()
        start = generations(each.tables, each.step)[0].block
        expected = ref.run(each.epoch_oracle(), blocks, start)
        found = rows_by_pair(each.step, answers_in_force(each.tables, each.step), "through_seq")
        assert_same(expected.corrected, found, position=False)


def test_a_changed_step_is_a_new_generation_answered_anew_and_the_other_goes_on(
    spark: SparkSession, answered: Scene, truth: dict[str, ref.Answers], tmp_path: Path
) -> None:
    scene = answered.copy(tmp_path)
    steps = dict(scene.config["steps"])
    steps["hourly"] = steps["hourly"] | {"window": {"size": "PT30M"}}
    changed = Scene(tmp_path, scene.config | {"steps": steps})
    changed.answer(spark, blocks=1_000)
    lake, other = changed.lake("hourly"), changed.lake("since")
    assert [g.epoch for g in generations(lake.tables, lake.step)] == [0, 1]
    assert [g.epoch for g in generations(other.tables, other.step)] == [0]
    correct(spark, changed)
    window = ref.Window(30 * MINUTE, 30 * MINUTE)
    old = STEPS["hourly"][1]
    oracle = ref.Step(old.keys, window, old.measures, old.slack)
    blocks = blocks_of(lake.tables, lake.pipeline)
    expected = ref.run(oracle, blocks, len(blocks))
    found = rows_by_pair(lake.step, answers_in_force(lake.tables, lake.step), "through_seq")
    assert_same(expected.corrected, found, position=False)
    in_force = answers_in_force(other.tables, other.step)
    found = rows_by_pair(other.step, in_force, "through_seq")
    assert_same(truth["since"].corrected, found, position=False)


def test_a_new_slack_holds_from_the_next_block(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 256)
    source = {"files": str(tmp_path / "live"), "format": "parquet", "mode": "live"}
    steps = {"hourly": STEPS["hourly"][0]}
    scene = make_scene(tmp_path, source=source, steps=steps)
    rows = flow(9_000)
    write_files(tmp_path / "live", rows[:4_500], EACH_FILE)
    lake = scene.lake("hourly")
    scene.begin()
    lake.ingest()

    def sealed(block: int) -> bool:
        at = position(lake.tables, lake.step)
        return at is not None and at.sealed.block >= block

    first = len(blocks_of(lake.tables, lake.pipeline))
    scene.answer(spark, 1, lambda _: sealed(first))
    edited = scene.config["steps"]["hourly"] | {"slack": {"max_delay": {"bound": "PT30M"}}}
    scene = Scene(tmp_path, scene.config | {"steps": {"hourly": edited}})
    write_files(tmp_path / "live" / "more", rows[4_500:], EACH_FILE)
    lake = scene.lake("hourly")
    lake.ingest()
    last = len(blocks_of(lake.tables, lake.pipeline))
    scene.answer(spark, 1, lambda _: sealed(last))
    assert [c.block for c in slack_changes(lake.tables, "hourly")] in ([0, first], [0, last])
    assert len(generations(lake.tables, lake.step)) == 1
    assert len(sealed_rows(lake.tables, lake.step, 0)) >= 4
    lake.check()
