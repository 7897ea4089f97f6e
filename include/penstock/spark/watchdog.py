"""Sees a step that stands still, by what it seals: threads and heartbeats of a stuck one go on."""

import time
from collections.abc import Callable, Mapping

from penstock.lake.proof.unsettled import patience

STOPPED_SECONDS = 30.0
"""Whoever did not look for longer was stopped; perhaps the step was, too."""


class Watchdog:
    """Remembers when each step sealed last.

    Args:
        now: seconds that only rise.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._looked = now, now()
        self._since: dict[str, tuple[object, float]] = {}

    def stuck(self, owing: Mapping[str, object], records: int) -> tuple[str, float] | None:
        """The step that has sealed nothing for too long, and for how many seconds.

        Args:
            owing: of each step that has something to seal, what changes whenever it seals.
            records: of the log: the first micro-batch may rebuild its state from it.
        """
        now = self._now()
        paused = now - self._looked if now - self._looked > STOPPED_SECONDS else 0.0
        self._looked = now
        former = {step: (mark, since + paused) for step, (mark, since) in self._since.items()}
        self._since = {
            step: former[step] if step in former and former[step][0] == mark else (mark, now)
            for step, mark in owing.items()
        }
        most = patience(records).total_seconds()
        quiet = {step: now - since for step, (_, since) in self._since.items()}
        return next(((step, age) for step, age in quiet.items() if age > most), None)
