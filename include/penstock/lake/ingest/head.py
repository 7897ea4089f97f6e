"""Where the sealed log ends, and what the next block has to know of all before it."""

import pyarrow.compute as pc

from penstock.core.window import BEGINNING, micros
from penstock.lake.log.blocks import LIVE, newest_live_before, next_block
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Tail
from penstock.lake.storage.tables import Tables


class Head:
    """Follows ``blocks`` from their newest row on: a log of any age is begun at the same cost.

    Attributes:
        next_seq: arrival number of the record that comes next.
        next_block: number of the block that is sealed next.
        accepted: records that were accepted by now.
        t_max: newest live event time, us.
    """

    def __init__(self, tables: Tables, blocks: Table) -> None:
        self.next_seq = self.next_block = self.accepted = 0
        self.t_max = BEGINNING
        self._tables, self._blocks = tables, blocks
        self._tail: Tail | None = None

    def catch_up(self) -> None:
        """Take note of what was sealed since."""
        if self._tail is None:
            newest = next_block(self._tables) - 1
            self.t_max = newest_live_before(self._tables, newest)
            self._tail = Tail(self._blocks, "block", newest - 1)
        sealed = self._tail.take()
        if not sealed.num_rows:
            return
        last = sealed.slice(sealed.num_rows - 1).to_pylist()[0]
        self.next_seq, self.next_block = last["last_seq"] + 1, last["block"] + 1
        self.accepted = last["accepted_total"]
        newest_live = pc.max(sealed.filter(pc.equal(sealed["origin"], LIVE))["t_max"]).as_py()
        if newest_live is not None:
            self.t_max = max(self.t_max, micros(newest_live))
