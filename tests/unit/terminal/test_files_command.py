"""What a person decides about files, from the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.proof.recount import unreadable_files
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table

World = Any
Run = Callable[..., tuple[int, str, str]]

LINE = '{"at": "2024-05-01T10:00:05", "door": "A", "seconds": 2.0}\n'


@pytest.fixture
def live(world: World) -> Path:
    """The folder of the source, with one file of two records."""
    folder: Path = world.settings.home / "doors"
    folder.mkdir(parents=True)
    (folder / "one.jsonl").write_text(LINE * 2)
    return folder


def door(world: World) -> Door:
    from tests.unit.terminal.conftest import FixedClock

    return Door(world.tables, world.pipeline, world.settings.home, FixedClock())


def planned(world: World) -> None:
    first = door(world)
    first._catch_up()
    assert first._plan(LIVE, None, None) is not None


def took(world: World) -> tuple[int, int]:
    """Accepted and refused records, once all that waits is taken."""
    run_through(door(world), LIVE, None, None)
    events = world.tables.events(world.pipeline.types)
    counts = [read_table(Table(t)).num_rows for t in (events, world.tables.quarantine())]
    return counts[0], counts[1]


def reasons(world: World) -> list[str]:
    rows = read_table(Table(world.tables.decisions()), ["what", "reason"]).to_pylist()
    return [f"{row['what']}: {row['reason']}" for row in rows]


def test_a_file_is_given_up(world: World, live: Path, run: Run) -> None:
    planned(world)
    (live / "one.jsonl").unlink()
    status, said, complained = run("giveup", "doors", "one.jsonl", "--reason", "disk lost")
    assert (status, complained) == (0, "")
    assert said == f"{live}/one.jsonl is given up: its plan goes on without it\n"
    assert reasons(world) == ["given up: disk lost"]
    assert took(world) == (0, 1)


def test_a_changed_file_is_taken_as_it_is(world: World, live: Path, run: Run) -> None:
    planned(world)
    (live / "one.jsonl").write_text(LINE)
    status, said, complained = run("retake", "doors", "one.jsonl", "--reason", "cut by hand")
    assert (status, complained) == (0, "")
    assert said == f"{live}/one.jsonl will be taken as it is now\n"
    assert reasons(world) == ["as it is: cut by hand"]
    assert took(world) == (1, 0)


@pytest.fixture
def broken(world: World) -> Path:
    """A Parquet file of which nothing could be read."""
    path = next(world.settings.pipelines.glob("*.yaml"))
    path.write_text(path.read_text().replace("format: jsonl, mode: bounded", "format: parquet"))
    folder: Path = world.settings.home / "doors"
    folder.mkdir(parents=True)
    (folder / "one.parquet").write_bytes(b"PAR1 no")
    assert took(world) == (0, 1)
    assert len(unreadable_files(world.tables, 0)) == 1
    return folder / "one.parquet"


def test_a_mended_file_is_taken_again(world: World, broken: Path, run: Run) -> None:
    pq.write_table(pa.table({"at": ["2024-05-01T10:00:05"] * 3, "door": list("AAB")}), broken)
    status, said, complained = run("retake", "doors", "doors/one.parquet")
    assert (status, complained) == (0, "")
    assert said == f"{broken} will be taken as it is now\n"
    assert reasons(world) == ["taken again: "]
    assert took(world) == (3, 1)
    assert unreadable_files(world.tables, 0) == []


def test_an_unreadable_file_is_accepted(world: World, broken: Path, run: Run) -> None:
    status, said, complained = run("accept", "doors", str(broken), "--reason", "never written")
    assert (status, complained) == (0, "")
    assert said == f"{broken} is accepted as it is: audits do not name it\n"
    assert reasons(world) == ["accepted: never written"]
    assert unreadable_files(world.tables, 0) == []
    assert took(world) == (0, 1)


@pytest.mark.parametrize(("command", "complaint"), [
    ("giveup", "nothing waits for it, its plan is finished"),
    ("retake", "would count twice"),
    ("accept", "holds no such unreadable file"),
])  # fmt: skip
def test_what_would_lose_or_double_is_refused(
    corrected: World, run: Run, command: str, complaint: str
) -> None:
    status, _, complained = run(command, "doors", "one.jsonl", "--reason", "why")
    assert status == 1
    assert complaint in complained
    assert "Traceback" not in complained


def test_a_file_that_no_plan_knows_is_said(corrected: World, run: Run) -> None:
    status, _, complained = run("retake", "doors", "other.jsonl")
    assert status == 1
    assert "no plan of doors has taken such a file" in complained
