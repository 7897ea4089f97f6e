"""A small data file is read once, a version's files are listed once; nothing stale is ever told."""

import os
import random
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import PenstockError
from penstock.lake.storage import read, remembered
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.remembered import Remembered
from penstock.lake.storage.spec import TableSpec

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string()), ("with word", pa.float64())])
Reads = list[tuple[list[str], list[str]]]


@pytest.fixture
def spec(tmp_path: Path) -> TableSpec:
    return TableSpec(str(tmp_path / "t 1"), SCHEMA, name="t")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Files that were read, and the columns."""
    monkeypatch.setattr(read, "REMEMBERED", Remembered())
    seen, each = Reads(), read._each

    def wrapped(uri: str, schema: pa.Schema, paths: list[str], columns: list[str]) -> object:
        seen.append(([*paths], [*columns]))
        return each(uri, schema, paths, columns)

    monkeypatch.setattr(read, "_each", wrapped)
    return seen


def append(spec: TableSpec, numbers: list[int], which: int) -> None:
    rows = {"n": numbers, "word": [f"w{n}" for n in numbers], "with word": [n / 2 for n in numbers]}
    assert Table(spec).append(pa.table(rows, spec.schema), "test", which)


def test_each_file_and_column_is_read_once(spec: TableSpec, reads: Reads) -> None:
    for number in range(3):
        append(spec, [number, 10 * number], number)
        for _ in range(4):
            assert read_table(Table(spec), ["n"])["n"].to_pylist().count(number)
    assert [(len(paths), names) for paths, names in reads] == [(1, ["n"])] * 3
    for _ in range(2):
        found = read_table(Table(spec), ["with word", "n"], pc.field("word") == "w20")
        assert found.to_pydict() == {"with word": [10.0], "n": [20]}
    assert [(len(paths), names) for paths, names in reads[3:]] == [(3, ["word", "with word"])]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_asked_it_is_what_the_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Small and large files between each other, forgotten now and then."""
    draw, every = random.Random(seed), list[int]()  # noqa: S311
    monkeypatch.setattr(remembered, "MOST", 2_000)
    monkeypatch.setattr(read, "REMEMBERED", Remembered())
    spec = TableSpec(str(tmp_path / "t"), SCHEMA, indexed=("n",), name="t")
    for which in range(12):
        numbers = draw.sample(range(100_000), draw.choice([1, 3, 9_000]))
        append(spec, numbers, which)
        every += numbers
        low = draw.randrange(100_000)
        names = draw.sample(SCHEMA.names, draw.randint(1, 3))
        where = draw.choice([None, pc.field("with word") < 20_000])
        within = draw.choice([None, Spans("n", ((low, low + 30_000),))])
        found = read_table(Table(spec), names, where, within)
        mine = [
            n
            for n in every
            if (where is None or n / 2 < 20_000) and (within is None or low <= n <= low + 30_000)
        ]
        made = {"n": lambda n: n, "word": lambda n: f"w{n}", "with word": lambda n: n / 2}
        rows = zip(*(found[name].to_pylist() for name in names), strict=True)
        assert sorted(rows) == sorted(tuple(made[name](n) for name in names) for n in mine)
        assert found.column_names == names
        assert read.REMEMBERED._files.currsize <= 2_000


def test_another_file_of_the_same_name_is_read_anew(spec: TableSpec, reads: Reads) -> None:
    append(spec, [1], 0)
    assert read_table(Table(spec), ["n"])["n"].to_pylist() == [1]
    (file,) = Path(spec.uri).glob("*.parquet")
    pq.write_table(pa.table({"n": [7, 8], "word": ["", ""], "with word": [0.0, 0.0]}), file)
    assert read_table(Table(spec), ["n"])["n"].to_pylist() == [7, 8]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(PenstockError, match=file.name):
        read_table(Table(spec), ["n"])
    file.unlink()
    with pytest.raises(PenstockError, match=file.name):
        read_table(Table(spec), ["n"])


def test_a_table_that_was_made_again_has_other_files(spec: TableSpec) -> None:
    for numbers in ([1], [2, 3]):
        append(spec, numbers, 0)
        assert sorted(read_table(Table(spec))["n"].to_pylist()) == numbers
        shutil.rmtree(spec.uri)
        assert not read_table(Table(spec)).num_rows


def test_a_restored_table_has_other_files_under_the_same_number(spec: TableSpec) -> None:
    append(spec, [1], 0)
    shutil.copytree(spec.uri, f"{spec.uri} kept")
    for numbers in ([2], [3]):
        append(spec, numbers, 1)
        assert sorted(read_table(Table(spec))["n"].to_pylist()) == [1, *numbers]
        shutil.rmtree(spec.uri)
        shutil.copytree(f"{spec.uri} kept", spec.uri)
        assert read_table(Table(spec))["n"].to_pylist() == [1]


def test_a_file_of_former_columns_has_null_in_the_new_ones(spec: TableSpec) -> None:
    append(spec, [1], 0)
    assert read_table(Table(spec)).num_rows == 1
    wider = TableSpec(spec.uri, SCHEMA.append(pa.field("more", pa.int64())), name="t")
    rows = {"n": [2], "word": ["x"], "with word": [1.0], "more": [5]}
    Table(wider).append(pa.table(rows, wider.schema), "test", 1)
    found = read_table(Table(wider), ["n", "more"]).sort_by("n")
    assert found.to_pydict() == {"n": [1, 2], "more": [None, 5]}


def test_a_fork_begins_anew_whoever_holds_the_lock(spec: TableSpec) -> None:
    append(spec, [4, 5], 0)
    assert read_table(Table(spec), ["n"]).num_rows == 2
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with read.REMEMBERED._lock:
            holding.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    if (child := os.fork()) == 0:
        free = read.REMEMBERED._lock.acquire(blocking=False)
        os._exit(0 if free and not read.REMEMBERED._files else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
