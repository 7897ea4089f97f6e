"""How partial aggregates lie in columns, and how they merge and finish.

For every distinct expression a measure is taken over there are only the parts its functions need.
No part is ever null: n says whether there is a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Doubles, Longs
from penstock.columns.expressions import evaluate
from penstock.columns.lists import Lists
from penstock.columns.sums import exact_sum, exact_sum_longs, split_longs, total_of
from penstock.columns.types import ARROW
from penstock.core.errors import TerminalError
from penstock.core.expression import Expression, MeasureSpec, phi_of
from penstock.core.measure import ColumnType, Function
from penstock.kinds.aggregate.spec import AggregateSpec
from penstock.kinds.windowed.layout import Layout, Part

LONG_TOP, LONG_LOW = np.iinfo(np.int64).max, np.iinfo(np.int64).min
SUMS = {Function.SUM, Function.AVG}


class SumOverflowError(TerminalError):
    """A sum of integers left 64 bits."""

    def __init__(self, step: str, measure: str) -> None:
        self.step, self.measure = step, measure
        super().__init__(
            f"{step}.{measure}: a sum of integers exceeds 64 bits. Declare it as double under a"
            " new name, as in x2: {type: double, from: x}."
        )


@dataclass(frozen=True)
class AggregateLayout(Layout[AggregateSpec]):
    """The partial columns of one aggregate."""

    @cached_property
    def overs(self) -> tuple[Expression, ...]:
        """The distinct expressions measures are taken over."""
        found = (m.over for m in self.step.measures if m.over is not None)
        return tuple(dict.fromkeys(found))

    @cached_property
    def fields(self) -> list[pa.Field]:
        """The parts that the functions over each expression need."""
        fields = []
        for i, over in enumerate(self.overs):
            whole = self._kind(over) is ColumnType.LONG
            value = pa.int64() if whole else pa.float64()
            used = self._functions(over)
            fields.append(pa.field(f"n_{i}", pa.int64()))
            if used & SUMS:
                fields += [pa.field(f"high_{i}", value), pa.field(f"low_{i}", value)]
            if Function.MIN in used:
                fields.append(pa.field(f"least_{i}", value))
            if Function.MAX in used:
                fields.append(pa.field(f"greatest_{i}", value))
            if Function.QUANTILE in used:
                fields.append(pa.field(f"values_{i}", pa.list_(value)))
        return fields

    def _kind(self, over: Expression) -> ColumnType:
        kinds = {m.over_type for m in self.step.measures if m.over == over}
        return ColumnType.LONG if kinds == {ColumnType.LONG} else ColumnType.DOUBLE

    def _functions(self, over: Expression) -> set[Function]:
        return {m.function for m in self.step.measures if m.over == over}

    def parts_of(self, records: pa.Table) -> dict[str, Part]:
        """What single records say of each expression."""
        parts: dict[str, Part] = {}
        for i, over in enumerate(self.overs):
            parts |= self._parts(i, over, records)
        return parts

    def _parts(self, i: int, over: Expression, table: pa.Table) -> dict[str, Part]:
        values = evaluate(over, table)
        if isinstance(values, pa.Scalar):
            values = pa.chunked_array([pa.repeat(values, table.num_rows)])
        valid = np.asarray(pc.is_valid(values), dtype=bool)
        out: dict[str, Part] = {f"n_{i}": valid.astype(np.int64)}
        used = self._functions(over)
        if used <= {Function.COUNT}:
            return out
        whole = self._kind(over) is ColumnType.LONG
        plain = np.asarray(pc.fill_null(values, 0 if whole else 0.0))
        plain = plain if whole else plain + 0.0  # -0.0 is 0.0
        if used & SUMS:
            high, low = split_longs(plain) if whole else (plain, np.zeros(len(plain)))
            out |= {f"high_{i}": high, f"low_{i}": low}
        top, bottom = (LONG_TOP, LONG_LOW) if whole else (np.inf, -np.inf)
        if Function.MIN in used:
            out[f"least_{i}"] = np.where(valid, plain, top)
        if Function.MAX in used:
            out[f"greatest_{i}"] = np.where(valid, plain, bottom)
        if Function.QUANTILE in used:
            out[f"values_{i}"] = Lists(plain[valid], valid.astype(np.int64))
        return out

    def merged(self, parts: Mapping[str, Part], ids: Longs, groups: int) -> dict[str, Part]:
        """Each group's parts, aggregated."""
        found: dict[str, Part] = {}
        for i, over in enumerate(self.overs):
            found |= self._aggregated(i, over, parts, ids, groups)
        return found

    def _aggregated(
        self, i: int, over: Expression, columns: Mapping[str, Part], ids: Longs, groups: int
    ) -> dict[str, Part]:
        whole = self._kind(over) is ColumnType.LONG
        n = np.zeros(groups, np.int64)
        np.add.at(n, ids, columns[f"n_{i}"])
        out: dict[str, Part] = {f"n_{i}": n}
        if f"high_{i}" in columns:
            high, low = columns[f"high_{i}"], columns[f"low_{i}"]
            if whole:
                out[f"high_{i}"], out[f"low_{i}"] = exact_sum_longs(ids, groups, high, low)
            else:
                out[f"high_{i}"], out[f"low_{i}"] = exact_sum(ids, groups, high, low)
        if f"least_{i}" in columns:
            least = np.full(groups, LONG_TOP if whole else np.inf)
            np.minimum.at(least, ids, columns[f"least_{i}"])
            out[f"least_{i}"] = least
        if f"greatest_{i}" in columns:
            greatest = np.full(groups, LONG_LOW if whole else -np.inf)
            np.maximum.at(greatest, ids, columns[f"greatest_{i}"])
            out[f"greatest_{i}"] = greatest
        if f"values_{i}" in columns:
            out[f"values_{i}"] = columns[f"values_{i}"].grouped(ids, groups)
        return out

    def finish(self, table: pa.Table) -> dict[str, pa.Array]:
        """The measures of a partials table.

        Raises:
            SumOverflowError: a sum of integers does not fit 64 bits.
        """
        return {m.name: self._finished(m, table) for m in self.step.measures}

    def _finished(self, measure: MeasureSpec, table: pa.Table) -> pa.Array:
        if measure.over is None:
            return pa.array(np.asarray(table["n_records"]))
        i = self.overs.index(measure.over)
        n = np.asarray(table[f"n_{i}"])
        if measure.function is Function.COUNT:
            return pa.array(n)
        nothing = n == 0
        if measure.function is Function.QUANTILE:
            value = Lists.of(table[f"values_{i}"]).quantile(phi_of(measure))
        elif measure.function in SUMS:
            value = self._total(measure, i, table, np.maximum(n, 1))
        else:
            part = "least" if measure.function is Function.MIN else "greatest"
            value = np.asarray(table[f"{part}_{i}"])
        return pa.array(value, mask=nothing).cast(ARROW[measure.type])

    def total(self, i: int, table: pa.Table) -> Doubles:
        """Of each row, the sum of the expression ``overs[i]``; rounded, of integers too."""
        high, low = np.asarray(table[f"high_{i}"]), np.asarray(table[f"low_{i}"])
        whole = high.dtype == np.int64
        return np.asarray(high * 2.0**32 + low) if whole else total_of(high, low)

    def _total(self, measure: MeasureSpec, i: int, table: pa.Table, n: Longs) -> np.ndarray:
        high, low = np.asarray(table[f"high_{i}"]), np.asarray(table[f"low_{i}"])
        whole = high.dtype == np.int64
        if not whole:
            return total_of(high, low, n if measure.function is Function.AVG else 1)
        if measure.function is Function.AVG:
            return self.total(i, table) / n
        if len(high) and (high.max() >= 2**31 or high.min() < -(2**31)):
            raise SumOverflowError(self.step.name, measure.name)
        return (high << np.int64(32)) + low


LAYOUT = AggregateLayout
