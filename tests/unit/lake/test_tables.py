"""Appending exactly once, also when two processes race; reading a table that grows."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.lake.storage import commit
from penstock.lake.storage.commit import ConflictError, Table
from penstock.lake.storage.read import Tail, data_files, read_table
from penstock.lake.storage.spec import TableSpec

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def spec(folder: Path, schema: pa.Schema = SCHEMA) -> TableSpec:
    return TableSpec(str(folder / "table"), schema, indexed=("n",))


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers), "text": ["x"] * len(numbers)}, SCHEMA)


def numbers(folder: Path) -> list[int]:
    return sorted(read_table(Table(spec(folder)))["n"].to_pylist())


def test_a_transaction_is_appended_once(tmp_path: Path) -> None:
    table = Table(spec(tmp_path))
    assert table.append(rows(1), "a", 0)
    assert not table.append(rows(1), "a", 0)
    assert not Table(spec(tmp_path)).append(rows(2), "a", 0)
    assert table.append(rows(3), "b", 0), "another application counts for itself"
    assert table.append(rows(4), "a", 5)
    assert not table.append(rows(5), "a", 4), "numbers never fall"
    assert numbers(tmp_path) == [1, 3, 4]


def test_a_swap_from_an_old_snapshot_fails(tmp_path: Path) -> None:
    one, two = Table(spec(tmp_path)), Table(spec(tmp_path))
    one.append(rows(0), "a", 0)
    two.refresh()
    one.swap(rows(1), "a", 1)
    with pytest.raises(ConflictError, match="another process committed first"):
        two.swap(rows(2), "a", 1)
    two.refresh()
    two.swap(rows(3), "b", 0)
    assert numbers(tmp_path) == [0, 1, 3]


RACER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.unit.lake.test_tables import rows, spec
from penstock.lake.storage.commit import Table
table = Table(spec(Path(sys.argv[1])))
won = sum(table.append(rows(i), "shared", i) for i in range(25))
own = sum(table.append(rows(1000 + i), sys.argv[2], i) for i in range(10))
print(won, own)
"""


def test_two_processes_race_and_every_transaction_wins_once(tmp_path: Path) -> None:
    root = Settings().root
    import os

    path = os.pathsep.join(str(p) for p in (root / "include", root / "plugins", root))
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), name, str(root)],
            env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
        )
        for name in ("x", "y")
    ]  # fmt: skip
    said = [racer.communicate(timeout=120)[0].split() for racer in racers]
    assert all(racer.returncode == 0 for racer in racers)
    assert sum(int(won) for won, _ in said) == 25
    assert [int(own) for _, own in said] == [10, 10]
    assert numbers(tmp_path) == sorted([*range(25), *range(1000, 1010), *range(1000, 1010)])


def test_a_new_column_joins_the_table_and_old_rows_have_null(tmp_path: Path) -> None:
    Table(spec(tmp_path)).append(rows(1), "a", 0)
    wider = pa.schema([*SCHEMA, pa.field("more", pa.float64())])
    table = Table(spec(tmp_path, wider))
    table.append(pa.table({"n": [2], "text": ["y"], "more": [0.5]}, wider), "a", 1)
    found = read_table(Table(spec(tmp_path, wider))).sort_by("n").to_pylist()
    assert [r["more"] for r in found] == [None, 0.5]
    assert numbers(tmp_path) == [1, 2], "and a reader that does not know it goes on"


def test_a_column_that_changed_its_type_is_refused_with_the_remedy(tmp_path: Path) -> None:
    Table(spec(tmp_path)).append(rows(1), "a", 0)
    other = pa.schema([("n", pa.int64()), ("text", pa.int64())])
    with pytest.raises(ConfigError, match="column text holds string, the pipeline file says int64"):
        _ = Table(spec(tmp_path, other)).delta


@pytest.mark.parametrize(("written", "read", "whose"), [(1, 2, "former"), (3, 2, "later")])
def test_a_table_of_another_form_is_refused_with_the_remedy(
    tmp_path: Path, written: int, read: int, whose: str
) -> None:
    """Its columns are the same, and mean something else."""
    Table(replace(spec(tmp_path), form=written)).append(rows(1), "a", 0)
    said = f"by a {whose} version .form {written}; this one reads {read}.*penstock remove"
    for look in (lambda table: table.delta, lambda table: table.exists(), read_table):
        with pytest.raises(ConfigError, match=said):
            look(Table(replace(spec(tmp_path), form=read)))


def test_a_table_that_never_said_its_form_is_of_the_first(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), SCHEMA)
    assert read_table(Table(spec(tmp_path))).num_rows == 0
    with pytest.raises(ConfigError, match="a former version"):
        read_table(Table(replace(spec(tmp_path), form=2)))


def test_an_absent_table_is_empty_and_reading_does_not_make_it(tmp_path: Path) -> None:
    assert read_table(Table(spec(tmp_path))).num_rows == 0
    assert not (tmp_path / "table").exists()


def test_a_tail_gives_every_row_once_also_over_compaction(tmp_path: Path) -> None:
    table = Table(spec(tmp_path))
    tail, seen = Tail(Table(spec(tmp_path)), "n", -1), []
    assert tail.take().num_rows == 0
    for i in range(12):
        table.append(rows(2 * i, 2 * i + 1), "a", i)
        if i % 3 == 1:
            seen += tail.take()["n"].to_pylist()
        if i % 4 == 2:
            DeltaTable(table.spec.uri).optimize.compact()
    seen += tail.take()["n"].to_pylist()
    assert seen == list(range(24))
    assert tail.take().num_rows == 0
    assert Tail(Table(spec(tmp_path)), "n", 20).take()["n"].to_pylist() == [21, 22, 23]


def test_files_know_the_range_of_an_indexed_column(tmp_path: Path) -> None:
    table = Table(spec(tmp_path))
    for i in range(3):
        table.append(rows(10 * i, 10 * i + 9), "a", i)
    files = sorted(data_files(table.refresh(), "n"), key=lambda f: f.least or 0)
    assert [(f.rows, f.least, f.greatest) for f in files] == [(2, 0, 9), (2, 10, 19), (2, 20, 29)]
    assert [f.holds(9, 10) for f in files] == [True, True, False]
    assert all(f.holds(5, 6) for f in data_files(table.delta, "text")), "unknown may hold anything"


@pytest.mark.parametrize("left", [0, 1])
def test_a_handle_sees_the_newest_version_once_the_entry_after_its_own_was_cleaned_away(
    tmp_path: Path, left: int
) -> None:
    table, old = Table(spec(tmp_path)), Table(spec(tmp_path))
    table.append(rows(0), "a", 0)
    assert old.refresh().version() == 1
    for i in range(1, 5):
        table.append(rows(i), "a", i)
    table.delta.create_checkpoint()
    for version in range(1 + left, 4):  # its own stays where the cleaning has not come to it yet
        (tmp_path / "table" / "_delta_log" / f"{version:020d}.json").unlink()
    assert old.refresh().version() == 5
    assert old.last("a") == 4
    table.append(rows(5), "a", 5)
    assert old.refresh().version() == 6


def test_a_handle_that_was_opened_anew_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "UPDATES", 3)
    one, other = Table(spec(tmp_path)), Table(spec(tmp_path))
    handles = {id(one.delta): one.delta}
    for number in range(20):
        assert one.append(rows(number), "one", number)
        assert not one.append(rows(number), "one", number), "the new handle knows what was said"
        assert other.append(rows(100 + number), "other", number)
        handles[id(one.delta)] = one.delta
    one.refresh()
    other.refresh()
    assert (one.delta.version(), one.last("one"), one.last("other")) == (40, 19, 19)
    assert other.delta.version() == 40
    assert len(handles) > 5
    assert numbers(tmp_path) == [*range(20), *range(100, 120)]
    stale = Table(spec(tmp_path))
    assert stale.delta.version() == 40
    one.append(rows(20), "one", 20)
    with pytest.raises(ConflictError):
        stale.swap(rows(21), "one", 21)
