"""A table that has not changed is not opened again, and what was read of it never moves."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.lake.storage import commit, snapshots
from penstock.lake.storage.commit import ConflictError, Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.snapshots import Snapshots
from penstock.lake.storage.spec import TableSpec


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tables that were opened to be read, in order."""
    seen: list[str] = []

    def opened(uri: str) -> object:
        seen.append(uri)
        return commit.opened(uri)

    monkeypatch.setattr(commit, "SNAPSHOTS", Snapshots(opened))
    return seen


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return TableSpec(str(tmp_path / "t"), pa.schema([("n", pa.int64())]), name="t")


def append(spec: TableSpec, number: int) -> None:
    assert Table(spec).append(pa.table({"n": [number]}), "test", number)


def numbers(spec: TableSpec) -> list[int]:
    return sorted(read_table(Table(spec))["n"].to_pylist())


def test_readers_open_a_table_once_a_commit(spec: TableSpec, opens: list[str]) -> None:
    for number in range(3):
        append(spec, number)
        for _ in range(5):
            assert numbers(spec) == [*range(number + 1)]
        assert len(opens) == number + 1
    Table(spec).refresh().create_checkpoint()
    assert numbers(spec) == [0, 1, 2]
    assert len(opens) == 4, "the log was summed up: its entries may be cleaned away"


def test_what_was_read_stays_as_it_was(spec: TableSpec, opens: list[str]) -> None:
    append(spec, 0)
    before = Table(spec).newest()
    assert before is not None
    writer = Table(spec)
    assert writer.newest() is before
    assert writer.append(pa.table({"n": [1]}), "test", 1)
    assert (before.version(), writer.delta.version()) == (1, 2)
    assert numbers(spec) == [0, 1]
    assert len(opens) == 2


def test_a_commit_is_refused_if_others_committed_since_what_it_was_decided_from(
    spec: TableSpec,
) -> None:
    append(spec, 0)
    table = Table(spec)
    assert table.last("test") == 0
    assert table.exists()
    append(spec, 1)
    assert numbers(spec) == [0, 1], "another reader has opened it anew"
    with pytest.raises(ConflictError):
        table.swap(pa.table({"n": [7]}), "test", 2)
    assert numbers(spec) == [0, 1]


def test_a_handle_that_is_kept_follows(spec: TableSpec, opens: list[str]) -> None:
    append(spec, 0)
    table = Table(spec)
    for number in range(1, 6):
        append(spec, number)
        delta = table.newest()
        assert delta is not None
        assert delta.version() == number + 1
    assert len(opens) == 1, "from its second look on it goes on by itself"


def test_a_table_in_the_place_of_a_removed_one(spec: TableSpec) -> None:
    append(spec, 0)
    assert numbers(spec) == [0]
    shutil.rmtree(spec.uri)
    assert not Table(spec).exists()
    append(spec, 5)
    assert numbers(spec) == [5]


def test_a_fork_opens_for_itself(spec: TableSpec, opens: list[str]) -> None:
    append(spec, 0)
    assert numbers(spec) == [0]
    assert len(opens) == 1
    child = os.fork()
    if not child:
        os._exit(len(commit.SNAPSHOTS._known))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert numbers(spec) == [0]
    assert len(opens) == 1


def test_only_so_many_are_kept(
    tmp_path: Path, opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST", 2)
    specs = [TableSpec(str(tmp_path / f"{n}"), pa.schema([("n", pa.int64())])) for n in range(3)]
    for spec in specs:
        append(spec, 0)
        assert numbers(spec) == [0]
    assert numbers(specs[2]) == numbers(specs[1]) == [0]
    assert len(opens) == 3
    assert numbers(specs[0]) == [0]
    assert len(opens) == 4
