"""The state of one shard of a step that keeps something of each key: runs, and which they are."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.kinds.frame import Advance, State, Stays, write_state
from penstock.kinds.keyed.runs import Manifest, Runs

MANIFEST = (0, 0)
"""Where Spark's state says which runs there are, by default."""


class KeyedState:
    """Reads and adds what is kept.

    Args:
        state: Spark's, of the shard.
        folder: where runs lie.
        merged: what is kept of the rows of several runs.
        at: where Spark's state says which there are.
    """

    def __init__(
        self,
        state: State,
        folder: Path,
        merged: Callable[[pa.Table], pa.Table],
        at: tuple[int, int] = MANIFEST,
    ) -> None:
        self.state, self.runs, self.at = state, Runs(folder, merged), at

    def begun(self, advance: Advance, seed: pa.Table) -> Manifest:
        """The runs before a micro-batch: at the beginning of a generation those of its seed."""
        if advance.first:
            self.state.clear()
        return self.opened(advance, seed)

    def opened(self, advance: Advance, seed: pa.Table) -> Manifest:
        """The same beside another state of the shard, which has begun."""
        stored = self.state.getValue(self.at)
        manifest = Manifest()
        if stored is not None:
            manifest = pickle.loads(stored[0])  # noqa: S301  written by ``add``
        if seed.num_rows:
            manifest = self.runs.added(manifest, seed, advance.number)
        return manifest

    def found(self, manifest: Manifest, hashes: Longs, schema: pa.Schema) -> pa.Table:
        """Rows of the keys with some hashes; in order, each once."""
        return self.runs.found(manifest, hashes, schema)

    def rows(self, manifest: Manifest, schema: pa.Schema) -> pa.Table:
        """Rows of all keys."""
        return self.runs.rows(manifest, schema)

    def add(self, advance: Advance, manifest: Manifest, fresh: pa.Table) -> Manifest:
        """Keep the rows of a micro-batch, too, merged or not; the runs after it."""
        after = manifest

        def write() -> Manifest:
            nonlocal after
            after = self.runs.added(manifest, fresh, advance.number)
            return after

        write_state(self.state, self.at, write)
        return after

    def give(self, advance: Advance, schema: pa.Schema, stays: Stays) -> tuple[pa.Table, int]:
        """Keep only what stays.

        Returns:
            The other rows, and how many all are.
        """
        manifest = self.opened(advance, schema.empty_table())
        rows = self.runs.rows(manifest, schema)
        mine = pa.array(stays(rows))
        self.add(advance, self.runs.emptied(manifest, advance.number), rows.filter(mine))
        return rows.filter(pc.invert(mine)), rows.num_rows
