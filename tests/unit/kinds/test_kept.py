"""Which observations a record is compared with, against the model, record by record."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kinds.keyed.kept import NEVER, Pool, compared
from tests.lookup_model import Kept, Record

LOG = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=40)


@given(LOG, st.integers(1, 4), st.integers(0, 40))
def test_kept_is_what_the_model_keeps(log: list[tuple[int, int]], keep: int, cut: int) -> None:
    """With what was dropped before the cut gone, and with what comes later there already."""
    records = [Record(time, seq, str(key), 0) for seq, (key, time) in enumerate(log)]
    kept: dict[str, Kept] = defaultdict(Kept)
    expected = {}
    for record in records:
        mine = kept[record.key]
        dropped = NEVER if mine.dropped is None else mine.dropped.time
        kept_last_first = [(r.seq, r > record) for r in reversed(mine.records)]
        expected[record.seq] = (kept_last_first, dropped)
        mine.add(record, keep)
        if record.seq == cut:
            stored = {key: (list(k.records), k.dropped) for key, k in kept.items()}
    if cut >= len(records):
        cut, stored = -1, {}
    there = [r for key, (some, _) in stored.items() for r in some] + records[cut + 1 :]
    gone = [stored.get(str(key), ([], None))[1] for key in range(4)]
    pool = Pool(
        np.array([int(r.key) for r in there], np.int64),
        np.array([r.time for r in there], np.int64),
        np.array([r.seq for r in there], np.int64),
        np.array([NEVER if one is None else one.time for one in gone], np.int64),
    )
    rows = np.array([n for n, r in enumerate(there) if r.seq > cut], np.int64)
    found = compared(pool, rows, keep)
    told: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for new, old, after in zip(found.new, found.old, found.after, strict=True):
        told[int(pool.seqs[new])].append((int(pool.seqs[old]), bool(after)))
    for row, dropped in zip(rows, found.dropped, strict=True):
        seq = int(pool.seqs[row])
        assert (told[seq], dropped) == expected[seq]
