"""Looks at how far each step is behind, and asks for what it is to shed; the door adopts that."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.clock import Clock
from penstock.core.shedding import Behind, Shedder
from penstock.core.step import StepSpec
from penstock.lake.log.proposed import shed
from penstock.lake.log.sheds import in_force, owner
from penstock.lake.storage.commit import ConflictError, Table
from penstock.lake.storage.room import UnwrittenError
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0


@dataclass
class _Step:
    """What is known of one step."""

    shedder: Shedder
    behind: Behind = field(default_factory=Behind)


class ShedWatch:
    """Of the steps on a log; one that its file lets shed no more goes back to nothing.

    Args:
        tables: of the log.
        steps: the steps.
        clock: tells when something was asked for.
    """

    def __init__(self, tables: Tables, steps: Sequence[StepSpec], clock: Clock) -> None:
        self._tables, self._clock, self._due = tables, clock, 0.0
        decisions = Table(tables.decisions())
        known = {s.id: (s.shed, in_force(decisions, s.id)) for s in steps if s.sheds}
        self._steps = {
            name: _Step(Shedder(*both)) for name, both in known.items() if both[0] or both[1]
        }

    def look(self, sealed: int, answered: Mapping[str, int]) -> None:
        """Look again, if it is time.

        Args:
            sealed: records of the log.
            answered: up to where, of each step.
        """
        if not self._steps or (now := time.monotonic()) < self._due:
            return
        self._due = now + EVERY_SECONDS
        for name, step in self._steps.items():
            behind = step.behind.look(now, sealed, answered[name])
            found = step.shedder.decide(now, behind)
            if found is not None:
                self._ask(name, step, *found)

    def _ask(self, name: str, step: _Step, ratio: int, why: str) -> None:
        try:
            shed(self._tables, owner(name), ratio, why, self._clock)
        except (ConflictError, UnwrittenError) as away:  # the next look asks again
            log.warning("step=%s asks to shed %d %% later: %s", name, ratio, away)
            return
        log.info("step=%s asks to shed %d %%, not %d %%: %s", name, ratio, step.shedder.ratio, why)
        step.shedder.ratio = ratio
