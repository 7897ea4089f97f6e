"""What readers may ask of a custom step besides its answers: what is said of each key now."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.columns.groups import group
from penstock.kinds.custom.spec import WHICH, CustomSpec


def views(step: CustomSpec) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """By ending of their name: what a row says, and how it comes from the answers in force."""
    return {"now": ("what is said of a key now", lambda answers: now(answers, step))}


def now(answers: pa.Table, step: CustomSpec) -> pa.Table:
    """Of each key the answer of its last record that changed it.

    Args:
        answers: in force.
        step: the step.

    Returns:
        The keys, position and values, in the order of the keys.
    """
    rows = answers.select([*step.identity_names, *(value.name for value in step.values)])
    ids, _ = group([rows[key] for key in step.key_names], rows.num_rows)
    order = np.lexsort((np.asarray(rows[WHICH.name]), ids))
    last = order[np.flatnonzero(np.diff(ids[order], append=-1))]
    return rows.take(pa.array(last)).sort_by([(key, "ascending") for key in step.key_names])
