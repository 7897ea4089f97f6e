"""The door of a pipeline of several sources: where they lie, and what if one is away."""

import shutil
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.storage.commit import Table
from tests.rivers import Rivers, some_far, some_near
from tests.steps import CASES, make_pipeline

LIVING = {"near": "live", "far": "live"}


def rivers_of(home: Path) -> Rivers:
    return Rivers(home, LIVING, "sites", "codes", idle_after="PT1H")


def test_a_source_that_is_away_is_said_and_the_other_goes_on(tmp_path: Path) -> None:
    rivers = rivers_of(tmp_path)
    rivers.put("near", some_near(3, 1))
    door = rivers.door()
    assert door.work() == 3
    assert door.away is None
    shutil.move(tmp_path / "near" / LIVE, tmp_path / "away")
    rivers.put("far", some_far(4, 1))
    assert door.work() == 4
    assert str(tmp_path / "near") in str(door.away)
    with pytest.raises(SourceError, match="near"):
        door.work()
    shutil.move(tmp_path / "away", tmp_path / "near" / LIVE)
    assert door.work() == -1
    assert door.away is None


def test_a_pipeline_of_several_sources_does_not_become_one_of_one(tmp_path: Path) -> None:
    rivers = rivers_of(tmp_path)
    rivers.put("near", some_near(3, 1))
    rivers.ingest()
    source = {"files": str(tmp_path / "near" / LIVE), "format": "jsonl"}
    alone = make_pipeline(tmp_path, {"sites": CASES["sites"][0]}, source=source)
    with pytest.raises(ConfigError, match="one source does not become one of several"):
        Door(rivers.tables, alone, tmp_path, rivers.clock).work()


def test_folders_of_streams_lie_apart(tmp_path: Path) -> None:
    rivers = rivers_of(tmp_path)
    rivers.sources["far"]["source"]["files"] = rivers.sources["near"]["history"]["files"]
    with pytest.raises(ConfigError, match=r"sources.far.source.files .*near's history .*twice"):
        rivers.door()


def test_the_tables_of_the_log_get_the_column_with_the_first_row_that_needs_it(
    tmp_path: Path,
) -> None:
    source = {"files": str(tmp_path / "one"), "format": "jsonl", "mode": "bounded"}
    (tmp_path / "one").mkdir()
    alone = make_pipeline(tmp_path, {"sites": CASES["sites"][0]}, source=source, name="alone")
    rivers = rivers_of(tmp_path)
    tables = type(rivers.tables)(rivers.tables.lake, "alone")
    assert Door(tables, alone, tmp_path, rivers.clock).work() == 0
    rivers.put("near", some_near(30, 1), HISTORY)
    rivers.ingest(HISTORY)
    for name in ("plans", "blocks", "quarantine"):
        columns = [
            [f.name for f in Table(getattr(some, name)()).refresh().schema().fields]
            for some in (tables, rivers.tables)
        ]
        assert columns[1] == [*columns[0], "stream"]
