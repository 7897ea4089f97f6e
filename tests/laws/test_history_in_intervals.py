"""A history that is preloaded in intervals: exact, and each interval answers what it brought."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from penstock.lake.history.balance import balance
from penstock.lake.history.generation import generations
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark import chunks as chunks_module
from penstock.spark.correct import start_epochs
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.doubles import Killed, deadly_commits
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import BEGIN, disordered, us, write_jsonl

pytestmark = pytest.mark.law
SPAN = 280
ROWS = disordered(300, seed=3, apart=5.0, late_share=0.2, late_by=300.0)
FORWARD = [(i, i + 1) for i in range(6)]
MIXED = [(4, 5), (1, 3), (1, 2), (5, 6), (5, 6), (2, 4), (0, 2)]
Span = tuple[int, int]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 25)
    monkeypatch.setattr(chunks_module, "PAIRS_A_CHUNK", 100)


def bound(number: int) -> datetime:
    return BEGIN + timedelta(seconds=SPAN * number)


def history_lake(home: Path, name: str = "sites") -> Lake:
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    history = {"files": str(home / "history"), "format": "jsonl"}
    lake = make_lake(home, CASES[name], source=source, history=history)
    for i in range(0, 300, 60):
        write_jsonl(home / "history" / f"{i}.jsonl", ROWS[i : i + 60])
    return lake


def taken_in(lake: Lake, span: Span) -> None:
    """An interval stands in the log, and in no answer yet."""
    run_through(lake.door(), HISTORY, us(bound(span[0])), us(bound(span[1])))
    start_epochs(lake.tables, lake.pipeline, lake.clock)


def preload(lake: Lake, span: Span) -> int:
    """The whole job; how many answers it gave."""
    taken_in(lake, span)
    return lake.correct()


def stored(lake: Lake) -> int:
    return read_table(Table(lake.tables.answers(lake.step))).num_rows


def answered(lake: Lake) -> int:
    """How many windows and keys have an answer, or several."""
    names = ["window_start", *lake.step.key_names]
    return (
        read_table(Table(lake.tables.answers(lake.step)), names)
        .group_by(names)
        .aggregate([])
        .num_rows
    )


def brought(lake: Lake, order: list[Span]) -> int:
    """Windows and keys by the intervals that brought records of theirs."""
    found = set()
    for record in ROWS:
        at = us(record["event_time"])
        holds = [n for n, (a, b) in enumerate(order) if us(bound(a)) <= at < us(bound(b))]
        starts = lake.oracle.window.starts(at)
        found |= {(first, start, record["site"]) for first in holds[:1] for start in starts}
    return len(found)


def live_on(lake: Lake, seed: int = 5) -> None:
    """The stream takes the history, then what comes: some of it late."""
    lake.query(blocks=2).run()
    rows = disordered(120, seed=seed, late_share=0.3, late_by=600.0, begin=bound(6))
    write_jsonl(lake.home / "live" / f"{seed}.jsonl", rows)
    lake.ingest()
    lake.query(blocks=2).run()


def assert_exact(lake: Lake) -> None:
    """Every closed window answers all its records, and the books balance."""
    lake.correct()
    lake.check()
    blocks = blocks_of(lake.tables, lake.pipeline)
    epoch = generations(lake.tables, lake.step)[-1].epoch
    start = next(g for g in generations(lake.tables, lake.step) if g.number == epoch).block
    expected = ref.run(lake.epoch_oracle(), blocks, start)
    assert expected.preloaded
    assert_same(expected.corrected, lake.in_force(), position=False)
    kept = balance(lake.tables, lake.step)
    assert kept is not None
    assert kept.pairs == expected.pairs
    assert kept.preloaded == sum(a.n_records for a in expected.preloaded.values())


@pytest.mark.parametrize("order", [MIXED, *(rare(o) for o in (FORWARD, FORWARD[::-1]))])
def test_each_interval_answers_only_what_it_brought(tmp_path: Path, order: list[Span]) -> None:
    lake = history_lake(tmp_path)
    given = [preload(lake, span) for span in order]
    assert stored(lake) == sum(given) <= brought(lake, order)
    assert stored(lake) < 1.2 * answered(lake), "linear in what is answered; it was 3.5 times"
    again = [preload(lake, span) for span in order]
    assert again == [0] * len(order)
    live_on(lake)
    assert_exact(lake)


@pytest.mark.parametrize("name", ["codes", rare("both")])
def test_after_the_stream_has_started_history_is_late_and_exact(tmp_path: Path, name: str) -> None:
    lake = history_lake(tmp_path, name)
    for span in [(3, 5), (0, 2)]:
        preload(lake, span)
    live_on(lake)
    epochs = len(generations(lake.tables, lake.step))
    for span in [(2, 3), (5, 6), (2, 3)]:
        preload(lake, span)
        lake.query().run()
    assert len(generations(lake.tables, lake.step)) == epochs
    assert_exact(lake)


@pytest.mark.parametrize("each", [2, *(rare(n) for n in (1, 3, 5))])
def test_killed_at_any_commit_and_run_again_it_is_exact(tmp_path: Path, each: int) -> None:
    lake, order = history_lake(tmp_path), MIXED[:5]
    killed = preload_under_deaths(lake, order, each)
    assert killed > 5
    rows = read_table(Table(lake.tables.answers(lake.step))).to_pylist()
    said = [(r["window_start"], r["site"], r["plan"]) for r in rows]
    assert len(said) == len(set(said)), "no plan answered twice"
    live_on(lake)
    assert_exact(lake)


def preload_under_deaths(lake: Lake, order: list[Span], each: int) -> int:
    """Every ``each`` commits one process dies before or after its own; how many did."""
    killed, calls, spared = 0, 0, 0

    def death() -> None:
        nonlocal calls, spared
        calls += 1
        if calls > spared + each:
            spared, calls = spared + 1, 0
            raise Killed

    with deadly_commits(death):
        for span in order:
            for _ in range(100):
                try:
                    preload(lake, span)
                    break
                except Killed:
                    killed += 1
            else:
                raise AssertionError("it never ended")
    return killed


def test_another_definition_in_between_and_a_slack_that_grew(tmp_path: Path) -> None:
    """What the former definition answered holds again; what is open again is not in force."""
    lake = history_lake(tmp_path)
    window = lake.config["steps"]["s"]["window"]
    first = preload(lake, (0, 3))
    lake.edit(window={"size": "PT40S"})
    preload(lake, (3, 4))
    lake.edit(window=window)
    assert 0 < preload(lake, (4, 5)) < 2 * first
    lake.edit(slack={"fixed": "PT10M"})
    preload(lake, (5, 6))
    live_on(lake)
    assert_exact(lake)


def test_an_interval_that_was_never_answered_is_answered_by_the_next(tmp_path: Path) -> None:
    lake = history_lake(tmp_path)
    preload(lake, FORWARD[0])
    for span in FORWARD[1:4]:
        taken_in(lake, span)
    planner = lake.planner()
    frozen = planner.due()
    preload(lake, FORWARD[4])
    for plan in frozen:  # by a process that goes on after the next epoch has begun
        lake.corrector().run(planner, plan)
    preload(lake, FORWARD[5])
    live_on(lake)
    assert_exact(lake)
