"""Ids of shards: which are free, and where they lie."""

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.lake.history.offset import StepOffset


class Shards:
    """Ids that steps use, and others.

    Args:
        rows: ids of shards; those of a row lie in different tasks, in the order of these.
        used: where steps stand.
    """

    def __init__(self, rows: Sequence[Sequence[int]], used: Mapping[str, StepOffset]) -> None:
        self._rows = rows
        self._task = {shard: task for row in rows for task, shard in enumerate(row)}
        self._used = {shard for at in used.values() for shard in (*at.shards, *at.moves)}

    @property
    def usual(self) -> int:
        """Shards of a step that says nothing of it: as many as there are tasks."""
        return len(self._rows[0])

    def take(self, wanted: int, own: Sequence[int] = ()) -> tuple[int, ...]:
        """Shards of a step: those it has, as far as it keeps them, then where fewest are.

        Args:
            wanted: how many.
            own: that it has.
        """
        kept = [*own[:wanted]]
        mine = Counter(self._task.get(shard) for shard in kept)
        every = Counter(self._task.get(shard) for shard in self._used)
        while len(kept) < wanted:
            task = min(range(self.usual), key=lambda nth: (mine[nth], every[nth], nth))
            fresh = next(shard for row in self._rows if (shard := row[task]) not in self._used)
            kept.append(fresh)
            self._used.add(fresh)
            mine[task] += 1
            every[task] += 1
        return tuple(kept)
