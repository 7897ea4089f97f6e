"""A Delta source under maintenance by others: nothing doubled or lost, or it stops and says."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.config.intake import Source
from penstock.core.errors import ConfigError
from penstock.core.place import path_of
from penstock.lake.ingest import source as source_module
from penstock.lake.ingest.delta_log import DeltaSourceError
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.place import problems
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.through import run_through
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests.answers import blocks_of
from tests.doubles import FixedClock
from tests.steps import SITES, make_pipeline
from tests.streams import ARROW, BEGIN, disordered, us

ROWS = disordered(60, seed=4)


class World:
    """A table that somebody writes, and a pipeline that follows it."""

    def __init__(self, home: Path) -> None:
        self.home, self.place, self.at = home, home / "table", 0
        self.config: dict[str, Any] = {"delta": str(self.place)}
        self.tables = Tables(str(home / "lake"), "p")

    @property
    def pipeline(self) -> Any:
        return make_pipeline(self.home, {"s": SITES}, source=self.config)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.place))

    def door(self) -> Door:
        """A new process."""
        return Door(self.tables, self.pipeline, self.home, FixedClock(BEGIN + timedelta(days=1)))

    def take(self) -> int:
        return run_through(self.door(), "live", None, None)

    def append(self, files: int = 1, **options: Any) -> None:
        for _ in range(files):
            rows = pa.Table.from_pylist(ROWS[self.at : self.at + 5], pa.schema(ARROW.items()))
            write_deltalake(str(self.place), rows, mode="append", **options)
            self.at += 5

    def compact(self) -> None:
        self.table.optimize.compact()

    def vacuum(self) -> None:
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def clean_log(self) -> None:
        """As log retention does it: a checkpoint, and the commits before it go."""
        table = self.table
        table.create_checkpoint()
        for version in range(table.version()):
            (self.place / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)

    def is_all(self, *, in_order: bool = True) -> None:
        """Every row that was written stands in the log once, in order."""
        records = [r for b in blocks_of(self.tables, self.pipeline) for r in b.records]
        found = [r["event_time"] for r in records]
        expected = [us(r["event_time"]) for r in ROWS[: self.at]]
        assert found == expected if in_order else sorted(found) == sorted(expected)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.append(3)
    return world


def test_compaction_log_cleaning_and_vacuum_neither_double_nor_lose(world: World) -> None:
    assert world.take() == 15
    world.compact()
    world.clean_log()
    assert world.take() == 0
    world.append(2)
    assert world.take() == 10
    world.compact()
    world.vacuum()
    assert world.take() == 0
    world.is_all()


def test_a_table_compacted_and_vacuumed_before_the_first_read_is_read_whole(world: World) -> None:
    world.compact()
    world.vacuum()
    assert world.take() == 15
    world.append()
    assert world.take() == 5
    records = [r for b in blocks_of(world.tables, world.pipeline) for r in b.records]
    expected = sorted(us(r["event_time"]) for r in ROWS[:20])
    assert sorted(r["event_time"] for r in records) == expected


CHANGES: dict[str, Callable[[World], Any]] = {
    "UPDATE": lambda w: w.table.update(updates={"bags": "1"}),
    "DELETE": lambda w: w.table.delete("code = 1"),
    "overwrite": lambda w: write_deltalake(
        str(w.place), pa.Table.from_pylist(ROWS[:5], pa.schema(ARROW.items())), mode="overwrite"
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_commit_that_changes_records_stops_with_the_remedy(world: World, name: str) -> None:
    assert world.take() == 15
    CHANGES[name](world)
    for _ in range(2):
        with pytest.raises(DeltaSourceError, match=r"version 3 .* skip: \[3\] .*penstock remove"):
            world.take()
    world.config["skip"] = [3]
    assert world.take() == 0
    world.append()
    assert world.take() == 5
    world.is_all()


def test_a_change_before_the_first_read_is_part_of_the_snapshot(world: World) -> None:
    world.table.delete("code = 1")
    left = world.table.to_pyarrow_dataset().count_rows()
    assert 0 < left < 15
    assert world.take() == left


def test_a_gap_in_the_log_stops_with_the_remedy(world: World) -> None:
    assert world.take() == 15
    world.append(2)
    world.clean_log()
    world.append()
    with pytest.raises(DeltaSourceError, match=r"cleaned before version 3 was read.*backup"):
        world.take()


def test_a_file_removed_before_it_was_read_stops_and_goes_on_when_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.take() == 15
    world.append(2)
    kept = world.home / "kept"
    shutil.copytree(world.place, kept)
    world.compact()
    world.vacuum()
    with pytest.raises(DeltaSourceError, match=r"of version 3 was removed \(VACUUM\)"):
        world.take()
    shutil.copytree(kept, world.place, dirs_exist_ok=True)
    monkeypatch.setattr(
        "penstock.lake.ingest.judging.receive", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):  # planned, and then the reader dies
        world.take()
    monkeypatch.undo()
    world.vacuum()
    with pytest.raises(DeltaSourceError, match=r"of version 3 was removed \(VACUUM\)"):
        world.take()
    shutil.copytree(kept, world.place, dirs_exist_ok=True)
    assert world.take() == 10
    world.is_all()


def test_a_snapshot_is_taken_to_its_end_by_any_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "FILES_PER_PLAN", 2)
    assert world.door().work() == 10
    world.append()
    world.compact()
    assert world.door().work() == 10
    assert world.take() == 0
    world.is_all()


def test_two_processes_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "FILES_PER_PLAN", 1)
    one, other = world.door(), world.door()
    for turn in range(20):
        if turn % 3 == 0 and world.at < len(ROWS):
            world.append()
        if turn % 4 == 2:
            world.compact()
        (one if turn % 2 else other).work()
    run_through(one, "live", None, None)
    world.is_all()


def test_a_table_that_is_made_again_stops(world: World) -> None:
    door = world.door()
    assert run_through(door, "live", None, None) == 15
    shutil.rmtree(world.place)
    with pytest.raises(SourceError, match="holds no Delta table"):
        door.work()
    world.append(1)
    for each in (door, world.door()):
        with pytest.raises(DeltaSourceError, match="its id has changed"):
            each.work()


@pytest.mark.parametrize("mode", ["live", "bounded"])
def test_a_table_that_is_not_there_is_not_an_empty_one(tmp_path: Path, mode: str) -> None:
    world = World(tmp_path)
    world.config["mode"] = mode
    with pytest.raises(SourceError, match="holds no Delta table"):
        world.take()
    world.append()
    assert world.take() == 5
    world.is_all()


def test_validate_names_a_table_that_is_not_there_or_cannot_be_followed(tmp_path: Path) -> None:
    world = World(tmp_path)

    def said() -> list[str]:
        found = problems(world.pipeline, world.home, world.tables.lake)
        return [f"{'.'.join(p.keys)}: {p.problem}. {p.remedy}" for p in found]

    [missing] = said()
    assert missing.startswith(f"source.delta: the Delta table {world.place} is not there. Name a")
    world.place.mkdir()
    [empty] = said()
    assert "holds no Delta table: see that the place is the one that was meant" in empty
    world.append()
    assert said() == []
    commit = world.place / "_delta_log" / f"{0:020d}.json"
    mapped = '"configuration":{"delta.columnMapping.mode":"name"'
    commit.write_text(commit.read_text().replace('"configuration":{', mapped))
    [other] = said()
    assert "columns are mapped" in other


def test_a_table_is_not_read_as_a_folder_of_files(world: World) -> None:
    """After a compaction every record would come in again."""
    world.config = {"files": str(world.place), "format": "parquet"}
    [problem] = problems(world.pipeline, world.home, world.tables.lake)
    assert problem.keys == ("source", "files")
    with pytest.raises(ConfigError, match=r"is a Delta table: .*by delta: in place"):
        world.take()


def test_partition_values_come_from_the_log(world: World, tmp_path: Path) -> None:
    other = World(tmp_path / "x=9")
    odd = ["a/b %41", "São x", "#?[ü]", None, "1=2"]
    rows = [{**r, "site": site} for r, site in zip(ROWS[:5], odd, strict=True)]
    content = pa.Table.from_pylist(rows, pa.schema(ARROW.items()))
    write_deltalake(str(other.place), content, mode="append", partition_by=["site"])
    other.clean_log()
    assert other.take() == 5
    write_deltalake(str(other.place), content, mode="append")
    assert other.take() == 5
    events = read_table(Table(other.tables.events(other.pipeline.types)))
    assert sorted(events["site"].to_pylist()) == sorted(2 * [s for s in odd if s])
    assert pc.sum(pc.is_valid(events["extra"])).as_py() in {0, len(events)}
    assert all("x" not in json.loads(e or "{}") for e in events["extra"].to_pylist())


def test_partition_values_mean_the_same_from_a_snapshot_and_from_a_commit(tmp_path: Path) -> None:
    place, at = tmp_path / "table", datetime(2024, 3, 1, 12, tzinfo=UTC)
    columns = {"flag": "string", "at": "timestamp", "site": "string", "delay": "double",
               "bags": "long"}  # fmt: skip
    pipeline = make_pipeline(tmp_path, {"s": SITES}, source={"delta": str(place)}, columns=columns,
                             zone="Europe/Vienna")  # fmt: skip
    tables = Tables(str(tmp_path / "lake"), "p")
    rows = pa.table({"event_time": [at], "site": ["a"], "flag": [True], "at": [at]})
    for _ in range(2):
        write_deltalake(str(place), rows, mode="append", partition_by=["flag", "at"])
        door = Door(tables, pipeline, tmp_path, FixedClock(BEGIN + timedelta(days=1)))
        assert run_through(door, "live", None, None) == 1
    events = read_table(Table(tables.events(pipeline.types)))
    assert events["flag"].to_pylist() == ["true", "true"]
    assert events["at"].to_pylist() == [at, at]


@pytest.mark.parametrize(("what", "said"), [
    ('"delta.columnMapping.mode":"name"', "columns are mapped"),
])  # fmt: skip
def test_mapped_columns_stop_with_the_remedy(world: World, what: str, said: str) -> None:
    commit = world.place / "_delta_log" / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('"configuration":{', '"configuration":{' + what))
    with pytest.raises(DeltaSourceError, match=said):
        world.take()


PLACES: dict[str, Callable[[World], str]] = {
    "moved": lambda w: str(w.place.rename(w.home / "moved")),
    "a link": lambda w: (w.home / "link").symlink_to(w.place) or str(w.home / "link"),
    "a detour": lambda w: f"{w.home}/live/../table",
    "a URI": lambda w: w.place.as_uri(),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("limit", ["FILES_PER_PLAN", "RECORDS_PER_PLAN"])
def test_a_table_half_read_is_gone_on_with_by_another_name(
    world: World, name: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, limit, 1 if limit == "FILES_PER_PLAN" else 4)
    assert world.door().work() in {4, 5}
    world.config["delta"] = PLACES[name](world)
    world.place = Path(path_of(world.config["delta"]))
    world.append()
    world.take()
    world.is_all()


@pytest.mark.parametrize("copied", [False, True])
def test_a_plan_that_was_unfinished_when_its_table_was_moved_goes_on(
    world: World, copied: bool
) -> None:
    door = world.door()
    door._catch_up()
    assert door._plan("live", None, None) is not None
    here = world.home / "moved"
    if copied:  # without times
        shutil.copytree(world.place, here, copy_function=shutil.copyfile)
        shutil.rmtree(world.place)
    else:
        world.place.rename(here)
    with pytest.raises(SourceError, match=r"table/part.*is not there.*delta:"):
        world.take()
    world.config["delta"], world.place = str(here), here
    world.append()
    assert world.take() == 20
    world.is_all()


def test_a_plan_is_not_carried_out_from_another_table(world: World) -> None:
    door = world.door()
    door._catch_up()
    assert door._plan("live", None, None) is not None
    kept = world.place.rename(world.home / "kept")
    world.config["delta"] = str(world.home / "other")
    write_deltalake(world.config["delta"], pa.table({"event_time": ["2024-03-01T12:00:00Z"]}))
    for file in kept.glob("part-*"):
        (world.home / "other" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(SourceError, match=r"table/part.*is not there"):
        world.take()


def test_a_file_elsewhere_is_read_where_it_lies(world: World) -> None:
    other = World(world.home / "clone")
    other.append()
    commit = other.place / "_delta_log" / f"{0:020d}.json"
    for prefix in ("file://", "file:", ""):
        whole = other.place.as_uri().replace("file://", prefix)
        text = commit.read_text().replace('"path":"part', f'"path":"{whole}/part')
        place = world.home / f"by {prefix.strip(':/')}{len(prefix)}"
        (place / "_delta_log").mkdir(parents=True)
        (place / "_delta_log" / commit.name).write_text(text)
        reader = World(place.with_suffix(".lake"))
        reader.config["delta"], reader.place = str(place), place
        assert reader.take() == 5
        (place / "_delta_log" / f"{1:020d}.json").write_text(text.replace("part-", "./part-"))
        assert reader.take() == 0, "it is the same file, however it is spelled"
        for file in other.place.glob("part-*"):
            shutil.copy(file, other.place / file.name.replace("part-", "copy-"))
        (place / "_delta_log" / f"{2:020d}.json").write_text(text.replace("part-", "./copy-"))
        assert reader.take() == 5


def test_a_commit_that_was_there_in_part_is_read_to_its_end(world: World) -> None:
    """As in a table that is being copied: an entry may end at any line, or be empty."""
    for first in (False, True):
        for kept in range(4):
            copied = World(world.home / f"{first} {kept}")
            copied.place.parent.mkdir()
            copied.append(1 if first else 2)
            copied.table.optimize.compact()  # moves records, brings none
            if not first:
                assert copied.take() == 10
            two = [add_of(copied), add_of(copied)]
            commit = copied.place / "_delta_log" / f"{copied.table.version() + 1:020d}.json"
            lines = ['{"commitInfo":{"operation":"WRITE"}}', *map(json.dumps, two)]
            door = copied.door()
            commit.write_text("\n".join(lines[:kept]))
            empty = pytest.raises(SourceError, match="is empty: it is being written")
            with nullcontext() if kept else empty:
                run_through(door, "live", None, None)
            commit.write_text("\n".join(lines))
            run_through(door if kept % 2 else copied.door(), "live", None, None)
            assert copied.take() == 0
            copied.is_all(in_order=False)


def add_of(world: World) -> dict[str, Any]:
    """A file with the next rows, and the action that adds it."""
    rows = pa.Table.from_pylist(ROWS[world.at : world.at + 5], pa.schema(ARROW.items()))
    world.at += 5
    path = world.place / f"{world.at}.parquet"
    pq.write_table(rows, path)
    about = {"size": path.stat().st_size, "modificationTime": 1, "dataChange": True}
    return {"add": {"path": path.name, "partitionValues": {}, **about}}


def test_a_table_put_back_and_written_otherwise_stops(world: World) -> None:
    kept = world.home / "kept"
    assert world.take() == 15
    shutil.copytree(world.place, kept)
    world.append()
    assert world.take() == 5
    shutil.rmtree(world.place)
    kept.rename(world.place)
    world.append(2)
    with pytest.raises(DeltaSourceError, match=r"version 3 is not what it was.*backup"):
        world.take()


def test_what_no_try_will_read_stops_with_the_remedy(world: World) -> None:
    assert world.take() == 15
    world.append(2)
    log = world.place / "_delta_log"
    missing = log / f"{3:020d}.json"
    kept = missing.read_text()
    missing.unlink()
    with pytest.raises(DeltaSourceError, match=r"version 3 is missing in its log.*backup"):
        world.take()
    features = '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["new"],"writerFeatures":["new"]}}'  # noqa: E501
    missing.write_text(kept + "\n" + features)
    with pytest.raises(DeltaSourceError, match=r"'new' is not supported.*copy it to a table"):
        world.take()
    missing.write_text(kept[: len(kept) // 2])
    with pytest.raises(SourceError) as cut:
        world.take()
    assert "<unknown>" not in str(cut.value)
    missing.write_text(kept)
    assert world.take() == 10
    world.is_all()


def without_versions(world: World) -> None:
    """Make the plans those of Penstock before versions were noted."""
    place = world.tables.plans().uri
    rows = read_table(Table(world.tables.plans())).to_pylist()
    new = ("version", "files", "snapshot", "table", "values")
    for row in rows:
        items = json.loads(row["positions"])
        for item in items:
            item["path"] = f"{world.place}/{item['path']}"
        row["positions"] = json.dumps([{k: v for k, v in i.items() if k not in new} for i in items])
    schema = world.tables.plans().schema
    log = DeltaTable(place)
    last = log.transaction_version("ingest")
    shutil.rmtree(place)
    Table(world.tables.plans()).append(pa.Table.from_pylist(rows, schema), "ingest", last or 0)


def test_plans_of_the_former_form_are_gone_on_with(world: World) -> None:
    assert world.take() == 15
    without_versions(world)
    world.compact()
    world.append(2)
    assert world.take() == 10
    world.compact()
    assert world.take() == 0
    world.is_all()


def test_plans_of_the_former_form_over_a_cleaned_log_stop(world: World) -> None:
    assert world.take() == 15
    without_versions(world)
    world.compact()
    world.clean_log()
    world.append()
    with pytest.raises(DeltaSourceError, match="cannot be told from what was not"):
        world.take()


def test_versions_are_skipped_only_of_a_delta_table() -> None:
    with pytest.raises(ValueError, match="files have none"):
        Source.model_validate({"files": "x", "skip": [1]})
