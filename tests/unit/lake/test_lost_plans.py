"""A log that lost commits, doors that overtake each other, and what was read twice differently."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import TerminalError
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest import source as source_module
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.seen import SeenIds
from penstock.lake.proof.recount import Recount, recount
from penstock.lake.storage.commit import Table
from tests.doubles import Killed, RisingClock, deadly_commits, dies_at
from tests.gates import Gate, T, finish
from tests.lakes import meanwhile
from tests.streams import write_jsonl


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 2)


def rows(count: int, first: int = 0) -> list[Any]:
    """Records, every fourth of them refused."""
    return [{"event_time": T, "site": None if i % 4 == 1 else "x", "code": i}
            for i in range(first, first + count)]  # fmt: skip


def sent(gate: Gate, name: str, some: list[Any]) -> None:
    write_jsonl(gate.home / "live" / f"{name}.jsonl", some)


def drop_newest(uri: str, count: int = 1) -> None:
    """As a disk does that never wrote the newest entries of a table's log."""
    for path in sorted((Path(uri) / "_delta_log").glob("*.json"))[-count:]:
        path.unlink()


@pytest.mark.parametrize("moment", [4, 6, 8], ids=["quarantined", "unsealed", "sealed"])
def test_a_lost_plan_stops_the_door_with_table_number_and_remedy(
    tmp_path: Path, moment: int
) -> None:
    gate = Gate(tmp_path, "jsonl")
    sent(gate, "a", rows(5))
    gate.take()
    sent(gate, "b", rows(5))
    with deadly_commits(dies_at(moment)), pytest.raises(Killed):
        gate.take()
    drop_newest(gate.tables.plans().uri)
    sent(gate, "c", rows(7))
    before = {name: gate.rows(name) for name in ("events", "quarantine", "blocks")}
    tables = {4: ["quarantine"], 6: ["events", "quarantine"]}.get(
        moment, ["events", "quarantine", "blocks"]
    )
    said = ", ".join(f"{name} up to 1" for name in tables)
    with pytest.raises(TerminalError, match=rf"ends with plan 0, but .*: {said}\. .*restore"):
        gate.door().work()
    assert {name: gate.rows(name) for name in before} == before


@pytest.mark.parametrize("moment", [4, 6, 8], ids=["quarantined", "unsealed", "sealed"])
def test_the_audit_s_count_names_a_lost_plan(tmp_path: Path, moment: int) -> None:
    gate = Gate(tmp_path, "jsonl")
    sent(gate, "a", rows(5))
    gate.take()
    assert counted(gate).faults == []
    sent(gate, "b", rows(5))
    with deadly_commits(dies_at(moment)), pytest.raises(Killed):
        gate.take()
    drop_newest(gate.tables.plans().uri)
    found = counted(gate)
    tables = {4: ["quarantine"], 6: ["events", "quarantine"]}.get(
        moment, ["events", "quarantine", "blocks"]
    )
    places: list[dict[str, Any]] = [{"table": name} for name in tables]
    assert [f.what for f in found.faults] == ["block or row without its plan"] * found.blocks_wrong
    assert [f.place for f in found.faults] == places + [{"plan": 1}] * (moment == 8)


def counted(gate: Gate) -> Recount:
    last = gate.rows("blocks")[-1]
    events = gate.tables.events(gate.pipeline.types)
    return recount(gate.tables, events, last["last_seq"], last["block"] + 1)


def test_all_plans_lost_is_no_empty_log(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    sent(gate, "a", rows(5))
    gate.take()
    shutil.rmtree(gate.tables.plans().uri)
    with pytest.raises(TerminalError, match=r"ends with plan -1.*events up to 0"):
        gate.door().work()


def test_plans_whose_seals_were_lost_are_sealed_again_in_order(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    for name in "abcd":
        sent(gate, name, rows(5))
        gate.take()
    expected = [{**row, "sealed_at": None} for row in gate.rows("blocks")]
    drop_newest(gate.tables.blocks().uri, 3)
    assert len(gate.rows("blocks")) == 3
    gate.take()
    assert [{**row, "sealed_at": None} for row in gate.rows("blocks")] == expected
    assert gate.conserved() == (16, 4)


@pytest.mark.parametrize("table", ["plans", "quarantine", "events", "blocks"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_door_that_is_overtaken_by_several_plans_goes_on(
    tmp_path: Path, table: str, *, after: bool
) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.clock = RisingClock(gate.clock.now())
    sent(gate, "a", rows(3))

    def others() -> None:
        for name, count in (("b", 9), ("c", 30)):
            gate.door().work()
            sent(gate, name, rows(count))
        gate.take()

    slow = gate.door()
    with meanwhile(table, others, after=after):
        finish(slow)
    assert gate.conserved() == (31, 11)


def test_a_plan_that_is_sealed_while_another_door_looks_gives_its_numbers_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "FILES_PER_PLAN", 1)
    gate = Gate(tmp_path, "jsonl")
    for name in "ab":
        sent(gate, name, rows(10))
    first, second = gate.door(), gate.door()
    with deadly_commits(dies_at(2)), pytest.raises(Killed):  # planned, nothing of it committed
        first.work()
    look = second._head.catch_up

    def sealed_behind() -> None:
        look()
        monkeypatch.setattr(second._head, "catch_up", look)
        gate.door().work()

    monkeypatch.setattr(second._head, "catch_up", sealed_behind)
    finish(second)
    firsts = [(block["plan"], block["first_seq"]) for block in gate.rows("blocks")]
    assert sorted(firsts) == [(0, at) for at in range(0, 10, 2)] + [
        (1, at) for at in range(10, 20, 2)
    ]
    assert gate.conserved() == (14, 6)


def test_a_door_reads_what_stands_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path, "jsonl")
    sent(gate, "a", rows(3))
    with deadly_commits(dies_at(6)), pytest.raises(Killed):
        gate.take()
    read, calls = door_module.read_table, list[str]()

    def overtaken(table: Table, *rest: Any) -> Any:
        if not calls:
            calls.append(table.spec.name)
            gate.take()
            sent(gate, "b", rows(30))
            gate.take()
        return read(table, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(door_module, "read_table", overtaken)
        finish(gate.door())
    assert calls == ["events"]
    assert gate.conserved() == (24, 9)


CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "another refused": lambda some: [*some[:3], some[3] | {"site": None}, *some[4:]],
    "none refused": lambda some: [row | {"site": "x"} for row in some],
    "refused for another record": lambda some: [some[0], some[1] | {"code": 99}, *some[2:]],
    "one less": lambda some: some[1:],
}


@pytest.mark.parametrize("change", CHANGES)
def test_content_that_changes_between_quarantine_and_events_stops_the_door(
    tmp_path: Path, change: str
) -> None:
    gate = Gate(tmp_path, "jsonl")
    some = rows(5)
    sent(gate, "a", some)
    with deadly_commits(dies_at(4)), pytest.raises(Killed):
        gate.take()
    sent(gate, "a", CHANGES[change](some))
    with pytest.raises(SourceError, match=r"a\.jsonl: it was .* since it was planned"):
        gate.take()
    as_it_is(gate)
    with pytest.raises(TerminalError, match=r"plan 0 was begun with 1 refused.*a\.jsonl.*Put back"):
        gate.take()
    assert (len(gate.rows("events")), len(gate.rows("quarantine"))) == (0, 1)
    sent(gate, "a", some)  # at another time: nobody can tell but a person
    as_it_is(gate)
    gate.take()
    assert gate.conserved() == (4, 1)


def as_it_is(gate: Gate) -> None:
    Amendment(gate.tables, gate.pipeline, gate.home, RisingClock()).retake("a.jsonl", "")


STEPS = [0, 30, -45, 20, 50, -120, 61, 10, 200]
"""Minutes by which the clock moves between files."""


@pytest.mark.parametrize("arrival", [None, "came"])
def test_a_restarted_door_knows_the_ids_a_running_one_knows(
    tmp_path: Path, arrival: str | None
) -> None:
    """Whatever the clock does: the running door's verdicts are those of a door started anew."""
    verdicts = []
    for restarts in (False, True):
        home = tmp_path / str(restarts)
        gate = Gate(home, "jsonl", columns={"site": "string", "delay": "double", "bags": "long",
                    "uid": "long"}, id={"column": "uid", "horizon": "PT1H"},
                    arrival_time=arrival)  # fmt: skip
        door = gate.door()
        for number, minutes in enumerate(STEPS):
            gate.clock.move(timedelta(minutes=minutes))
            came = f"2024-03-01T{12 + number * 7 % 5:02d}:00:00Z"
            write_jsonl(home / "live" / f"{number}.jsonl",
                        [{"event_time": T, "site": "x", "uid": i, "came": came}
                         for i in (1, 2 + number % 2, 4 + number % 3)])  # fmt: skip
            (gate.door() if restarts else door).work()
        verdicts.append([r["arrival_seq"] for r in gate.rows("quarantine")])
    assert verdicts[0] == verdicts[1]
    assert 0 < len(verdicts[0]) < 3 * len(STEPS)


def test_what_a_door_judged_and_another_committed_differently_is_not_remembered(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "jsonl", columns={"site": "string", "delay": "double", "bags": "long",
                "uid": "long"}, id={"column": "uid", "horizon": "PT1H"})  # fmt: skip

    def send(name: str, *ids: int) -> None:
        sent(gate, name, [{"event_time": T, "site": "x", "uid": i} for i in ids])

    def other() -> None:
        path = tmp_path / "live" / "0.jsonl"
        about = path.stat()
        send("0", 7, 8)  # of the same size, and at the same time: no plan can tell
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        gate.take()

    door = gate.door()
    send("0", 1, 2)
    with meanwhile("events", other):
        finish(door)
    send("1", 1, 7)
    finish(door)
    assert [r["uid"] for r in gate.rows("events")] == [7, 8, 1]
    assert isinstance(next(iter(door._terms.values())).seen, SeenIds)


MENDS: dict[str, tuple[list[int], list[int]]] = {
    "nothing refused by the other": ([1], []),
    "all refused by the other": ([], [0, 1, 2]),
    "all refused, then nothing": ([0, 1, 2], []),
    "another one refused": ([0], [2]),
}


@pytest.mark.parametrize(("table", "commits", "mend"), [
    pytest.param(table, commits, mend,
                 marks=[] if (table, commits) == ("quarantine", 1) else pytest.mark.all)
    for table in ("quarantine", "events", "blocks") for commits in (0, 1, 2, 9) for mend in MENDS
])  # fmt: skip
def test_two_doors_that_read_one_plan_differently_give_each_number_once(
    tmp_path: Path, table: str, mend: str, commits: int
) -> None:
    """A file is mended, of the same size and at the same time, while two doors read it."""
    gate = Gate(tmp_path, "jsonl")
    path = tmp_path / "live" / "a.jsonl"

    def write(wrong: list[int]) -> None:
        lines = [json.dumps({"event_time": T, "site": "x", "code": i}) for i in range(3)]
        for i in wrong:
            lines[i] = lines[i].replace("event_time", "other_time")
        gate.write("a.jsonl", "\n".join(lines) + "\n")
        os.utime(path, ns=(10**18, 10**18))

    def other() -> None:
        write(after)
        with suppress(Killed), deadly_commits(dies_at(1 + 2 * commits)):
            gate.take()

    before, after = MENDS[mend]
    write(before)
    door = gate.door()
    with deadly_commits(dies_at(2)), pytest.raises(Killed):
        gate.take()
    with suppress(TerminalError), meanwhile(table, other):  # begun by what is gone: a person mends
        finish(door)
    for wrong in (before, after):
        write(wrong)
        with suppress(TerminalError):
            gate.take()
    sent(gate, "b", rows(4))
    gate.take()
    assert sum(gate.conserved()) == 7
    assert len(gate.rows("blocks")) == 4
