"""Where the sealed log ends, and what the next block has to know of all before it."""

import pyarrow.compute as pc

from penstock.core.step import ONLY, STREAM
from penstock.core.window import BEGINNING, micros
from penstock.lake.log.blocks import LIVE, newest_live_before, next_block
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Tail
from penstock.lake.storage.tables import Tables


class Sealing:
    """What seals blocks of a log, and follows its head."""

    _head: "Head"

    @property
    def next_block(self) -> int:
        """Number of the block that will be sealed next, as of the last ``work``."""
        return self._head.next_block

    @property
    def next_seq(self) -> int:
        """Arrival number of the record that will come next, as of the last ``work``."""
        return self._head.next_seq


class Head:
    """Follows ``blocks`` from their newest row on: a log of any age is begun at the same cost.

    Attributes:
        next_seq: arrival number of the record that comes next.
        next_block: number of the block that is sealed next.
        accepted: records that were accepted by now.
    """

    def __init__(self, tables: Tables, blocks: Table) -> None:
        self.next_seq = self.next_block = self.accepted = 0
        self._since: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._begun = 0
        self._tables, self._blocks = tables, blocks
        self._tail: Tail | None = None

    def catch_up(self) -> None:
        """Take note of what was sealed since."""
        if self._tail is None:
            self._begun = next_block(self._tables) - 1
            self._tail = Tail(self._blocks, "block", self._begun - 1)
        sealed = self._tail.take()
        if not sealed.num_rows:
            return
        last = sealed.slice(sealed.num_rows - 1).to_pylist()[0]
        self.next_seq, self.next_block = last["last_seq"] + 1, last["block"] + 1
        self.accepted = last["accepted_total"]
        live = sealed.filter(pc.equal(sealed["origin"], LIVE))
        newest = live.group_by(STREAM).aggregate([("t_max", "max")])
        for stream, t_max in zip(newest[STREAM].to_pylist(), newest["t_max_max"], strict=True):
            if (at := t_max.as_py()) is not None:
                name = stream or ONLY
                self._since[name] = max(self._since.get(name, BEGINNING), micros(at))

    def newest(self, stream: str) -> int:
        """Newest live event time of a stream, us."""
        if stream not in self._before:
            mine = (stream,) if stream else ()
            self._before[stream] = newest_live_before(self._tables, self._begun, mine)
        return max(self._before[stream], self._since.get(stream, BEGINNING))
