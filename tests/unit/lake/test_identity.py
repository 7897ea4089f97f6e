"""Which file is which: by its place in the source's folder, whatever names and links lead there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import HISTORY
from tests.gates import Gate
from tests.streams import disordered, write_parquet


def put(folder: Path, name: str, count: int = 5) -> None:
    rows = disordered(count, seed=sum(name.encode()), late_share=0)
    write_parquet(folder / name, rows)


def test_a_moved_home_is_not_read_again(tmp_path: Path) -> None:
    before = Gate(tmp_path / "before", "parquet", source={"files": "live"})
    put(tmp_path / "before" / "live", "a.parquet")
    assert before.take() == 5
    (tmp_path / "before").rename(tmp_path / "after")
    after = Gate(tmp_path / "after", "parquet", source={"files": "live"})
    assert after.take() == 0
    put(tmp_path / "after" / "live", "b.parquet")
    assert after.take() == 5
    assert after.conserved() == (10, 0)


def test_a_renamed_folder_is_not_read_again(tmp_path: Path) -> None:
    put(tmp_path / "live", "day/a.parquet")
    assert Gate(tmp_path, "parquet").take() == 5
    (tmp_path / "live").rename(tmp_path / "lively")
    gate = Gate(tmp_path, "parquet", source={"files": str(tmp_path / "lively")})
    assert gate.take() == 0
    (tmp_path / "live").symlink_to(tmp_path / "lively")
    assert Gate(tmp_path, "parquet").take() == 0
    assert gate.conserved() == (5, 0)


@pytest.mark.parametrize(("place", "move"), [("live", False), ("live", True), ("absolute", False)])
def test_plans_of_former_versions_go_on(tmp_path: Path, place: str, move: bool) -> None:
    home = tmp_path / "home"
    files = "live" if place == "live" else str(home / "live")
    gate = Gate(home, "parquet", source={"files": files})
    put(home / "live", "a.parquet")
    put(home / "live", "sub/b.parquet")
    assert gate.take() == 10
    with_whole_paths(gate)
    if move:
        home.rename(tmp_path / "moved")
        gate = Gate(tmp_path / "moved", "parquet", source={"files": files})
    assert gate.take() == 0
    put(gate.home / "live", "c.parquet")
    assert gate.take() == 5


def with_whole_paths(gate: Gate) -> None:
    """Rewrite the plans as former versions wrote them."""
    door = gate.door()
    rows = door.plans.refresh().to_pyarrow_table().to_pylist()
    for row in rows:
        items: list[dict[str, Any]] = json.loads(row["positions"])
        for item in items:
            item["path"] = f"{gate.home}/live/{item['path']}"
            del item["real"]
        row["positions"] = json.dumps(items)
    shutil.rmtree(door.plans.spec.uri)
    fresh = gate.door().plans
    for row in rows:
        table = pa.Table.from_pylist([row], schema=fresh.spec.schema)
        fresh.append(table, "ingest", row["number"])


def test_links_within_the_folder_add_nothing(tmp_path: Path) -> None:
    live = tmp_path / "live"
    put(live, "sub/a.parquet")
    (live / "sub" / "up").symlink_to(live)
    (live / "also").symlink_to(live / "sub")
    (live / "again.parquet").symlink_to(live / "sub" / "a.parquet")
    gate = Gate(tmp_path, "parquet")
    assert gate.take() == 5
    (live / "later").symlink_to("sub")
    assert gate.take() == 0


def test_links_out_of_the_folder_are_followed_once(tmp_path: Path) -> None:
    live, far = tmp_path / "live", tmp_path / "far"
    live.mkdir()
    put(far, "site=XYZ/a.parquet")
    put(tmp_path, "one.parquet")
    (live / "first").symlink_to(far)
    (live / "second").symlink_to(far / "site=XYZ")
    (live / "one.parquet").symlink_to(tmp_path / "one.parquet")
    (far / "back").symlink_to(live)
    gate = Gate(tmp_path, "parquet")
    assert gate.take() == 10
    (live / "first").unlink()
    assert gate.take() == 0, "by another link it is the same file"


def test_a_link_to_what_is_hidden_is_followed(tmp_path: Path) -> None:
    live = tmp_path / "live"
    put(live, "_releases/1/a.parquet")
    (live / "current").symlink_to("_releases/1")
    assert Gate(tmp_path, "parquet").take() == 5


def test_a_link_that_leads_nowhere_keeps_a_source_from_its_end(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet", source={"mode": "bounded"})
    put(tmp_path / "live", "a.parquet")
    (tmp_path / "live" / "mounted").symlink_to(tmp_path / "away")
    with pytest.raises(SourceError, match="mounted: this link leads nowhere"):
        gate.take()
    assert [b["kind"] for b in gate.rows("blocks")] == ["data"]
    put(tmp_path / "away", "b.parquet")
    assert gate.take() == 5
    assert [b["kind"] for b in gate.rows("blocks")] == ["data", "data", "end"]


@pytest.mark.parametrize("history", ["live", "live/old", ".", "link"])
def test_a_history_that_overlaps_the_source_is_refused(tmp_path: Path, history: str) -> None:
    put(tmp_path / "live", "old/a.parquet")
    (tmp_path / "link").symlink_to(tmp_path / "live" / "old")
    gate = Gate(tmp_path, "parquet", history={"files": history, "format": "parquet"})
    with pytest.raises(ConfigError, match=r"lie in each other.*folders of their own"):
        gate.door()


def test_a_link_from_the_source_into_the_history_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "live", "a.parquet")
    put(tmp_path / "past", "b.parquet")
    gate = Gate(tmp_path, "parquet", history={"files": "past", "format": "parquet"})
    (tmp_path / "live" / "linked").symlink_to(tmp_path / "past")
    with pytest.raises(ConfigError, match=r"live/linked/: leads to .*past.*Remove the link"):
        gate.take()
    (tmp_path / "live" / "linked").unlink()
    assert (gate.take(), gate.take(HISTORY)) == (5, 5)


def test_the_records_of_a_file_say_the_whole_path(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("day=1/a.jsonl", "no\n")
    gate.take()
    assert gate.reasons() == [("malformed", "live/day=1/a.jsonl: line 1")]
