"""Reduce: each record goes into the state of its key."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.kinds.classes import Classes
from penstock.kinds.custom.changes import changes, merged
from penstock.kinds.custom.spec import CustomSpec
from penstock.kinds.custom.wire import COUNTED, Wire
from penstock.kinds.frame import Advance, Reduced, State
from penstock.kinds.keyed.runs import HASH
from penstock.kinds.keyed.state import KeyedState
from penstock.kinds.side import Sides


class Reducer:
    """A custom step's state, one shard at a time."""

    def __init__(self, step: CustomSpec, state: State, folder: Path, sides: Sides) -> None:
        del sides
        self.wire = Wire(step)
        self.merged = partial(merged, self.wire)
        self.state = KeyedState(state, folder, self.merged)

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Say what a micro-batch's records change, and keep their states.

        Args:
            advance: of the micro-batch.
            parts: states of its records.
            seed: of the records before its generation.
        """
        manifest = self.state.begun(advance, seed)
        hashes = np.unique(np.asarray(parts[HASH]))
        before = self.merged(self.state.found(manifest, hashes, self.wire.parts))
        answers = changes(self.wire, before, parts)
        self.state.add(advance, manifest, self.merged(parts))
        records = int(np.asarray(parts[COUNTED]).sum())
        classes = Classes()
        classes.count(records, np.empty(0, np.int64), 0)
        return Reduced(self.wire.late.empty_table(), answers, 0, 0, records, classes)
