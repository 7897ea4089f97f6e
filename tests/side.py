"""Side data of look-ups: what the tests write, and what it says of a pair, in plain Python."""

import hashlib
import random
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests import lookup_model as model
from tests.lookups import MOVED

LOAD = {"limits": {"files": "limits.csv", "format": "csv",
                   "columns": {"a": "long", "b": "long", "seconds": "long"}}}  # fmt: skip
LIMITED = MOVED | {
    "load": {"limits": {"a": "old.code", "b": "new.code"}},
    "alarm": "new.code <> old.code AND apart < limits.seconds",
}
Limits = dict[tuple[int, int], int]
"""Seconds by the codes of the earlier and the later record."""


CODES = [1, 2, 3, -7, 2**53 + 1, 2**53]
"""Of ``tests.streams.disordered``."""
UNFIT = "a,b,seconds\n1,2,5\n1,2,6\n"


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
        text = f"a,b,seconds\n{rows}"
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)
        self.held[hashlib.sha256(text.encode()).hexdigest()[:16]] = limits
        return limits

    def decided(self, tables: Tables) -> list[dict[str, Any]]:
        """Rows of ``decisions`` about the limits in force."""
        rows = read_table(Table(tables.decisions())).to_pylist()
        return [r for r in rows if r["step"] == "load limits" and r["what"] == "side"]

    def in_force(self, tables: Tables) -> Callable[[int], Limits]:
        """Limits by position, as they were decided, block by block."""
        rows = self.decided(tables)
        decided = [(r["block"], r["decided_at"], self.held[r["value"]]) for r in rows]
        blocks = read_table(Table(tables.blocks())).to_pylist()
        first = {r["block"]: r["first_seq"] for r in blocks}
        decided = sorted((first[at], when, held) for at, when, held in decided if at in first)
        starts = [start for start, _, _ in decided]
        return lambda seq: decided[max(bisect(starts, seq) - 1, 0)][2]


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
