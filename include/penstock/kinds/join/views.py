"""What readers may ask of a join besides its pairs: those of one query."""

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.join.spec import QUERIES, JoinSpec


def views(step: JoinSpec) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """Of each query that the file has now a view that follows."""
    return {name: (f"one pair in force of {name}", partial(_of, name)) for name, _ in step.queries}


def _of(name: str, pairs: pa.Table) -> pa.Table:
    """Pairs that satisfy a query."""
    return pairs.filter(pc.match_substring_regex(pairs[QUERIES.name], f"(^|,){name}(,|$)"))
