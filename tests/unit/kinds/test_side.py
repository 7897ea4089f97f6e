"""Side data beside rows, against a dictionary for each version."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.side import SideJoin, SideTable
from penstock.kinds.side import Version, looked_up

TABLE = SideTable("limits", (Column("a", ColumnType.STRING), Column("b", ColumnType.LONG),
                             Column("seconds", ColumnType.DOUBLE)), ("a", "b"))  # fmt: skip
JOIN = SideJoin(TABLE, (("a", "new.site"), ("b", "old.code")))
KEYS = st.tuples(st.sampled_from(["x", "y", "Zürich"]), st.integers(0, 3))
CONTENT = st.dictionaries(KEYS, st.one_of(st.none(), st.floats(0, 10)))
ROW = st.tuples(st.one_of(st.none(), st.sampled_from(["x", "y", "Zürich", "z"])),
                st.one_of(st.none(), st.integers(0, 4)), st.integers(0, 60))  # fmt: skip


def rows_of(content: dict[tuple[str, int], float | None]) -> pa.Table:
    return pa.table({
        "a": pa.array([a for a, _ in content], pa.string()),
        "b": pa.array([b for _, b in content], pa.int64()),
        "seconds": pa.array([*content.values()], pa.float64()),
    })  # fmt: skip


@given(
    contents=st.lists(CONTENT, min_size=1, max_size=3),
    rows=st.lists(ROW, min_size=1),
    dictionary=st.booleans(),
)
def test_each_row_gets_what_held_at_its_position(
    contents: list[dict[tuple[str, int], float | None]],
    rows: list[tuple[str | None, int | None, int]],
    dictionary: bool,
) -> None:
    versions = [Version(20 * n, rows_of(content)) for n, content in enumerate(contents)]
    sites = pa.chunked_array([pa.array([site for site, _, _ in rows], pa.string())])
    beside = {
        "new.site": sites.dictionary_encode() if dictionary else sites,
        "old.code": pa.chunked_array([pa.array([code for _, code, _ in rows], pa.int64())]),
    }
    seqs = np.array([seq for _, _, seq in rows], np.int64)
    found = looked_up(JOIN, beside, seqs, lambda *_: versions)
    assert [*found] == ["limits.seconds"]
    expected = [contents[min(seq // 20, len(contents) - 1)].get((site, code))
                for site, code, seq in rows]  # fmt: skip
    assert found["limits.seconds"].to_pylist() == expected


def test_the_first_version_holds_before_it_began() -> None:
    versions = [Version(50, rows_of({("x", 1): 2.0})), Version(90, rows_of({("x", 1): 3.0}))]
    beside = {"new.site": pa.chunked_array([["x"] * 4]),
              "old.code": pa.chunked_array([pa.array([1] * 4, pa.int64())])}  # fmt: skip
    found = looked_up(JOIN, beside, np.array([0, 50, 89, 90]), lambda *_: versions)
    assert found["limits.seconds"].to_pylist() == [2.0, 2.0, 2.0, 3.0]
