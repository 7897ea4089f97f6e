"""The audit's recomputation, apart from everything that it judges.

``truth`` recomputes the answers, ``compare`` holds them against what stands there,
``penstock.lake.proof.recount`` counts the log again and ``penstock.lake.proof.retrace`` folds the
watermarks again. The result is the small table of comparisons that ``penstock.quality`` judges.

An audit goes on from what the last green one found (``penstock.lake.proof.footing``): it covers
what came since, and a stretch of older ground (``penstock.lake.proof.scope``).
"""

import logging
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from croniter import croniter
from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.step import StepSpec, of_each
from penstock.core.window import EPOCH
from penstock.lake.history.generation import generations
from penstock.lake.history.position import Position, position, start_of
from penstock.lake.log.freezes import frozen
from penstock.lake.proof.footing import (
    Footing,
    contradicted,
    read_footing,
)
from penstock.lake.proof.ground import ground_of
from penstock.lake.proof.recount import Recount, recount
from penstock.lake.proof.retrace import Stretch, read_plans
from penstock.lake.proof.scope import older
from penstock.lake.storage.tables import Tables
from penstock.spark.step_audit import Opened, StepAudit

log = logging.getLogger(__name__)


class Audit:
    """Recomputes every step of a pipeline at its newest sealed position.

    Attributes:
        everything: it goes on from no former audit.
        failed: of ``comparisons``: what kept some steps from being compared; none: nothing.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        pipeline: Pipeline,
        clock: Clock,
        *,
        everything: bool = False,
    ) -> None:
        self.spark, self.tables, self.pipeline, self.clock = spark, tables, pipeline, clock
        self.everything = everything
        self.failed: PenstockError | None = None
        self._counts: dict[Any, Recount] = {}

    def comparisons(self, interval: timedelta) -> list[dict[str, Any]]:
        """One row a step; none of one that neither sealed nor owes anything, or that ``failed``.

        Args:
            interval: between two scheduled corrections.

        Raises:
            PenstockError: some steps failed, and there is nothing to say of any other.
        """

        def row(step: StepSpec) -> list[dict[str, Any]]:
            while True:  # what is frozen meanwhile may go while it is read
                before, found = frozen(self.tables).number, row_once(step)
                if frozen(self.tables).number == before:
                    return found

        def row_once(step: StepSpec) -> list[dict[str, Any]]:
            whole = self.everything or step.by_key  # an old record may make an alarm with a new one
            footing = None if whole else read_footing(self.tables, step)
            opened = self._opened(step, footing)
            if opened is not None and footing is not None:
                footing = opened.ground.under(footing)
                if footing is not None and (old := self._old(step, footing, opened)) is not None:
                    return [StepAudit(self, step, opened, (footing, old)).row(interval)]
                opened = self._opened(step, None)
            return [] if opened is None else [StepAudit(self, step, opened).row(interval)]

        found, self.failed = of_each(self.pipeline.specs, row)
        rows = [row for some in found for row in some]
        if not rows:
            self.raise_missed()
        return rows

    def _opened(self, step: StepSpec, footing: Footing | None) -> "Opened | None":
        """A step as it stands, with what a footing has not seen; none: it owes nothing."""
        # What is read first may speak only for what is sealed by the position read after it.
        registered = generations(self.tables, step)
        planned = read_plans(self.tables, step, None if footing is None else footing.unseen)
        at = position(self.tables, step) or start_of(self.tables, step)
        if at is None or at.seq < 0:
            return None
        ground = ground_of(self.tables, step, at.epoch)
        if footing is None and ground.footing is not None:
            planned = [row for row in planned if ground.footing.is_new(row)]
        return Opened(at, registered, planned, ground)

    def _old(self, step: StepSpec, footing: Footing, opened: "Opened") -> Stretch | None:
        """The stretch of older ground to cover again; none: everything is."""
        why = contradicted(footing, self.tables, step, opened.at, opened.planned)
        if why:
            log.info("everything is audited step=%s why=%s", step.id, why)
            return None
        old = older(self.tables, step, opened.at, footing)
        return None if old.is_all(footing.head) else old

    @property
    def missed(self) -> str:
        """What was not compared, and why, to go on a message; empty: nothing."""
        return "" if self.failed is None else f"; not compared: {self.failed}"

    def raise_missed(self) -> None:
        """Raise what kept some steps from being compared, if anything did."""
        if self.failed is not None:
            raise self.failed

    def counted(self, step: StepSpec, at: Position, stretch: Stretch) -> Recount:
        """A stretch of the log up to a position, counted again for a step."""
        whole = stretch.until is None
        last, before = (at.sealed.seq, at.sealed.block) if whole else (stretch.last, stretch.until)
        key = stretch.since, before, step.streams
        if key not in self._counts:
            events = self.tables.events(self.pipeline.types)
            self._counts[key] = recount(
                self.tables, events, last, before, stretch.since, step.streams
            )
        return self._counts[key]


def correction_interval(pipeline: Pipeline) -> timedelta:
    """The longest time between two scheduled corrections, over the next few."""
    ticks = croniter(pipeline.correction.cron, EPOCH)
    times = [ticks.get_next(datetime) for _ in range(50)]
    return max(b - a for a, b in pairwise(times))
