"""Answers that maintenance merged are those in force, and are merged when it pays."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.columns.types import INSTANT
from penstock.lake.history import merging, reads
from penstock.lake.history.merged import Merged, in_force_at, merged_at, read_of
from penstock.lake.history.merging import (
    APPEND,
    REWRITE,
    WRITTEN,
    Due,
    Noted,
    due_of,
    merge,
    write,
)
from penstock.lake.history.position import Position, position
from penstock.lake.history.reads import READ, note
from penstock.lake.history.standing import standing
from penstock.lake.history.view import answers_at, in_force
from penstock.lake.serve.export import export
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from penstock.lake.storage import replace as replacing
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.corrected import FILES, corrected
from tests.doubles import Killed
from tests.lakes import Lake, arrive, fed
from tests.steps import CASES, case_of
from tests.worlds import World

CORRECT = Lake.correct


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Files are written again apart, and each read counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "SMALL", 0)
        patch.setattr(merging, "FILE", 1 << 10)
        patch.setattr(merging, "BATCH", 16)
        patch.setattr(reads, "LEAST", 1)
        patch.setattr(reads, "COST", 0.0)
        patch.setattr(reads, "FEW", 0.0)
        yield


def merged(lake: Lake) -> bool:
    """As if it paid; whether there was something to merge."""
    note(lake.tables.merges(), lake.step, READ, 1, 1.0)
    due = looked(lake)
    return due is not None and write(lake.tables, lake.step, due)


def looked(lake: Lake) -> Due | None:
    return due_of(lake.tables, lake.step, Noted.of(lake.tables, lake.step))


def copy_of(lake: Lake) -> Merged | None:
    return merged_at(lake.tables, lake.step, held_at(lake))


def agree(lake: Lake, every: int = 45) -> None:
    """SQL says at some positions what the log of answers says."""
    shown = standing(lake.tables, lake.step)
    if shown is None:
        return
    known = views(lake.tables, lake.pipeline)
    for seq in {*range(shown.at.epoch.seq, shown.at.seq, every), shown.at.seq}:
        rows = in_force(answers_at(lake.tables, shown.step, shown.at.up_to(seq)), shown.step)
        with answered({"s": replace(known["s"], seq=seq)}, "FROM s") as found:
            names = found.columns
            assert alike(found.to_arrow_table()) == alike(rows.select(names)), seq


def alike(rows: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows.to_pylist())


def grown(home: Path, name: str, each: Callable[[Lake], Any]) -> Lake:
    return corrected(home, name, 3, each)


@pytest.mark.parametrize("name", CASES)
def test_readers_see_the_same_whatever_is_merged(tmp_path: Path, name: str) -> None:
    turn = iter(range(FILES))

    def every_other(lake: Lake) -> None:
        if next(turn) % 2 == 0:
            assert merged(lake)
            assert not merged(lake), "nothing is left to merge"
        agree(lake)

    lake = grown(tmp_path, name, every_other)
    held = copy_of(lake)
    assert held is not None
    assert 0 < held.extent.seq < standing_seq(lake), "the last files came after it"
    assert held.count == held.rows.count_rows() > 0


def standing_seq(lake: Lake) -> int:
    shown = standing(lake.tables, lake.step)
    assert shown is not None
    return shown.at.seq


def test_files_that_got_nothing_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[set[str]] = []
    monkeypatch.setattr(merging, "BATCH", 10_000)

    def and_look(lake: Lake) -> None:
        assert merged(lake)
        held = copy_of(lake)
        assert held is not None
        files.append({file.path for file in held.files})

    grown(tmp_path / "late", "sites", and_look)
    assert all(len(some) == 1 for some in files), "late records came to old windows each time"
    assert len(set.union(*files)) == FILES
    files.clear()
    grown(tmp_path / "timely", "both", and_look)
    assert [len(some) for some in files] == [1, 2, 3, 4], "nothing is ever late there"
    assert files[0] < files[1] < files[2] < files[3]


def test_a_correction_of_the_same_position_is_not_hidden(tmp_path: Path) -> None:
    """Its answers lie where the copy already is."""
    seen: list[int] = []

    def at_once(lake: Lake) -> None:
        seen.append(merged(lake))
        agree(lake)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "correct", lambda lake: at_once(lake) or CORRECT(lake))
        lake = grown(tmp_path, "sites", agree)
    held, at = copy_of(lake), held_at(lake)
    assert held is not None
    assert held.extent.seq == at.seq
    assert held.extent.plan < max(at.done)
    assert sum(seen) == FILES


def test_a_copy_that_a_late_planner_has_passed_is_not_taken(tmp_path: Path) -> None:
    """Somebody looked at the position, slept, and plans for it when others are further."""
    olds = list[Position]()

    lake = grown(tmp_path, "sites", lambda lake: olds.append(held_at(lake)))
    assert merged(lake)
    planner = lake.planner()
    planner._plan_late(olds[0], None, None, recheck=True)
    lake.correct()
    held = copy_of(lake)
    assert held is not None
    assert held.passed
    assert list(in_force_at(lake.tables, lake.step, held_at(lake)).parts) == ["rows"]
    agree(lake)
    assert merged(lake)
    held = copy_of(lake)
    assert held is not None
    assert not held.passed
    agree(lake)


def held_at(lake: Lake) -> Position:
    at = position(lake.tables, lake.step)
    assert at is not None
    return at


def test_of_two_that_merge_at_once_one_does(tmp_path: Path) -> None:
    """The other would put windows of its earlier position into the copy of a later one."""
    dues = list[Due | None]()

    def look(lake: Lake) -> None:
        note(lake.tables.merges(), lake.step, READ, 1, 1.0)
        dues.append(looked(lake))

    lake = grown(tmp_path, "sites", look)
    early, *_, late = dues
    assert early is not None
    assert late is not None
    assert write(lake.tables, lake.step, late)
    assert not write(lake.tables, lake.step, early)
    agree(lake)


def test_nothing_is_merged_while_a_correction_is_not_done(tmp_path: Path) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    note(lake.tables.merges(), lake.step, READ, 1, 1.0)
    assert looked(lake) is not None
    lake.planner().due(recheck=True)
    assert looked(lake) is None


def test_a_new_definition_does_not_take_the_copy_of_the_former(tmp_path: Path) -> None:
    lake = grown(tmp_path, "sites", merged)
    former = lake.step
    lake.edit(where="bags > 1")
    for _ in range(2):
        lake.query().run()
        lake.correct()
        agree(lake)
        assert merged(lake)
        agree(lake)
        lake.edit(where=None if lake.step != former else "bags > 1")
    assert lake.step.fingerprint != former.fingerprint or copy_of(lake)


def test_a_life_in_which_maintenance_merges_and_dies(tmp_path: Path) -> None:
    assert merged_throughout(tmp_path, 1) > 2


@pytest.mark.all
@pytest.mark.parametrize("seed", [0, *range(2, 24)])
def test_more_lives_in_which_maintenance_merges(tmp_path: Path, seed: int) -> None:
    merged_throughout(tmp_path, seed)  # which may come to nothing until the end


def merged_throughout(home: Path, seed: int) -> int:
    """How often it was done in one life."""
    world, draw, done = World(home, case_of(seed), seed, 2), random.Random(seed), 0  # noqa: S311

    def dies(*_: str) -> None:
        if draw.random() < 0.15:
            raise Killed

    for _ in range(80):
        world.step()
        if draw.random() < 0.3:
            with pytest.MonkeyPatch.context() as patch, suppress(Killed):
                patch.setattr(replacing, "reached", dies)
                done += merged(world.lake)
            agree(world.lake, 10_000)
    world.finish()
    agree(world.lake)
    assert merged(world.lake) or copy_of(world.lake)
    agree(world.lake)
    world.lake.check()
    return done


# when it pays


def test_reads_are_counted_with_what_a_merge_would_have_spared(tmp_path: Path) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    for sql in ("FROM s", "SELECT count(*) FROM s", "FROM s_timely", "FROM s, events LIMIT 1"):
        asked(lake, sql)
    export(lake.tables, lake.pipeline, tmp_path / "out")
    rows = kept(lake)
    assert [row["what"] for row in rows] == [READ] * 3, "those that merge answers, and nothing else"
    assert all(row["seconds"] > 0 for row in rows)
    answers = read_table(Table(lake.tables.answers(lake.step))).num_rows
    assert {row["rows"] for row in rows} == {answers}


def asked(lake: Lake, sql: str) -> None:
    with answered(views(lake.tables, lake.pipeline), sql) as found:
        found.fetchall()


def kept(lake: Lake) -> list[dict[str, Any]]:
    rows = read_table(Table(lake.tables.merges())).sort_by("recorded_at")
    return [*rows.to_pylist()]


@pytest.mark.parametrize("what", [("COST", 3_600.0), ("FEW", 1e9)])
def test_a_quick_read_of_few_answers_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: tuple[str, float]
) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    few = "FROM s WHERE window_start >= '2024-03-01 02:00:00+00'"
    asked(lake, few)
    assert len(kept(lake)) == 1, "it was not quick"
    monkeypatch.setattr(reads, *what)
    asked(lake, few)
    assert len(kept(lake)) == 1
    asked(lake, "FROM s")
    assert len(kept(lake)) == 2, "all were asked for"


def test_a_read_of_a_small_table_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    monkeypatch.setattr(reads, "LEAST", 100_000)
    agree(lake)
    assert not Table(lake.tables.merges()).exists()


def test_what_is_not_merged_is_what_came_since(tmp_path: Path) -> None:
    lake = fed(tmp_path)
    arrive(lake, 4)
    lake.ingest()
    lake.query().run()
    every = read_table(Table(lake.tables.answers(lake.step))).num_rows
    assert before(lake) == (0, every)
    assert merged(lake)
    copied = len(lake.in_force())
    assert before(lake) == (copied, 0)
    again = lake.correct()
    assert again > 0, "as of the record that the copy is of"
    assert before(lake) == (copied, again)
    assert merged(lake)
    assert before(lake) == (len(lake.in_force()), 0)


def before(lake: Lake) -> tuple[int, int]:
    """Rows that a read has before it: merged, and not."""
    found = read_of(lake.tables, lake.step, copy_of(lake))
    return found.merged, found.unmerged


def test_a_reader_who_may_not_write_reads_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)

    def refuses(*_: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(reads, "note", refuses)
    agree(lake)
    assert "a read was not counted step=s: read-only" in caplog.text


@pytest.mark.parametrize(("seconds", "choice"), [(0.1, APPEND), (100.0, REWRITE)])
def test_answers_are_merged_once_reads_would_have_been_spared_as_much(
    tmp_path: Path, seconds: float, choice: str
) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    assert merge(lake.tables, lake.pipeline) == {}, "nobody reads"
    every = read_table(Table(lake.tables.answers(lake.step))).num_rows
    cost = merging.WRITE * every
    for _ in range(2):
        note(lake.tables.merges(), lake.step, READ, every, cost / 2 * min(seconds, 1))
    said = merge(lake.tables, lake.pipeline)["s"]
    chosen = [row for row in kept(lake) if row["what"] != READ]
    assert [row["what"] for row in chosen] == [choice, *[WRITTEN] * (choice == REWRITE)]
    assert chosen[0]["rows"] == every
    assert chosen[0]["seconds"] == pytest.approx(cost)
    assert chosen[0]["reason"].startswith("reads since the last merge: 2;")
    assert said == f"{choice}: {chosen[0]['reason']}"
    assert (copy_of(lake) is not None) == (choice == REWRITE)
    if choice == REWRITE:
        took = chosen[1]["seconds"] / chosen[1]["rows"]
        lake.correct(recheck=True)
        note(lake.tables.merges(), lake.step, READ, 1, 0.5)
        again = looked(lake)
        assert again is not None
        assert (again.weighed.reads, again.weighed.spared) == (1, 0.5), (
            "what was read before the merge does not count again"
        )
        assert again.weighed.seconds == pytest.approx(took * again.weighed.rows), (
            "as it took the last time"
        )


def test_nobody_looks_again_before_a_merge_could_pay(tmp_path: Path) -> None:
    lake = grown(tmp_path, "sites", lambda _: None)
    every = read_table(Table(lake.tables.answers(lake.step))).num_rows
    cost = merging.WRITE * every
    said = []
    for _ in range(4):
        note(lake.tables.merges(), lake.step, READ, every, cost / 4 + 1e-9)
        said.append(merge(lake.tables, lake.pipeline)["s"])
    assert [what.split(":")[0] for what in said] == [APPEND] * 3 + [REWRITE]
    assert "reads since the last merge: 3;" in said[2], "it is told all the same"
    chosen = [row["what"] for row in kept(lake) if row["what"] != READ]
    assert chosen == [APPEND, REWRITE, WRITTEN], "the first look said what a merge takes"


def test_all_rows_of_a_run_are_replaced(tmp_path: Path) -> None:
    """Two answers of one window and key never stand in the copy."""
    lake = grown(tmp_path, "codes", merged)
    rows = fetched_copy(lake)
    by = ["window_start", *lake.step.key_names]
    assert rows.group_by(by).aggregate([]).num_rows == rows.num_rows
    starts = pc.cast(rows["window_start"], INSTANT).to_pylist()
    assert starts, "something is merged"


def fetched_copy(lake: Lake) -> pa.Table:
    held = copy_of(lake)
    assert held is not None
    return held.rows.to_table()
