"""Data files that the door writes while it reads: what they hold, and which of them stay."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.core.place import path_of
from penstock.lake.ingest import parquet, source
from penstock.lake.storage import drafts as drafts_module
from penstock.lake.storage import room
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files
from penstock.lake.storage.room import UnwrittenError
from tests.gates import Gate, T
from tests.lakes import meanwhile

COUNT = 3_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "FILE_ROWS", 100)
    monkeypatch.setattr(parquet, "MANY", 1_000)


def content(seed: int = 1) -> pa.Table:
    draw = random.Random(seed)  # noqa: S311

    def drawn(*values: Any) -> list[Any]:
        return [draw.choice(values) for _ in range(COUNT)]

    times = [f"2024-03-01T12:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03}999Z" for n in range(COUNT)]
    return pa.table(
        {
            "event_time": drawn(*times[:50], "soon", None),
            "site": drawn("a", " b ", "", " ", None, "ü"),
            "delay": drawn("1.5", "x", "", "NaN", None, "1e3"),
            "bags": drawn("1", "2.0", "2.5", None, "9" * 30),
            "live": drawn("true", "0", "perhaps", None),
            "colour": drawn("red", "", None),
            "uid": pa.array(range(COUNT), pa.int64()),
        }
    )


def files_of(gate: Gate) -> list[Path]:
    return sorted(path_of(gate.tables.uri("events")).rglob("*.parquet"))


def named(gate: Gate) -> list[Path]:
    table = Table(gate.tables.events(gate.pipeline.types))
    root = path_of(table.spec.uri)
    return sorted(root / file.path for file in data_files(table.refresh(), "arrival_seq"))


def send(gate: Gate, name: str, table: pa.Table, **written: Any) -> None:
    (gate.home / "live").mkdir(exist_ok=True, parents=True)
    pq.write_table(table, gate.home / "live" / name, **written)


def test_text_that_is_a_dictionary_means_what_it_means_plainly(tmp_path: Path) -> None:
    found = []
    for few in (False, True):
        gate = Gate(tmp_path / str(few), "parquet")
        send(gate, "a.parquet", content(), use_dictionary=few, row_group_size=1_100)
        footer = pq.read_metadata(tmp_path / str(few) / "live" / "a.parquet")
        assert ("site" in parquet._encoded(footer)) is few
        assert gate.take() == COUNT
        accepted, refused = gate.conserved()
        assert min(accepted, refused) > 100
        found.append((gate.kept(), gate.refused()))
    assert found[0] == found[1]


def test_a_part_of_a_file_is_read_by_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "RECORDS_PER_PLAN", 700)
    table = pa.table({"event_time": [T] * COUNT, "site": ["a"] * COUNT, "uid": range(COUNT)})
    gate = Gate(tmp_path, "parquet")
    send(gate, "a.parquet", table, row_group_size=450)
    assert gate.take() == COUNT
    assert [row["typed"]["uid"] for row in gate.kept()] == list(range(COUNT))


def test_the_log_says_of_each_file_what_it_holds(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    for number in range(2):  # the first brings fields: the library writes it
        send(gate, f"{number}.parquet", content(number))
        assert gate.take() == COUNT
    table = Table(gate.tables.events(gate.pipeline.types))
    for column in ("arrival_seq", "event_time"):
        files = data_files(table.refresh(), column)
        assert len(files) > 2
        for file in files:
            rows = pq.read_table(path_of(table.spec.uri) / file.path, partitioning=None)
            ends = pc.min_max(pc.cast(rows[column], pa.int64())).as_py()
            more = 999 if column == "event_time" else 0  # writers cut to milliseconds
            assert file.rows == rows.num_rows
            assert file.least == ends["min"] // (more + 1) * (more + 1)
            assert file.greatest == ends["max"] // (more + 1) * (more + 1) + more
            footer = pq.read_metadata(path_of(table.spec.uri) / file.path)
            group = footer.row_group(0)
            said = {
                group.column(i).path_in_schema
                for i in range(group.num_columns)
                if group.column(i).is_stats_set
            }
            assert {"arrival_seq", "event_time", "ingest_time"} <= said


@pytest.mark.parametrize("table", ["quarantine", "events"])
def test_what_another_door_committed_first_leaves_no_file_beside_it(
    tmp_path: Path, table: str
) -> None:
    gate = Gate(tmp_path, "parquet")
    send(gate, "0.parquet", content(0))
    assert gate.take() == COUNT
    send(gate, "1.parquet", content(1))
    with meanwhile(table, lambda: gate.door().work()):
        gate.take()
    assert sum(gate.conserved()) == 2 * COUNT
    assert files_of(gate) == named(gate)
    uids = Counter(row["typed"]["uid"] for row in gate.kept())
    assert max(uids.values()) == 2


def test_what_the_system_does_not_let_be_written_is_tried_again_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path, "parquet")
    send(gate, "0.parquet", content(0))
    assert gate.take() == COUNT
    send(gate, "1.parquet", content(1))
    write, calls = pq.write_table, []

    def full(rows: pa.Table, place: str, **options: Any) -> None:
        calls.append(place)
        if len(calls) == 2:
            write(rows.slice(0, 10), place, **options)
            raise OSError(28, "No space left on device")
        write(rows, place, **options)

    with monkeypatch.context() as patched:
        patched.setattr(drafts_module.pq, "write_table", full)
        with pytest.raises(UnwrittenError, match="No space left"):
            gate.take()
    assert len(calls) >= 2
    assert files_of(gate) == named(gate)
    assert gate.take() == COUNT
    assert sum(gate.conserved()) == 2 * COUNT


def test_no_memory_to_write_is_no_end(tmp_path: Path) -> None:
    with pytest.raises(UnwrittenError, match="no memory"), room.written(str(tmp_path)):
        raise MemoryError("for 5 bytes")
