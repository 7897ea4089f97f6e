"""Reduce: each record is compared with what is kept of its key."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.columns.windows import panes_of
from penstock.kinds.classes import Classes
from penstock.kinds.frame import Advance, Reduced, State, Stays, unmoved
from penstock.kinds.keyed.late import late_records
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.keyed.state import KeyedState
from penstock.kinds.lookup.search import Found, Search
from penstock.kinds.lookup.spec import SEQS, TIMES, LookupSpec
from penstock.kinds.lookup.trimmed import trimmed
from penstock.kinds.lookup.wire import Wire
from penstock.kinds.side import Sides

TWO = 2
"""Records of an alarm."""


class Reducer:
    """A look-up's state, one shard at a time."""

    def __init__(self, step: LookupSpec, state: State, folder: Path, sides: Sides) -> None:
        self.step, self.wire, self.sides = step, Wire(step), sides
        kept = partial(trimmed, keys=step.key_names, keep=step.keep)
        self.state = KeyedState(state, folder, kept)

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Compare a micro-batch's records, and keep them; revised answers are the correction's.

        Args:
            advance: of the micro-batch.
            parts: its records.
            seed: the records before its generation.
        """
        manifest = self.state.begun(advance, seed)
        withheld = advance.marks.is_shed(np.asarray(parts[SEQ]))
        revised, parts = parts.filter(pa.array(withheld)), parts.filter(pa.array(~withheld))
        hashes = np.unique(np.asarray(parts[HASH]))
        before = self.state.found(manifest, hashes, self.wire.parts)
        pool = pa.concat_tables([before, parts])
        fresh = np.arange(before.num_rows, pool.num_rows)
        told = Search(self.step, pool, self.sides).found(fresh)
        held = self.state.add(advance, manifest, parts).rows
        every = pa.concat_tables([pool, revised])
        late = np.append(told.late, np.arange(pool.num_rows, every.num_rows))
        shed, count, classes = late >= pool.num_rows, len(fresh) + revised.num_rows, Classes()
        classes.count(count, np.asarray(every[TIME])[late], revised.num_rows)
        return Reduced(
            late_records(self.wire, every, late, shed), alarms(self.wire, pool, told),
            0, len(late), count - len(late), classes, shed_pairs=revised.num_rows, kept=held,
        )  # fmt: skip

    def give(self, advance: Advance, stays: Stays) -> tuple[pa.Table, Reduced]:
        """Keep no more what belongs to another shard from now on."""
        moved, held = self.state.give(advance, self.wire.parts, stays)
        return moved, unmoved(self.wire, 0, held)


def alarms(wire: Wire, pool: pa.Table, told: Found) -> pa.Table:
    """Alarms as they leave the reducer."""
    sides = [pool.take(pa.array(rows)) for rows in (told.new, told.old)]
    new, _ = sides
    columns = {
        **{key: new[key] for key in wire.step.key_names},
        **{column.name: side[SEQ] for column, side in zip(SEQS, sides, strict=True)},
        "window_start": panes_of(wire.step.window, np.asarray(new[TIME])),
        "n_records": np.full(new.num_rows, TWO),
        "last_seq": new[SEQ],
        **{c.name: pc.cast(side[TIME], INSTANT) for c, side in zip(TIMES, sides, strict=True)},
    }
    for which, side in zip(("new", "old"), sides, strict=True):
        columns |= {f"{which}_{c.name}": side[c.name] for c in wire.step.kept}
    return pa.table(columns).select(wire.answers.names).cast(wire.answers)
