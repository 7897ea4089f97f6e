"""A plan carried out in pieces by workers makes the rows that one process makes of it."""

import json
import os
import pickle
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.place import path_of
from penstock.core.slack import BlockKind
from penstock.core.step import ONLY
from penstock.core.window import BEGINNING
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import counting, pieces, spread
from penstock.lake.ingest.crew import Alone
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.plan import Plan
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.through import run_through
from penstock.lake.ingest.undeclared import Undeclared
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files
from tests.gates import Gate, T
from tests.rarely import rare
from tests.spreading import TABLES, begun, fill, log_of, small_plans

REAL = spread.carry_out


class Pickling:
    """Workers as an engine's: all that reaches them, or comes of them, has been pickled.

    The last part is done twice: an engine repeats what a lost worker did.
    """

    def __init__(self, hands: int = 2) -> None:
        self.hands, self.calls = hands, 0

    def map(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        self.calls += 1
        found = [self._done(work, part) for part in (*parts[-1:], *parts)]
        return found[1:]

    @staticmethod
    def _done(work: Callable[[Any], Any], part: Any) -> Any:
        work, part = pickle.loads(pickle.dumps((work, part)))  # noqa: S301
        return pickle.loads(pickle.dumps(work(part)))  # noqa: S301


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_plans(monkeypatch)


def taken(gate: Gate, crew: Any) -> int:
    door = Door(gate.tables, gate.pipeline, gate.home, gate.clock, crew)
    return sum(run_through(door, origin, None, None) for origin in (HISTORY, LIVE))


def orphans(gate: Gate) -> set[Path]:
    table = Table(gate.tables.events(gate.pipeline.types))
    root = path_of(table.spec.uri)
    named = {root / file.path for file in data_files(table.refresh(), "arrival_seq")}
    return {*root.glob("origin=*/*.parquet")} - named


SEEDS = [0, *(rare(seed) for seed in range(1, 6))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_both_ways_and_each_after_the_other_write_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    draw = random.Random(f"{kind} {seed}")  # noqa: S311
    for name in ("live", "history"):
        fill(tmp_path / name, kind, draw)
    gate = Gate(tmp_path, kind, history={"files": str(tmp_path / "history"), "format": kind})
    crew = Pickling()
    received = taken(gate, crew)
    found = [log_of(gate)]
    assert crew.calls > 2
    accepted, refused = gate.conserved()
    assert received == accepted + refused
    assert min(accepted, refused) > 60
    with monkeypatch.context() as patched:
        patched.setattr(pieces, "ORDINARY", 1_000.0)
        begun(gate)
        assert taken(gate, Alone()) == received, "one process, as one"
        found.append(log_of(gate))
    for hands in (1, 2):
        with monkeypatch.context() as patched:  # also what is small, and the first plan
            patched.setattr(pieces, "is_spread", lambda *_: True)
            begun(gate)
            assert taken(gate, Pickling(hands)) == received
            found.append(log_of(gate))
    for other in found[1:]:
        for name in TABLES:
            for row in [*found[0][name], *other[name]]:
                row.pop("sealed_at", None)
            assert other[name] == found[0][name], name


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_one_large_file_is_several_pieces_of_a_plan(tmp_path: Path, kind: str) -> None:
    for name in "ab":  # the first plan is one process's
        large(tmp_path / "live" / f"{name}.{kind}", kind)
    gate, crew = Gate(tmp_path, kind), Pickling()
    received = taken(gate, crew)
    assert sum(gate.conserved()) == received == 1_200
    items = [json.loads(row["positions"]) for row in log_of(gate)["plans"]]
    assert max(len(some) for some in items) > 3
    assert len(items) <= 6
    numbers = [_number(row) for row in gate.kept()]
    assert numbers == [*range(600), *range(600)]


def large(file: Path, kind: str) -> None:
    file.parent.mkdir(exist_ok=True)
    rows = [{"event_time": T, "site": "a", "n": n} for n in range(600)]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=70)
    elif kind == "jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        lines = [f"{T},a,{n}\n" for n in range(600)]
        file.write_text("".join(["event_time,site,n\n", *lines]))


def _number(row: dict[str, Any]) -> int:
    return int(row["typed"]["n"] if row["typed"] else json.loads(row["extra"])["n"])


def test_ids_and_local_times_by_order_stay_with_one_process(tmp_path: Path) -> None:
    ids = {"id": {"column": "code", "horizon": "PT1H"}}
    by_order = {"ambiguous": "by order", "zone": "Europe/Vienna"}
    for number, more in enumerate((ids, by_order)):
        home = tmp_path / str(number)
        fill(home / "live", "jsonl", random.Random(number))  # noqa: S311
        gate, crew = Gate(home, "jsonl", **more), Pickling()
        run_through(Door(gate.tables, gate.pipeline, home, gate.clock, crew), LIVE, None, None)
        gate.conserved()
        assert crew.calls == 0


def away_but_first(job: Any, piece: Any) -> Any:
    if piece.start.at:
        raise SourceError(piece.items[0].path, "the mount is away")
    return REAL(job, piece)


def test_what_a_worker_cannot_read_is_waited_for_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "live", "jsonl", random.Random(5))  # noqa: S311
    gate, crew = Gate(tmp_path, "jsonl"), Pickling()
    door = Door(gate.tables, gate.pipeline, tmp_path, gate.clock, crew)
    door.work()
    assert not orphans(gate)
    with monkeypatch.context() as patched:
        patched.setattr(spread, "carry_out", away_but_first)
        with pytest.raises(SourceError, match="mount is away") as away:
            run_through(door, LIVE, None, None)
    assert crew.calls
    assert away.value.why == "the mount is away"
    assert away.value.path.endswith(".jsonl")
    assert not orphans(gate), "the last part, which was done twice, failed"
    run_through(door, LIVE, None, None)
    gate.conserved()
    left = orphans(gate)
    assert left, "what a repeated part left"
    young = left.pop()
    for path in left:
        os.utime(path, (0, 0))
    maintain_pipeline(gate.tables, gate.pipeline)
    assert not any(path.exists() for path in left)
    assert young.exists(), "it may be about to be committed"
    gate.conserved()


def test_a_wrong_count_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "live", "csv", random.Random(6))  # noqa: S311
    gate = Gate(tmp_path, "csv")
    taken(gate, Pickling())
    before = log_of(gate)
    begun(gate)
    monkeypatch.setattr(spread, "count", lambda *_: 7)
    taken(gate, Pickling())
    after = log_of(gate)
    assert after["events"] == before["events"]
    assert after["quarantine"] == before["quarantine"]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_count_is_what_reading_finds(tmp_path: Path, kind: str) -> None:
    fill(tmp_path / "live", kind, random.Random(8))  # noqa: S311
    gate = Gate(tmp_path, kind)
    waiting = gate.door()._streams[ONLY].waiting[LIVE]
    items = [waiting.places.full(item) for item in waiting.items(times=100)]
    intake = gate.pipeline.definition
    assert len(items) >= 30
    for item in items:
        found = spread.judged_items([[item]], waiting.filesystem, *judging_of(gate, intake))
        assert counting.count(item, intake) == sum(len(part.judged) for part in found)


def judging_of(gate: Gate, intake: Any) -> tuple[Any, ...]:
    plan = Plan(0, BlockKind.DATA, LIVE, 0, 0, 0, (), None, intake.to_text(), 48)
    return plan, intake, BEGINNING, Undeclared()
