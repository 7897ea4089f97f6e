"""Maintenance takes away what nobody reads, and nothing else."""

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.place import path_of
from penstock.lake.history import maintain
from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import FEW_FILES, MANY_FILES, maintain_pipeline
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files, read_table
from tests.answers import blocks_of
from tests.doubles import lose_memory
from tests.lakes import make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

HOUR_NS = 3_600 * 10**9


def test_a_pipeline_that_never_ran_has_nothing_to_maintain(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    assert maintain_pipeline(lake.tables, lake.pipeline) == {}
    assert not (tmp_path / "lake").exists()


def test_checkpoints_of_replaced_generations_go_and_the_stream_goes_on(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    rows = some_rows(120, seed=3)
    folders = []
    for part in range(3):
        for half in range(2):
            some = rows[(2 * part + half) * 20 :][:20]
            write_jsonl(tmp_path / "live" / f"{part}{half}.jsonl", some)
            lake.ingest()
        lake.query(blocks=1).run()
        newest = generations(lake.tables, lake.step)[-1].number
        folders.append(lake.checkpoint)
        if part < 2:
            lose_memory(folders[-1], "commits")
    assert len(set(folders)) == 3
    assert maintain_pipeline(lake.tables, lake.pipeline)["checkpoints"] == 2
    assert [folder.exists() for folder in folders] == [False, False, True]
    write_jsonl(tmp_path / "live" / "30.jsonl", some_rows(40, seed=4))
    lake.ingest()
    lake.query().run()
    assert generations(lake.tables, lake.step)[-1].number == newest, "it went on where it was"
    lake.check()


def test_old_commits_go_and_a_reader_that_fell_behind_still_follows(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    rows = some_rows(60, seed=5)
    behind = lake.door()
    for part in range(12):
        write_jsonl(tmp_path / "live" / f"{part:02}.jsonl", rows[part * 5 : part * 5 + 5])
        lake.ingest()
        if part == 0:
            behind.work()
    log = Path(lake.tables.uri("blocks")) / "_delta_log"
    for path in log.iterdir():
        old = path.stat().st_mtime_ns - 2 * HOUR_NS
        os.utime(path, ns=(old, old))
    assert len(list(log.glob("*.json"))) > 12
    maintain_pipeline(lake.tables, lake.pipeline)
    assert len(list(log.glob("*.json"))) <= 2
    write_jsonl(tmp_path / "live" / "12.jsonl", some_rows(5, seed=6))
    assert behind.work() == 5
    assert sum(len(block.records) for block in blocks_of(lake.tables, lake.pipeline)) == 65


def test_files_stay_few_and_no_row_is_written_again_at_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "SMALL", 15_000)
    monkeypatch.setattr(maintain, "LARGE", 150_000)
    lake = make_lake(tmp_path, CASES["sites"])
    table = Table(lake.tables.quarantine())
    most, dice = 0, random.Random(1)  # noqa: S311
    for number in range(400):
        row = dict.fromkeys(table.spec.schema.names) | {"arrival_seq": number, "origin": "live"}
        row["raw"] = dice.randbytes(100).hex()
        rows = pa.Table.from_pylist([row], schema=table.spec.schema)
        table.append(rows, "test", number)
        if number % 10 == 9:
            maintain.maintain_table(table.spec)
            most = max(most, len(table.refresh().file_uris()))
    found = read_table(table, ["arrival_seq"])["arrival_seq"].to_pylist()
    assert sorted(found) == [*range(400)]
    assert most < FEW_FILES + MANY_FILES + 10
    folder, ours = path_of(table.spec.uri), {f.path for f in data_files(table.delta, "arrival_seq")}
    sizes = {path.name: path.stat().st_size for path in folder.rglob("part-*.parquet")}
    kept = sum(sizes[name] for name in ours)
    again = sum(size for size in sizes.values() if size > 3_000)  # not what came, a row each
    assert again < 8 * kept, "what is written again stays a day"
