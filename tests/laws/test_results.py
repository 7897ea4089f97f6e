"""Results that tasks write themselves: the same tables, one commit, and what nobody names goes."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.config.pipeline import TOGETHER
from penstock.core.errors import TransientError
from penstock.core.place import path_of
from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.position import position
from penstock.lake.history.registry import Registry
from penstock.lake.ingest import door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files, read_table
from penstock.lake.storage.room import UnwrittenError
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.spark import results
from tests.doubles import FixedClock, Killed, dies_at
from tests.lakes import Lake
from tests.laws.test_shards import logged
from tests.local import LocalQuery
from tests.steps import CASES, make_pipeline
from tests.streams import disordered, write_jsonl

pytestmark = pytest.mark.law
ROWS, FILES, BOTH = 1 << 40, 1, 400
DAY = timedelta(days=1).total_seconds()
SUMS = {"keys": ["site"], "window": {"size": "PT50S"}, "measures": {"bags_sum": "sum(bags)"},
        "slack": {"fixed": "PT0S"}}  # fmt: skip
OTHER = CASES["codes"][0] | {"slack": {"fixed": "PT0S"}}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 5)


def specs(lake: Lake) -> dict[str, TableSpec]:
    fields = results.StepRows(lake.tables, lake.step).wire.layout.fields
    tables, step = lake.tables, lake.step
    return {"late": tables.late(step, fields), "answers": tables.answers(step),
            "control": tables.control(step)}  # fmt: skip


def content(lake: Lake) -> dict[str, list[Any]]:
    """All rows of what a query writes, in an order of their own."""
    return {
        name: sorted(map(repr, read_table(Table(spec)).to_pylist()))
        for name, spec in specs(lake).items()
    }


def answered(lake: Lake, large: int, patch: pytest.MonkeyPatch, **options: Any) -> LocalQuery:
    patch.setattr(results, "LARGE", large)
    query = LocalQuery(lake.tables, lake.pipeline, lake.query_name, FixedClock(), **options)
    return query.run()


def files(lake: Lake, name: str) -> tuple[set[Path], set[Path]]:
    """Data files of a table that its log names, and those that lie there."""
    spec = specs(lake)[name]
    root = path_of(spec.uri)
    named = {root / file.path for file in data_files(Table(spec).refresh(), "window_start")}
    return named, set(root.glob("*.parquet"))


@pytest.mark.parametrize("case", ["both", "ranks", "seen", "codes"])
def test_both_ways_and_a_mixture_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    found, kinds = {}, {}
    for way in (ROWS, FILES, BOTH):
        lake = logged(tmp_path / str(way), case)
        answered(lake, way, monkeypatch, blocks=6)
        found[way] = content(lake)
        kinds[way] = len(files(lake, "answers")[0])
        lake.check()
    assert min(map(len, found[ROWS].values())) > 2
    assert found[ROWS] == found[FILES] == found[BOTH]
    assert kinds[FILES] > kinds[ROWS], "a file a shard, not one a micro-batch"


def test_what_a_micro_batch_leaves_is_one_commit_of_each_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = logged(tmp_path)
    answered(lake, BOTH, monkeypatch, blocks=6, shards=4)
    for name, spec in specs(lake).items():
        batches = {row["micro_batch"] for row in read_table(Table(spec)).to_pylist()}
        assert Table(spec).refresh().version() == len(batches), name


def test_files_of_a_micro_batch_that_is_repeated_are_named_once_and_the_others_go_in_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, whole = logged(tmp_path / "killed"), logged(tmp_path / "whole")
    answered(whole, FILES, monkeypatch, blocks=100)
    with pytest.raises(Killed):  # before Spark's commit: late, answers and control are there
        answered(lake, FILES, monkeypatch, blocks=100, dies=dies_at(3))
    before = {name: files(lake, name)[0] for name in ("late", "answers")}
    answered(lake, FILES, monkeypatch, blocks=100)
    assert content(lake) == content(whole)
    for name, named in before.items():
        now, there = files(lake, name)
        assert named == now < there, "repeated, and of no use"
    for age, gone in ((0, False), (DAY - 3_600, False), (DAY + 3_600, True)):
        for name in before:
            for path in files(lake, name)[1]:
                os.utime(path, (time.time() - age,) * 2)
        maintain_pipeline(lake.tables, lake.pipeline)
        for name in before:
            now, there = files(lake, name)
            assert (there == now) is gone, (name, age)
    assert content(lake) == content(whole)
    lake.check()


def test_a_file_that_cannot_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = logged(tmp_path)
    write = results.write_file

    def full(spec: TableSpec, rows: pa.Table) -> Any:
        raise UnwrittenError(spec.uri, "No space left on device")

    monkeypatch.setattr(results, "write_file", full)
    with pytest.raises(TransientError, match="No space left"):
        answered(lake, FILES, monkeypatch)
    assert position(lake.tables, lake.step) is None
    monkeypatch.setattr(results, "write_file", write)
    answered(lake, FILES, monkeypatch)
    assert len(generations(lake.tables, lake.step)) == 1
    lake.check()


def test_a_value_that_has_no_place_ends_its_step_alone_whoever_would_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {}
    for way in (ROWS, FILES):
        home = tmp_path / str(way)
        source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
        pipeline = make_pipeline(home, {"first": SUMS, "second": OTHER}, source=source)
        tables, clock = Tables(str(home / "lake"), pipeline.name), FixedClock()
        Registry(tables, clock, pipeline).start_all()
        rows = disordered(200, seed=1, apart=2.0, late_share=0.0)
        for row in rows[10:12]:
            row |= {"bags": 2**62, "site": "x", "event_time": rows[10]["event_time"]}
        write_jsonl(home / "live" / "0.jsonl", rows)
        run_through(door.Door(tables, pipeline, home, clock), LIVE, None, None)
        monkeypatch.setattr(results, "LARGE", way)
        query = LocalQuery(tables, pipeline, TOGETHER, clock).run()
        said[way] = query.stands_still
        assert position(tables, pipeline.spec("first")) is None
        assert position(tables, pipeline.spec("second")) is not None
        assert not read_table(Table(tables.answers(pipeline.spec("first")))).num_rows
    assert said[ROWS] == said[FILES]
    assert "first.bags_sum: a sum of integers exceeds 64 bits" in said[FILES]["first"]
    assert said[FILES].keys() == {"first"}
