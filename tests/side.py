"""Side data of look-ups: what the tests write, and what it says of a pair, in plain Python."""

import random
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.columns.content import content_name
from penstock.lake.ingest import side_files
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests import lookup_model as model
from tests.lookups import MOVED

LOAD = {"limits": {"files": "limits.csv", "format": "csv",
                   "columns": {"a": "long", "b": "long", "seconds": "long"},
                   "keys": ["a", "b"]}}  # fmt: skip
LIMITED = MOVED | {
    "load": {"limits": {"a": "old.code", "b": "new.code"}},
    "alarm": "new.code <> old.code AND apart < limits.seconds",
}
Limits = dict[tuple[int, int], int]
"""Seconds by the codes of the earlier and the later record."""


def named(limits: Limits) -> str:
    """The name that the lake gives to some limits."""
    columns = {"a": [a for a, _ in limits], "b": [b for _, b in limits],
               "seconds": [*limits.values()]}  # fmt: skip
    schema = pa.schema([(name, pa.int64()) for name in columns])
    return content_name(pa.table(columns, schema=schema), ["a", "b"])


CODES = [1, 2, 3, -7, 2**53 + 1, 2**53]
"""Of ``tests.streams.disordered``."""


class LimitsFile:
    """A file of limits that changes, and all that it has held."""

    def __init__(self, home: Path, codes: list[int], draw: random.Random) -> None:
        self.path, self.codes, self.draw = home / "limits.csv", codes, draw
        self.held: dict[str, Limits] = {}

    def change(self) -> Limits:
        """Write other limits; some pairs have none."""
        pairs = [(a, b) for a in self.codes for b in self.codes if self.draw.random() < 0.8]
        found = {pair: self.draw.choice([0, 5, 30, 600]) for pair in pairs}
        return self.write(found)

    def write(self, limits: Limits) -> Limits:
        """Let it hold some limits."""
        rows = "".join(f"{a},{b},{seconds}\n" for (a, b), seconds in limits.items())
        new = self.path.with_suffix(".new")
        new.write_text(f"a,b,seconds\n{rows}")
        new.replace(self.path)
        self.held[named(limits)] = limits
        return limits

    def decided(self, tables: Tables) -> list[dict[str, Any]]:
        """Rows of ``decisions`` about the limits in force."""
        rows = read_table(Table(tables.decisions())).to_pylist()
        mine = [r for r in rows if r["step"].startswith("load limits ") and r["what"] == "side"]
        return sorted(mine, key=lambda r: (r["block"], r["reason"] != "first"))

    def in_force(self, tables: Tables) -> Callable[[int], Limits]:
        """Limits by position, as they were decided, block by block."""
        told = [r["value"].split("@") for r in self.decided(tables)]
        starts = [int(start) for _, start in told]
        return lambda seq: self.held[told[max(bisect(starts, seq) - 1, 0)][0]]


def matches_by(
    limits: Callable[[int], Limits], unit: int
) -> Callable[[model.Record, model.Record, Any], bool]:
    """The condition of ``LIMITED``, for a model; times are in ``unit`` us."""

    def matches(one: model.Record, other: model.Record, pairs: Any) -> bool:
        del pairs
        old, new = sorted((one, other), key=lambda record: record.seq)
        most = limits(new.seq).get((old.site, new.site))
        apart = abs(one.time - other.time) * unit / 1_000_000
        return one.site != other.site and most is not None and apart < most

    return matches


@contextmanager
def judging(limits: Callable[[int], Limits]) -> Iterator[None]:
    """The model of look-ups asks whether two neighbours fit the limits; instants are us."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "matches", matches_by(limits, 1))
        yield


@pytest.fixture(autouse=True)
def taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are taken at the first look: their writer is a test."""
    monkeypatch.setattr(side_files, "SETTLED", timedelta())
