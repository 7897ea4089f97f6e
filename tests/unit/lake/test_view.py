"""What a reader sees: only sealed micro-batches, the answer that has seen most of the log."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.config.pipeline import TOGETHER
from penstock.lake.history.balance import balance
from penstock.lake.history.checkpoint import note_failure
from penstock.lake.history.correction import pending_count
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position, rows_of
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import in_force
from penstock.lake.ingest import door as door_module
from tests.answers import blocks_of
from tests.doubles import Killed, deadly_commits, dies_at, lose_memory
from tests.lakes import Lake, make_lake, meanwhile, some_rows
from tests.steps import CASES, COLUMNS
from tests.streams import BEGIN, write_jsonl


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(60, 11))
    lake.ingest()
    return lake


def test_before_anything_is_sealed_there_is_nothing(lake: Lake) -> None:
    assert position(lake.tables, lake.step) is None
    assert balance(lake.tables, lake.step) is None
    assert answers_in_force(lake.tables, lake.step).num_rows == 0
    assert timely_answers(lake.tables, lake.step).num_rows == 0
    assert pending_count(lake.tables, lake.step) == 0


def test_rows_of_a_micro_batch_that_control_has_not_sealed_do_not_count(lake: Lake) -> None:
    query = lake.query(blocks=4)
    query.work()
    before = answers_in_force(lake.tables, lake.step)
    before_control = 4  # late and answers stand there
    with deadly_commits(dies_at(before_control)), pytest.raises(Killed):
        query.run()
    at = position(lake.tables, lake.step)
    lake.check()
    assert at is not None
    assert answers_in_force(lake.tables, lake.step).num_rows >= before.num_rows
    lake.query().run()
    lake.check()


def test_an_earlier_position_has_no_row_of_a_later_generation(lake: Lake) -> None:
    lake.query(blocks=2).work()
    before = position(lake.tables, lake.step)
    lose_memory(lake.checkpoint, "all")
    lake.query(blocks=2).run()
    now = position(lake.tables, lake.step)
    assert before is not None
    assert now is not None
    assert [g.number for g in generations(lake.tables, lake.step)] == [0, 1]
    (row,) = rows_of(lake.tables, lake.step, before)
    assert (row.generation, row.micro_batch) == (0, 0)
    assert row == before.sealed
    every = sealed_rows(lake.tables, lake.step, now.epoch.number)
    assert {row.generation for row in every} == {0, 1}
    assert rows_of(lake.tables, lake.step, now) == every


def test_the_answer_in_force_has_seen_most_of_the_log(lake: Lake) -> None:
    schema = lake.tables.answers(lake.step).schema
    base = {"site": "x", "window_start": BEGIN, "window_end": BEGIN, "epoch": 0, "generation": 0,
            "micro_batch": 0, "plan": None, "published_at": BEGIN, "n_records": 1}  # fmt: skip
    rows = [
        base | {"n": 1, "revision": 0, "reason": "speed", "through_seq": 5},
        base | {"n": 3, "revision": 1, "reason": "late", "through_seq": 9},
        base | {"n": 2, "revision": 2, "reason": "late", "through_seq": 7},
        base | {"n": 7, "revision": 0, "reason": "speed", "through_seq": 4, "site": "y"},
    ]
    found = in_force(pa.Table.from_pylist(rows, schema=schema), lake.step).to_pylist()
    assert sorted((r["site"], r["n"]) for r in found) == [("x", 3), ("y", 7)]


def test_the_balance_counts_every_record_and_pair(lake: Lake) -> None:
    lake.query().run()
    records = [r for b in blocks_of(lake.tables, lake.pipeline) for r in b.records]
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert (found.received, found.accepted) == (60, sum(r is not None for r in records))
    assert found.received == found.accepted + found.quarantined
    assert found.pairs == 3 * found.accepted


def test_a_lost_checkpoint_is_a_new_generation_of_the_same_epoch(lake: Lake) -> None:
    lake.query(blocks=3).work()
    lake.query(blocks=3).work()
    import shutil

    shutil.rmtree(lake.checkpoint)
    query = lake.query()
    assert (query.generation.number, query.generation.epoch) == (1, 0)
    assert query.generation.block == sealed_rows(lake.tables, lake.step, 0)[-1].block
    query.run()
    lake.check()


@pytest.mark.parametrize(("loss", "generation"), [("nothing", 0), ("newest", 1), ("offsets", 1)])
def test_a_batch_sealed_but_not_checkpointed_is_replayed_only_as_it_was_planned(
    lake: Lake, loss: str, generation: int
) -> None:
    lake.query(blocks=3).work()
    deaths = iter([False, False, True])  # offset log, state, and dead before Spark's commit

    def dies() -> None:
        if next(deaths):
            raise Killed

    with pytest.raises(Killed):
        lake.query(blocks=2, dies=dies).work()
    if loss != "nothing":
        lose_memory(lake.checkpoint, loss)
    query = lake.query(blocks=5)
    assert query.generation.number == generation
    query.run()
    lake.check()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_checkpoint_that_lost_several_commits_is_not_gone_on_with(lake: Lake, lost: int) -> None:
    for _ in range(3):
        lake.query(blocks=2).work()
    folder = lake.checkpoint
    for number in range(3 - lost, 3):
        (folder / "commits" / str(number)).unlink()
    query = lake.query(blocks=5)
    assert query.generation.number == (0 if lost == 1 else 1), "Spark repeats one, never two"
    query.run()
    lake.check()


def test_a_batch_that_was_begun_is_not_cut_anew_when_its_plan_and_the_commits_are_lost(
    lake: Lake,
) -> None:
    lake.query(blocks=3).work()

    def dies() -> None:
        raise Killed

    with meanwhile("control", dies), pytest.raises(Killed):
        lake.query(blocks=5).work()
    folder = lake.checkpoint
    lose_memory(folder, "newest")
    lose_memory(folder, "commits")
    query = lake.query(blocks=1)
    assert query.generation.number == 1
    query.run()
    lake.check()


@pytest.mark.parametrize("sealed", [0, 1, 2])
@pytest.mark.parametrize("lived", [1, 2, 3])
def test_a_checkpoint_that_other_code_wrote_is_rebuilt_from_the_log(
    lake: Lake, sealed: int, lived: int
) -> None:
    for _ in range(sealed):
        lake.query(blocks=2).work()
    deaths = iter([True] if lived == 1 else [False] * (lived - 1) + [True])

    def dies() -> None:
        if next(deaths):
            raise Killed

    with pytest.raises(Killed):
        lake.query(blocks=2, dies=dies).work()
    logged = list((lake.checkpoint / "offsets").iterdir())
    for path in logged:
        path.write_text(path.read_text().replace('"form": ', '"form": 1'))
    query = lake.query(blocks=5)
    assert query.generation.number == (1 if logged else 0)
    query.run()
    lake.check()


def test_state_whose_first_offset_is_lost_is_not_gone_on_with(lake: Lake) -> None:
    deaths = iter([False, True])  # offset log, and dead before the state is written

    def dies() -> None:
        if next(deaths):
            raise Killed

    with pytest.raises(Killed):
        lake.query(blocks=2, dies=dies).work()
    folder = lake.checkpoint
    (folder / "state" / "0.delta").write_bytes(b"some of it")
    assert lake.query().generation.number == 0, "its offset is there: Spark repeats it"
    lose_memory(folder, "newest")
    query = lake.query()
    assert query.generation.number == 1
    query.run()
    lake.check()


def test_a_checkpoint_that_fails_again_and_again_is_given_up(lake: Lake) -> None:
    lake.query(blocks=3).work()
    for _ in range(2):
        note_failure(lake.tables, TOGETHER)
        assert lake.query().generation.number == 0
    note_failure(lake.tables, TOGETHER)
    assert lake.query().generation.number == 1
    assert lake.query().generation.number == 1, "and the new one goes on"


def test_a_changed_step_makes_the_log_its_history_and_back_again(lake: Lake) -> None:
    lake.query().run()
    before = lake.step
    lake.edit(window={"size": "PT60S"})
    query = lake.query()
    assert (query.generation.number, query.generation.epoch) == (1, 1)
    query.run()
    lake.correct()
    assert lake.in_force()
    lake.edit(window={"size": "PT60S", "slide": "PT20S"})
    assert lake.step == before
    lake.query().run()
    lake.correct()
    lake.check()
    assert [g.epoch for g in generations(lake.tables, lake.step)] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["string", "long", "boolean", "timestamp"])
def test_records_older_than_a_key_column_have_no_answer(tmp_path: Path, kind: str) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    rows = [r for r in some_rows(40, 5) if isinstance(r, dict)]
    write_jsonl(tmp_path / "live" / "0.jsonl", rows)
    lake.ingest()
    value = {"string": "b", "long": 2**53 + 1, "boolean": True, "timestamp": BEGIN}[kind]
    lake.config = lake.config | {"columns": COLUMNS | {"gate": kind}}
    lake.edit(keys=["site", "gate"])
    write_jsonl(tmp_path / "live" / "1.jsonl", [{**r, "gate": value} for r in rows])
    lake.ingest()
    lake.query().run()
    lake.correct()
    assert {key[1] for _, key in lake.in_force()} == {value}
    at = position(lake.tables, lake.step)
    assert at is not None
    total = sum(row["n_records"] for row in lake.in_force().values())
    assert total + at.sealed.open_pairs == 3 * len(rows)
