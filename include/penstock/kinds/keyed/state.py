"""The state of one shard of a step that keeps something of each key: runs, and which they are."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.kinds.frame import Advance, State, write_state
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

    def add(self, advance: Advance, manifest: Manifest, fresh: pa.Table) -> None:
        """Keep the rows of a micro-batch, too, merged or not."""
        write_state(self.state, self.at, lambda: self.runs.added(manifest, fresh, advance.number))
