"""What user code is derived from: of each key a state, reduced from its records.

Everything is done to many rows at once. Rows are not to be mixed: row i of a result belongs to row
i of what was given, so that a record is dealt with alone, whatever stands beside it. Source: RTMR
(map; reduce as init, update, merge, finish).

A result is a table, or columns by name: Arrow's or NumPy's arrays. Merging must be associative and
commutative, to the last bit: ``penstock validate --laws`` tries that. Sums of doubles are not;
whole numbers are, and so are least and greatest.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt
import pyarrow as pa

Columns: TypeAlias = pa.Table | Mapping[str, pa.Array | pa.ChunkedArray | npt.NDArray[Any]]


class Code:
    """Derive from it, in the Python file that is called as the pipeline.

    Attributes:
        state: columns of a state, with their types: string, long, double, boolean, timestamp.
    """

    state: ClassVar[Mapping[str, str]] = {}

    def map(self, records: pa.Table) -> Columns:
        """What the records are about; by default themselves.

        Args:
            records: ``arrival_seq`` (long), ``event_time`` (timestamp), the declared keys, and the
                columns that the step reads. Shape (n,).

        Returns:
            Any number of rows, with the keys, with ``arrival_seq`` of the record that each is of,
            and with what ``update`` needs. A row without a key is left out.
        """
        return records

    def init(self, rows: int) -> Columns:
        """States of keys of which nothing came yet, shape (rows,)."""
        raise NotImplementedError(f"{type(self).__name__} needs init")

    def update(self, states: pa.Table, records: pa.Table) -> Columns:
        """States after one more record each.

        Args:
            states: shape (n,).
            records: rows of ``map``, shape (n,).
        """
        raise NotImplementedError(f"{type(self).__name__} needs update")

    def merge(self, one: pa.Table, other: pa.Table) -> Columns:
        """States that are reduced from the records of two, shape (n,) each."""
        raise NotImplementedError(f"{type(self).__name__} needs merge")

    def finish(self, states: pa.Table) -> Columns:
        """What is answered of states, shape (n,); by default the states."""
        return states
