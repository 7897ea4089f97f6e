"""What readers may ask of a latest besides its answers: where each key is now."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import group
from penstock.kinds.latest.spec import LatestSpec


def views(step: LatestSpec) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """By ending of their name: what a row says, and how it comes from the answers in force."""
    return {"now": ("the newest record of a key", lambda answers: now(answers, step))}


def now(answers: pa.Table, step: LatestSpec) -> pa.Table:
    """Of each key the newest answer.

    Args:
        answers: in force, one row a window and key.
        step: the step.

    Returns:
        The keys and values, in the order of the keys.
    """
    rows = answers.select([*step.key_names, *(value.name for value in step.values)])
    keys = [rows[key] for key in step.key_names]
    ids, _ = group(keys, rows.num_rows)
    starts = np.asarray(pc.cast(answers["window_start"], pa.int64()))
    order = np.lexsort((starts, ids))
    last = order[np.flatnonzero(np.diff(ids[order], append=-1))]
    return rows.take(pa.array(last)).sort_by([(key, "ascending") for key in step.key_names])
