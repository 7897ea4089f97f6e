"""Side data: small tables that a pipeline loads, and what a step looks up in them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from penstock.core.expression import Column
from penstock.core.identity import column_form

VERSION = "_version"
"""Column of the lake's copy: which content a row is of."""


@dataclass(frozen=True, slots=True)
class SideTable:
    """A small table beside the log; which content counts is decided block by block.

    Attributes:
        name: unique within the pipeline.
        columns: what is read of it.
        keys: of these the ones that tell its rows apart.
    """

    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]

    @property
    def form(self) -> str:
        """Names its columns, in any order, and keys: tables of others are kept apart."""
        text = json.dumps([self.canonical(), sorted(self.keys)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def canonical(self) -> list[list[str]]:
        """Its columns, whatever their order in the file."""
        return sorted(column_form(column) for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class SideJoin:
    """A row of a side table for each row of something else: where all of some columns are equal.

    Attributes:
        table: in which it is looked up.
        on: the keys of the table, each with the column beside it that must be equal.
    """

    table: SideTable
    on: tuple[tuple[str, str], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of the table by which a row is found."""
        return tuple(key for key, _ in self.on)

    @property
    def found(self) -> tuple[Column, ...]:
        """What it gives: the table's other columns, named ``table.column``."""
        others = (column for column in self.table.columns if column.name not in self.keys)
        return tuple(Column(f"{self.table.name}.{c.name}", c.type) for c in others)

    def canonical(self) -> dict[str, Any]:
        """What it means, whatever the table holds."""
        on = sorted(list(pair) for pair in self.on)
        return {"table": self.table.name, "columns": self.table.canonical(), "on": on}


@dataclass(frozen=True, slots=True)
class Declared:
    """Side data that the pipeline file itself holds: rows of texts, as its columns are.

    Attributes:
        table: its columns, all of them strings.
        rows: values by column.
    """

    table: SideTable
    rows: tuple[tuple[str, ...], ...]
