"""Freezes: up to where a log is closed for good, so that its oldest stretch can go (``keep``).

A freeze is asked for, then takes effect. In between the door adopts the event time before which it
refuses records, and all that came earlier is answered, corrected and audited. Whoever begins at
the log's beginning begins behind what was asked for: so nobody needs what goes.
See docs/decisions/0033-freezing.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.log.stood import Stood
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

ASKED, FROZEN = "asked", "frozen"
APPLICATION = "freeze"


@dataclass(frozen=True, slots=True)
class Freeze:
    """A stretch of the log that goes.

    Attributes:
        number: from 0 without gaps.
        seq: its last ``arrival_seq``; -1: nothing goes.
        block: the first one that stays.
        newest: newest live event time up to ``seq``, us; of several streams: of any.
        streams: where each of several streams stands at ``seq``, but for its watermark.
        window_from: windows that start earlier are frozen, us, of some steps later ones, too; no
            record up to ``seq`` is as new.
        refused_before: records with an earlier event time are refused, us.
        steps: by name what an audit goes on from; the text of a footing.
        frozen: it took effect.
    """

    number: int = -1
    seq: int = -1
    block: int = 0
    newest: int = BEGINNING
    window_from: int = BEGINNING
    refused_before: int = BEGINNING
    steps: Mapping[str, str] = field(default_factory=dict)
    frozen: bool = True
    streams: tuple[Stood, ...] = ()

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        """From a row of ``freezes``."""
        return cls(
            row["number"], row["through_seq"], row["block"], row["newest_us"],
            row["window_from_us"], row["refused_before_us"], json.loads(row["steps"]),
            row["state"] == FROZEN,
            tuple(map(Stood.of, json.loads(row["streams"] or "[]"))),
        )  # fmt: skip

    def begin_of(self, step: StepSpec) -> int:
        """Windows of a step that start earlier are frozen, us."""
        return self.window_from + (step.lag if self.seq >= 0 else 0)

    def counted(self, step: StepSpec, epoch: int) -> Mapping[str, int]:
        """What an audit had counted of an epoch of a step when it was frozen, by name."""
        footing = json.loads(self.steps.get(step.id, "{}"))
        mine = footing.get("epoch", [])[:2] == [epoch, step.fingerprint]
        found: Mapping[str, int] = footing["totals"] if mine else {}
        return found

    def newest_of(self, streams: Sequence[str]) -> int:
        """Newest live event time of some streams up to ``seq``, us; none: of the only one."""
        mine = [one.newest for one in self.streams if one.stream in streams]
        return max(mine, default=BEGINNING if self.streams else self.newest)

    def rows(self, spec: TableSpec, at: datetime) -> pa.Table:
        """As a row of ``freezes``."""
        row = {
            "number": self.number,
            "state": FROZEN if self.frozen else ASKED,
            "through_seq": self.seq,
            "block": self.block,
            "newest_us": self.newest,
            "window_from_us": self.window_from,
            "refused_before_us": self.refused_before,
            "steps": json.dumps(dict(self.steps)),
            "streams": json.dumps([*map(asdict, self.streams)]) if self.streams else None,
            "recorded_at": at,
        }
        return pa.Table.from_pylist([row], schema=spec.schema)


NOTHING = Freeze()


class Freezes:
    """The freezes of a pipeline; its table is read again only when it has changed."""

    def __init__(self, tables: Tables) -> None:
        self.table = Table(tables.freezes())
        self._known: tuple[int, list[Freeze]] = (-1, [])

    def all(self) -> list[Freeze]:
        """In the order of their numbers; of one that took effect the row that says so."""
        delta = self.table.newest()
        if delta is not None and delta.version() != self._known[0]:
            rows = read_table(self.table).sort_by("number").to_pylist()
            found = {row["number"]: Freeze.of(row) for row in rows if row["state"] == ASKED}
            found |= {row["number"]: Freeze.of(row) for row in rows if row["state"] == FROZEN}
            self._known = delta.version(), list(found.values())
        return self._known[1]

    @property
    def asked(self) -> Freeze:
        """The newest one."""
        return max(self.all(), key=lambda f: f.number, default=NOTHING)

    @property
    def frozen(self) -> Freeze:
        """The newest one that took effect."""
        return max((f for f in self.all() if f.frozen), key=lambda f: f.number, default=NOTHING)


def asked(tables: Tables) -> Freeze:
    """The newest freeze that was asked for."""
    return Freezes(tables).asked


def frozen(tables: Tables) -> Freeze:
    """The newest freeze that took effect."""
    return Freezes(tables).frozen
