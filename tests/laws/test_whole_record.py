"""The whole record is kept: what is not declared, too, in its own type or as JSON.

Sources here are Parquet files whose undeclared columns come, go and change their types. The oracle
is what was sent, plainly in Python.
"""

import json
import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest import source, undeclared
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from penstock.lake.storage.commit import ConflictError, Table
from tests.doubles import Death, Killed, deadly_commits
from tests.gates import Gate, T
from tests.rarely import rare
from tests.steps import COLUMNS

pytestmark = pytest.mark.law

AT = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
TYPED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, -7, None]),
    "long": (pa.int64(), [2**60, None, 0]),
    "small": (pa.int8(), [-128, 127, None]),
    "unsigned": (pa.uint32(), [2**32 - 1, 0, None]),
    "text": (pa.string(), ["a", "", None, "ü\n"]),
    "large text": (pa.large_string(), ["b", None]),
    "few": (pa.dictionary(pa.int32(), pa.string()), ["c", "d", None]),
    "double": (pa.float64(), [1.5, None, -0.25]),
    "single": (pa.float32(), [0.5, None]),
    "truth": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [date(2024, 2, 29), None]),
    "price": (pa.decimal128(7, 2), [Decimal("12.50"), None]),
    "instant": (pa.timestamp("us", "Europe/Vienna"), [AT, None]),
    "coarse": (pa.timestamp("ms", "UTC"), [AT, None]),
}
"""Types that a Delta table has; of each some values."""
OTHERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "nothing": (pa.null(), [None]),
    "beyond": (pa.uint64(), [2**64 - 1, None]),
    "list": (pa.list_(pa.int64()), [[1, 2], [], None]),
    "inside": (pa.struct([("x", pa.int64())]), [{"x": 1}, None]),
    "wall": (pa.timestamp("us"), [datetime(2024, 2, 3, 4, 5, 6), None]),  # noqa: DTZ001
}
"""And that it has not, or not in every version."""
NAMES = ["colour", "Colour", "COLOUR", "n", "größe", "with blank", "a.b", "", "extra", "undeclared"]


def of_kind(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array, also of a dictionary."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def drawn_file(draw: random.Random, first: int) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A file, and what each of its records says beside the declared columns."""
    count = draw.randint(1, 5)
    columns: dict[str, pa.Array] = {"uid": pa.array(range(first, first + count), pa.int64())}
    for name in draw.sample(NAMES, draw.randint(0, 5)):
        kind, values = draw.choice([*TYPED.values(), *TYPED.values(), *OTHERS.values()])
        columns[name] = of_kind([draw.choice(values) for _ in range(count)], kind)
    said = [{name: column[row].as_py() for name, column in columns.items()} for row in range(count)]
    declared = {"event_time": [T] * count, "site": [draw.choice("ab") for _ in range(count)]}
    return pa.table(declared | columns), said


def sent(home: Path, seed: int, files: int = 12) -> list[dict[str, Any]]:
    """Write files; returns what each record says, in order."""
    draw, said = random.Random(seed), list[dict[str, Any]]()  # noqa: S311
    (home / "live").mkdir(parents=True)
    for number in range(files):
        table, more = drawn_file(draw, len(said))
        pq.write_table(table, home / "live" / f"{number:02}.parquet")
        said += more
    return said


def as_json(value: Any) -> Any:
    """How JSON says it."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S+00}" if value.tzinfo else str(value)
    if isinstance(value, date):
        return str(value)
    return float(value) if isinstance(value, Decimal) else value


def assert_whole(rows: list[dict[str, Any]], said: list[dict[str, Any]]) -> Counter[str]:
    """Every value of every record stands there once; returns how many stand where."""
    assert [row["arrival_seq"] for row in rows] == list(range(len(said)))
    where = Counter[str]()
    for row, record in zip(rows, said, strict=True):
        extra = json.loads(row["extra"] or "{}")
        plain = {name: value for name, value in extra.items() if value is not None}
        assert not plain.keys() & row["typed"].keys()
        for name, value in record.items():
            if value is None:
                assert name not in row["typed"]
                assert name not in plain
            elif name in row["typed"]:
                assert row["typed"][name] == value
            else:
                assert plain[name] == as_json(value)
        where["typed"] += len(row["typed"])
        where["json"] += len(plain)
        beside = {name for name, value in record.items() if value is not None}
        assert plain.keys() | row["typed"].keys() == beside
    return where


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(source, "RECORDS_PER_PLAN", 8)
    monkeypatch.setattr(undeclared, "MOST", 7)


@pytest.mark.parametrize("seed", [*range(6), *(rare(n) for n in range(6, 60))])
def test_every_value_of_a_record_is_kept_once(tmp_path: Path, seed: int) -> None:
    said = sent(tmp_path, seed)
    gate = Gate(tmp_path, "parquet")
    assert gate.take() == len(said)
    where = assert_whole(gate.kept(), said)
    assert min(where["typed"], where["json"]) > 0
    maintain_pipeline(gate.tables, gate.pipeline)
    delta = Table(gate.tables.events(gate.pipeline.types)).refresh()
    assert_whole(gate.kept(), said)
    fields = pa.schema(delta.schema()).field("undeclared").type
    assert len({field.name.casefold() for field in fields}) == fields.num_fields <= 7


@pytest.mark.parametrize("seed", [*range(4), *(rare(n) for n in range(4, 40))])
def test_killed_at_any_commit_the_same_rows_are_written(tmp_path: Path, seed: int) -> None:
    """In the same way: what is a field, and what is JSON, follows from the log."""
    alone, disturbed = tmp_path / "alone", tmp_path / "disturbed"
    said = sent(alone, seed)
    sent(disturbed, seed)
    calm, gate = Gate(alone, "parquet"), Gate(disturbed, "parquet")
    assert calm.take() == len(said)
    death = Death(random.Random(seed), share=0.3)  # noqa: S311
    door = gate.door()
    with deadly_commits(death):
        for _ in range(300):
            try:
                if door.work() < 0:
                    break
            except Killed:
                door = gate.door()
            except ConflictError:
                continue
        else:
            raise AssertionError("it never ended")
    assert death.kills
    assert gate.kept() == calm.kept()
    assert gate.conserved() == (len(said), 0)


@pytest.mark.parametrize("at", range(1, 9))
def test_two_doors_at_once_write_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The other one does all its work at a commit of the first; also where fields come with it."""
    alone, both = tmp_path / "alone", tmp_path / "both"
    said = sent(alone, seed=at, files=4)
    sent(both, seed=at, files=4)
    calm, gate = Gate(alone, "parquet"), Gate(both, "parquet")
    assert calm.take() == len(said)
    swap, commits = Table.swap, list[str]()
    first, other = gate.door(), gate.door()

    def raced(self: Table, *arguments: Any) -> None:
        commits.append(self.spec.name)
        if len(commits) == at:
            with monkeypatch.context() as patched:
                patched.setattr(Table, "swap", swap)
                with suppress(ConflictError):
                    while other.work() >= 0:
                        pass
        swap(self, *arguments)

    monkeypatch.setattr(Table, "swap", raced)
    for _ in range(50):
        try:
            if first.work() < 0:
                break
        except ConflictError:
            continue
    assert len(commits) >= at
    assert gate.kept() == calm.kept()
    assert gate.conserved() == (len(said), 0)


def test_a_query_sees_fields_of_files_old_and_new(tmp_path: Path) -> None:
    """Records of text, or of a lake of before, have their JSON; later ones their fields."""
    history = {"files": str(tmp_path / "past"), "format": "jsonl"}
    gate = Gate(tmp_path, "parquet", history=history)
    (tmp_path / "past").mkdir()
    line = {"event_time": T, "site": "a", "n": 1, "colour": "red"}
    (tmp_path / "past" / "a.jsonl").write_text(json.dumps(line))
    (tmp_path / "live").mkdir()
    assert gate.take("history") == 1
    known = views(gate.tables, gate.pipeline)
    assert "undeclared" not in known["events"].schema.names
    for number, more in enumerate([{"n": [2]}, {"n": [3], "colour": ["blue"]}]):
        rows = pa.table({"event_time": [T], "site": ["a"], **more})
        pq.write_table(rows, tmp_path / "live" / f"{number}.parquet")
        assert gate.take() == 1
    for _ in range(2):
        known = views(gate.tables, gate.pipeline)
        sql = "SELECT arrival_seq, extra, undeclared.n, undeclared.colour FROM events ORDER BY 1"
        with answered(known, sql) as found:
            assert found.fetchall() == [
                (0, '{"n":1,"colour":"red"}', None, None), (1, None, 2, None), (2, None, 3, "blue"),
            ]  # fmt: skip
        maintain_pipeline(gate.tables, gate.pipeline)


def test_a_column_that_is_declared_later_is_read_from_then_on(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    (tmp_path / "live").mkdir()
    rows = pa.table({"event_time": [T], "site": ["a"], "weight": [1.5], "n": [3]})
    pq.write_table(rows, tmp_path / "live" / "0.parquet")
    assert gate.take() == 1
    gate = Gate(tmp_path, "parquet", columns=COLUMNS | {"weight": "double"})
    pq.write_table(rows, tmp_path / "live" / "1.parquet")
    assert gate.take() == 1
    assert [row["weight"] for row in gate.rows("events")] == [None, 1.5]
    assert [row["typed"] for row in gate.kept()] == [{"weight": 1.5, "n": 3}, {"n": 3}]
