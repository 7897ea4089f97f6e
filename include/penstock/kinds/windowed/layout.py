"""How a step's partials lie in columns, and how they merge and finish: the frame for every kind.

A *partials table* has the key columns, grouping columns (``pane`` or ``window_start``, and
``closed``), ``n_records``, ``last_seq`` and the kind's own part columns. Both runners, speed and
correction, call these functions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.columns.groups import group
from penstock.columns.lists import Lists, part_of
from penstock.columns.types import fields_of
from penstock.core.kinds import part
from penstock.core.step import StepSpec

Spec = TypeVar("Spec", bound=StepSpec)
Part: TypeAlias = np.ndarray | Lists | pa.Array | pa.ChunkedArray
"""A column of parts on its way."""


@dataclass(frozen=True)
class Layout(ABC, Generic[Spec]):
    """The partial columns of one step.

    A kind says which parts it keeps (``fields``), how records become parts (``parts_of``), how
    those of a group become one (``merged``), and what they answer (``finish``). Merging is
    associative and commutative (law 5): the cuts into parts must not show.
    """

    step: Spec

    @cached_property
    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """The part columns with their types; none is named like a key or a grouping column."""

    @abstractmethod
    def parts_of(self, records: pa.Table) -> dict[str, Part]:
        """The parts of single records.

        Args:
            records: the step's columns, ``event_time`` and ``arrival_seq``.
        """

    @abstractmethod
    def merged(self, parts: Mapping[str, Part], ids: Longs, groups: int) -> dict[str, Part]:
        """The parts of each group.

        Args:
            parts: by the names of ``fields``, shape (n,).
            ids: group of each row, below ``groups``.
            groups: how many there are; none is empty.
        """

    @abstractmethod
    def finish(self, table: pa.Table) -> dict[str, pa.Array]:
        """The step's values of a partials table, by name.

        Raises:
            TerminalError: a value has no place in the answers.
        """

    def part_in(self, column: pa.ChunkedArray) -> Part:
        """A part column of a partials table, as ``merged`` takes it."""
        return part_of(column)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self.step.key_names

    def schema(self, *grouping: str) -> pa.Schema:
        """Of a partials table grouped by these columns besides the keys."""
        whole = [pa.field(name, pa.int64()) for name in (*grouping, "n_records", "last_seq")]
        return pa.schema([*fields_of(self.step.keys), *whole, *self.fields])

    def of_records(
        self, table: pa.Table, grouping: dict[str, Longs], *, bare: bool = False
    ) -> pa.Table:
        """Gather records.

        Args:
            table: the step's columns, ``event_time`` and ``arrival_seq``; already filtered.
            grouping: further columns to group by, each of shape (n,).
            bare: they are only counted: their parts are null.
        """
        ones, seqs = np.ones(table.num_rows, np.int64), np.asarray(table["arrival_seq"])
        return self._grouped(table, grouping, ones, seqs, None if bare else self.parts_of(table))

    def merge(self, table: pa.Table, *grouping: str, bare: bool = False) -> pa.Table:
        """Gather partials again, by the keys and these columns; ``bare`` as for records."""
        parts = None
        if not bare:
            parts = {field.name: self.part_in(table[field.name]) for field in self.fields}
        by = {name: np.asarray(table[name]) for name in grouping}
        counts, seqs = np.asarray(table["n_records"]), np.asarray(table["last_seq"])
        return self._grouped(table, by, counts, seqs, parts)

    def _grouped(
        self,
        table: pa.Table,
        grouping: dict[str, Longs],
        counts: Longs,
        seqs: Longs,
        parts: Mapping[str, Part] | None,
    ) -> pa.Table:
        keys = [table[key] for key in self.keys]
        ids, first = group([*grouping.values(), *keys], table.num_rows)  # in order of time
        groups = len(first)
        n_records = np.zeros(groups, np.int64)
        np.add.at(n_records, ids, counts)
        last_seq = np.full(groups, -1, np.int64)
        np.maximum.at(last_seq, ids, seqs)
        out: dict[str, Part] = {
            k: column.take(pa.array(first)) for k, column in zip(self.keys, keys, strict=True)
        }
        out |= {name: values[first] for name, values in grouping.items()}
        out |= {"n_records": n_records, "last_seq": last_seq}
        if parts is None:
            out |= {field.name: pa.nulls(groups, field.type) for field in self.fields}
        else:
            out |= self.merged(parts, ids, groups)
        return pa.table(out).cast(self.schema(*grouping))


def layout_of(step: StepSpec) -> Layout[StepSpec]:
    """The layout of a step, of its kind."""
    found: Layout[StepSpec] = part(step.kind, "layout").LAYOUT(step)
    return found
