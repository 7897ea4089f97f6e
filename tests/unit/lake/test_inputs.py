"""Of what answers over answers are made: counted again in plain Python, at every floor."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.blocks import newest_seq
from penstock.lake.serve.inputs import COUNTS, inputs
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import chains
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

States = dict[chains.Key, str]


def late(one: Lake | chains.Over) -> set[chains.Key]:
    """Closed windows and keys that wait for a correction, where none has run."""
    rows = read_table(Table(one.tables.late(one.step, []))).to_pylist()
    found = {
        (int(row["window_start"].timestamp() * 1e6), tuple(row[n] for n in one.step.key_names))
        for row in rows
    }
    mark, size = chains.watermark(one), one.step.window.size
    return {key for key in found if key[0] + size <= mark}


def states(
    one: Lake | chains.Over, begun: set[chains.Key], waits: Iterable[chains.Key] = ()
) -> States:
    """Of each answer in force whether it waits, was corrected, or is as it was given.

    ``begun``: those with which the log of what is over it began.
    """
    found = {}
    for row in answers_in_force(one.tables, one.step).to_pylist():
        key = tuple(row[name] for name in one.step.key_names)
        at = int(row["window_start"].timestamp() * 1e6), key
        given = "from_history" if at in begun else "timely"
        found[at] = "corrected" if row["reason"] == "late" else given
    return {**found, **dict.fromkeys(waits, "pending")}


def counted(below: States, minutes: int, size: int, slide: int, *, keyed: bool) -> Any:
    """Answers by the window that they are in, and their state."""
    some = {key: {"state": state} for key, state in below.items()}
    grouped = chains.gathered(some, minutes, size, slide, keyed=keyed)
    return {key: Counter(v["state"] for v in values) for key, values in grouped.items()}


def told(one: chains.Over) -> dict[chains.Key, Counter[str]]:
    """What SQL says."""
    found: dict[chains.Key, Counter[str]] = defaultdict(Counter)
    with answered(views(one.tables, one.pipeline), "FROM s_inputs") as rows:
        for row in rows.to_arrow_table().to_pylist():
            key = tuple(row[name] for name in one.step.key_names)
            start = int(row["window_start"].timestamp() * 1e6)
            assert int(row["window_end"].timestamp() * 1e6) == start + one.step.window.size
            found[start, key] += Counter({name: row[name] for name in COUNTS if row[name]})
    return found


def above(waits: set[chains.Key], minutes: int, size: int, slide: int) -> set[chains.Key]:
    """Windows of a step over another one in which something of that waits."""
    some: dict[chains.Key, dict[str, Any]] = {key: {} for key in waits}
    return {*chains.gathered(some, minutes, size, slide, keyed=True)}


def totals(rows: list[dict[str, Any]]) -> Counter[str]:
    return sum((Counter({name: row[name] for name in COUNTS}) for row in rows), Counter())


def taken(*some: Lake | chains.Over) -> None:
    for one in some:
        if isinstance(one, chains.Over):
            one.feed().catch_up()
        else:
            one.ingest()
        one.query().run()


def test_what_waits_at_a_floor_waits_at_all_above(tmp_path: Path) -> None:
    lake, rows = make_lake(tmp_path, (chains.BASE, CASES["sites"][1])), some_rows(300, 5)
    one = chains.first(lake)
    two = chains.second(one)
    every = (lake, one, two)
    assert told(one) == {}
    write_jsonl(tmp_path / "live" / "0.jsonl", rows[:90])
    for each in every:
        each.query()
    taken(*every)
    first, second = {*chains.in_force(lake)}, {*chains.in_force(one)}
    early = newest_seq(one.tables)
    before = totals(inputs(one.tables, one.pipeline, one.step, early).to_pylist())
    assert before["from_history"] > 0
    write_jsonl(tmp_path / "live" / "1.jsonl", rows[90:])
    taken(*every)
    waits = late(lake)
    assert told(one) == counted(states(lake, first, waits), 1, 4, 2, keyed=True)
    both = late(one) | above(waits, 1, 4, 2)
    assert told(two) == counted(states(one, second, both), 4, 8, 8, keyed=False)
    assert {state for some in told(one).values() for state in some} == {
        "timely", "from_history", "pending",
    }  # fmt: skip

    lake.correct()
    taken(one)
    now = counted(states(lake, first), 1, 4, 2, keyed=True)
    assert told(one) == now
    assert sum(some["corrected"] for some in now.values()) > 0
    taken(two)
    assert told(two) == counted(states(one, second, late(one)), 4, 8, 8, keyed=False)
    one.correct()
    taken(two)
    assert told(two) == counted(states(one, second), 4, 8, 8, keyed=False)
    assert not any(some["pending"] for some in told(two).values())
    then = inputs(one.tables, one.pipeline, one.step, early)
    assert totals(then.to_pylist()) == before
