"""What waits at a source, in which order: files, parts of large ones, a Delta table by its log."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.config.intake import Source
from penstock.lake.ingest import source as source_module
from penstock.lake.ingest.delta_log import DeltaSourceError
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.spans import minus
from penstock.lake.ingest.through import run_through
from penstock.lake.storage.tables import Tables
from tests.answers import blocks_of
from tests.doubles import FixedClock
from tests.steps import SITES, make_pipeline
from tests.streams import ARROW, BEGIN, disordered, write_jsonl, write_parquet


def names(items: list[Item]) -> list[str]:
    return [Path(i.path).name for i in items]


def waiting(home: Path, **config: Any) -> Waiting:
    return Waiting(Source.model_validate({"files": str(home)} | config), home)


def test_files_come_by_name_and_only_those_of_the_format(tmp_path: Path) -> None:
    hidden = (".h.parquet", "_d.parquet", "_spark_metadata/1.parquet", "x/.tmp/1.parquet")
    for name in ("b.parquet", "a.parquet", "sub/c.pq", "x.csv", *hidden):
        if name.endswith("csv"):
            (tmp_path / name).write_text("a\n1\n")
        else:
            write_parquet(tmp_path / name, disordered(2, seed=1))
    found = waiting(tmp_path)
    assert names(found.items()) == ["a.parquet", "b.parquet", "c.pq"]
    found.take(found.items())
    assert found.items() == []


def test_what_is_left_alone_for_its_name_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = tmp_path / "live"
    for name in ("live/a.csv", "live/b.csv.gz", "live/in/notes", "out/c.csv", "live/.store/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("event_time\n")
    for link, target in {"latest": "a.csv", "old": "../out/c.csv", "kept": ".store/d.csv"}.items():
        (live / link).symlink_to(target)
    found = waiting(live, format="csv")
    assert names(found.items()) == ["a.csv"]
    notices = {why: sorted(some) for why, some in found.notices.found.items() if some}
    assert notices == {
        "left alone: a name that does not end in .csv": ["b.csv.gz", "in/notes", "kept", "old"]
    }, "what a link leads to is found by its own name only within the folder"
    for extra in range(20):
        (live / f"{extra}.txt").write_text("")
        found.take(found.items())
        found.items()
    lines = [r.getMessage() for r in caplog.records if "does not end in .csv" in r.getMessage()]
    assert [int(line.split("count=")[1].split()[0]) for line in lines] == [4, 8, 16]


def test_a_source_folder_may_have_any_name(tmp_path: Path) -> None:
    for name in ("so urce [1]", "%41 50%", "#?*", "a^b|c", "日本", "x=1\\y"):
        home = tmp_path / name
        write_parquet(home / "in" / "a b#?%41[ü].parquet", disordered(3, seed=1))
        for place in ("in", str(home / "in"), (home / "in").as_uri()):
            pipeline = make_pipeline(home, {"s": SITES}, source={"files": place})
            tables = Tables(str(tmp_path / f"lake {abs(hash((name, place)))}"), "p")
            door = Door(tables, pipeline, home, FixedClock(BEGIN + timedelta(days=1)))
            assert run_through(door, "live", None, None) == 3
            assert None not in [r for b in blocks_of(tables, pipeline) for r in b.records]


def test_files_come_by_modification_where_the_pipeline_says_so(tmp_path: Path) -> None:
    import os

    for i, name in enumerate(("c", "a", "b")):
        path = write_jsonl(tmp_path / f"{name}.jsonl", [{}])
        os.utime(path, ns=(0, i * 10**9))
    found = waiting(tmp_path, format="jsonl", order="modified")
    assert names(found.items()) == ["c.jsonl", "a.jsonl", "b.jsonl"]


def test_a_large_file_is_taken_in_parts_by_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "RECORDS_PER_PLAN", 40)
    write_parquet(tmp_path / "a.parquet", disordered(100, seed=1))
    found, parts = waiting(tmp_path), []
    while items := found.items():
        parts += [(i.first, i.end) for i in items]
        found.take(items)
    assert parts == [(0, 40), (40, 80), (80, -1)]


def test_a_large_text_is_taken_in_parts_by_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "BYTES_PER_PLAN", 300)
    for kind in ("jsonl", "csv"):
        home = tmp_path / kind
        pipeline = make_pipeline(
            home, {"s": SITES}, source={"files": str(home / "in"), "format": kind}
        )
        rows = disordered(50, seed=1)
        if kind == "jsonl":
            write_jsonl(home / "in" / "a.jsonl", rows)
        else:
            lines = [f"{r['event_time'].isoformat()},{r['site']}" for r in rows]
            (home / "in").mkdir(parents=True)
            (home / "in" / "a.csv").write_text("event_time,site\n" + "\n".join(lines))
        tables = Tables(str(home / "lake"), "p")
        door = Door(tables, pipeline, home, FixedClock(BEGIN + timedelta(days=1)))
        taken = 0
        plans = 0
        while (received := door.work()) >= 0:
            taken, plans = taken + received, plans + 1
        assert taken == 50
        assert plans > 3
        records = [r for b in blocks_of(tables, pipeline) for r in b.records]
        assert None not in records
        assert [r["site"] for r in records] == [r["site"] for r in rows]


@pytest.mark.parametrize(("wanted", "taken", "left"), [
    ((0, 10), [], [(0, 10)]),
    ((0, 10), [(0, 10)], []),
    ((0, 10), [(3, 5)], [(0, 3), (5, 10)]),
    ((0, 10), [(3, 5), (4, 8)], [(0, 3), (8, 10)]),
    ((0, 10), [(-5, 2), (9, 20)], [(2, 9)]),
    ((0, 10), [(10, 20)], [(0, 10)]),
])  # fmt: skip
def test_what_no_interval_has_taken(wanted: Any, taken: Any, left: Any) -> None:
    assert minus(wanted, taken) == left


def delta_door(home: Path) -> tuple[Door, Any, Tables]:
    pipeline = make_pipeline(home, {"s": SITES}, source={"delta": str(home / "table")})
    tables = Tables(str(home / "lake"), "p")
    return Door(tables, pipeline, home, FixedClock(BEGIN + timedelta(days=1))), pipeline, tables


def append(home: Path, rows: list[Any], **options: Any) -> None:
    schema = pa.schema(ARROW.items())
    write_deltalake(
        str(home / "table"), pa.Table.from_pylist(rows, schema), mode="append", **options
    )


def test_a_delta_table_is_followed_by_its_log_and_compaction_adds_nothing(tmp_path: Path) -> None:
    door, pipeline, tables = delta_door(tmp_path)
    with pytest.raises(SourceError, match="holds no Delta table"):
        door.work()
    rows = disordered(40, seed=4)
    for i in range(0, 20, 5):
        append(tmp_path, rows[i : i + 5])
    assert run_through(door, "live", None, None) == 20
    DeltaTable(str(tmp_path / "table")).optimize.compact()
    assert door.work() == -1
    for i in range(20, 40, 5):
        append(tmp_path, rows[i : i + 5])
    assert run_through(door, "live", None, None) == 20
    records = [r for b in blocks_of(tables, pipeline) for r in b.records]
    assert [r["site"] for r in records] == [r["site"] for r in rows]


def test_a_partitioned_delta_table_keeps_the_columns_of_its_paths(tmp_path: Path) -> None:
    door, pipeline, tables = delta_door(tmp_path)
    append(tmp_path, disordered(30, seed=4), partition_by=["site"])
    assert run_through(door, "live", None, None) == 30
    sites = {r["site"] for b in blocks_of(tables, pipeline) for r in b.records}
    assert {"Zürich", "São Paulo", "a'b"} <= sites


def test_a_delta_table_whose_log_was_cleaned_is_read_from_what_is_left(tmp_path: Path) -> None:
    door, pipeline, tables = delta_door(tmp_path)
    rows = disordered(25, seed=4)
    for i in range(0, 20, 5):
        append(tmp_path, rows[i : i + 5])
    table = DeltaTable(str(tmp_path / "table"))
    table.create_checkpoint()
    for version in range(3):
        (tmp_path / "table" / "_delta_log" / f"{version:020d}.json").unlink()
    append(tmp_path, rows[20:])
    assert run_through(door, "live", None, None) == 25
    assert sum(len(b.records) for b in blocks_of(tables, pipeline)) == 25


def test_a_delta_table_with_deletion_vectors_is_refused_with_the_remedy(tmp_path: Path) -> None:
    log = tmp_path / "table" / "_delta_log"
    append(tmp_path, disordered(3, seed=1))
    commit = log / f"{0:020d}.json"
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4,
              "sizeInBytes": 40, "cardinality": 2}  # fmt: skip
    marked = f'"add":{{"deletionVector":{json.dumps(vector)},'
    commit.write_text(commit.read_text().replace('"add":{', marked))
    found = Waiting(Source.model_validate({"delta": str(tmp_path / "table")}), tmp_path)
    with pytest.raises(DeltaSourceError, match=r"deletion vectors.*enableDeletionVectors = false"):
        found.items()


def test_an_empty_parquet_file_is_taken_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"site": pa.array([], pa.string())}), tmp_path / "a.parquet")
    found = waiting(tmp_path)
    items = found.items()
    assert [i.records for i in items] == [0]
    found.take(items)
    assert found.items() == []
