"""What a stream host runs: steps in queries; each comes, goes and fails by itself.

Source: EMR (OTAP: routes between steps are added and removed while the rest runs).
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, TerminalError
from penstock.core.step import StepSpec
from penstock.core.window import instant, micros
from penstock.lake.storage.tables import Tables
from penstock.spark.pulse import Pulse
from penstock.spark.query import LogQuery
from penstock.spark.running import Running, meaning

log = logging.getLogger(__name__)


class Hosted:
    """The steps and queries of a host; Spark's threads read what its own thread changes.

    Args:
        tables: of the log.
        clock: tells when a step begins.
        make: a query of a name, which does not run yet.
        pulse: told how it goes.
        stays: the query that stays though it has no steps.
    """

    def __init__(
        self,
        tables: Tables,
        clock: Clock,
        make: Callable[[str], LogQuery],
        pulse: Pulse,
        stays: str,
    ) -> None:
        self._tables, self._clock = tables, clock
        self._make, self._pulse, self._stays = make, pulse, stays
        self.queries: dict[str, LogQuery] = {}
        self.steps: dict[str, Running] = {}
        self._records = 0.0
        self._began = time.monotonic()

    def know(self, step: StepSpec, query: str) -> None:
        """A step is to run in a query."""
        self.steps[step.id] = Running(step, query)

    def start(self, query: str) -> LogQuery:
        """Start a query with all steps that are to run in it."""
        for name, running in self.steps.items():
            if running.query == query:
                self._pulse.beat(step=name, error=None)
                running.begins(self._tables, micros(self._clock.now()))
        made = self._make(query)
        made.start(self.meant[query])
        self.queries[query] = made
        for step in made.steps:
            self._say_registered(step.id, made)
        return made

    def _say_registered(self, step: str, query: LogQuery) -> None:
        begun = query.generation_of(step)
        if begun is not None:
            self._pulse.beat(step=step, generation=begun.number, block=self.steps[step].block)
        self._say_pace()

    @property
    def meant(self) -> dict[str, list[StepSpec]]:
        """The steps that are to run, by query."""
        found: dict[str, list[StepSpec]] = {}
        for running in self.steps.values():
            found.setdefault(running.query, []).append(running.step)
        return found

    def follow(self, asked: Mapping[str, tuple[str, StepSpec]], *, again: bool) -> bool:
        """Run what is asked for, and nothing else; whether that is something else than before.

        Args:
            asked: steps by id, with their queries.
            again: whether to try what stood still for long enough.
        """
        changed, now = False, time.monotonic()
        for name, running in [*self.steps.items()]:
            query, step = asked.get(name, ("", None))
            if step is None or query != running.query or meaning(step) != meaning(running.step):
                self._goes(name)
                changed = True
                continue
            running.step = step  # into how many tasks it is cut may be another
            if running.error and again and running.due < now:
                self._let_run([running])
            elif running.error:
                self._leave(running)
        comes: dict[str, list[Running]] = {}
        for name, (query, step) in asked.items():
            if name not in self.steps:
                log.info("step=%s comes query=%s", name, query)
                self.know(step, query)
                comes.setdefault(query, []).append(self.steps[name])
        for some in comes.values():
            self._let_run(some)
        return changed or bool(comes)

    def _let_run(self, some: Sequence[Running]) -> None:
        """Let steps of a query run; what is wrong with one is its own affair."""
        for running in some:
            self._leave(running)
            running.error = ""
            self._pulse.beat(step=running.step.id, error=None)
        try:
            self._begin(some)
        except PenstockError as wrong:
            if len(some) == 1:
                self.give_up_for(some[0].step.id, wrong)
                return
            for running in some:  # which one it is will be seen
                self._let_run([running])
        self._say_still()

    def _begin(self, some: Sequence[Running]) -> None:
        query = some[0].query
        if query not in self.queries:
            self.start(query)
            return
        for running in some:
            running.begins(self._tables, micros(self._clock.now()))
        self.queries[query].add([running.step for running in some])
        for running in some:
            self._say_registered(running.step.id, self.queries[query])

    def _goes(self, name: str) -> None:
        log.info("step=%s goes", name)
        running = self.steps.pop(name)
        self._leave(running)
        self._pulse.forget(name)
        query = self.queries.get(running.query)
        if query is not None and not query.steps and query.name != self._stays:
            del self.queries[query.name]
            query.finish(math.inf, query.done)

    def _leave(self, running: Running) -> None:
        query = self.queries.get(running.query)
        if query is not None and running.step.id in {step.id for step in query.steps}:
            query.remove(running.step.id)

    def told(self, step: str, row: Mapping[str, Any]) -> None:
        """Publish what a step has sealed; in a thread of Spark's."""
        if (running := self.steps.get(step)) is None:  # it has gone meanwhile
            return
        running.seals(row["block"], row["through_seq"])
        running.hears(row)
        mark = instant(row["watermark_us"])
        newest = instant(row["t_max_us"])
        self._records += row["records"] / max(len(self.steps), 1)
        self._pulse.beat(
            step=step,
            micro_batch=row["micro_batch"],
            tasks=running.shards,
            block=row["block"],
            through_seq=row["through_seq"],
            records=row["records"],
            answers=row["answers"],
            pairs_late=row["pairs_late"],
            pairs_open=row["pairs_open"],
            watermark=mark.isoformat(),
            newest=newest.isoformat(),
            slack_seconds=row["slack_us"] / 1e6,
        )
        self._say_pace()

    def _say_pace(self) -> None:
        """Say up to where all steps are, and how fast they came there in this life."""
        elapsed = max(time.monotonic() - self._began, 1e-3)
        self._pulse.beat(
            block=min((r.block for r in [*self.steps.values()] if not r.error), default=0),
            records_per_second=round(self._records / elapsed, 1),
        )

    def give_up_for(self, step: str, wrong: PenstockError) -> None:
        """Go on without a step that failed."""
        self.give_up(step, str(wrong), lasting=isinstance(wrong, TerminalError))

    def give_up(self, step: str, cause: str, *, lasting: bool = True) -> None:
        """Go on without a step that cannot; it is tried again later, from where it stands.

        In a thread of Spark's.

        Args:
            step: its run.
            cause: why.
            lasting: whether a person has to change something.
        """
        if (running := self.steps.get(step)) is None:
            return
        running.fails(cause, lasting=lasting)
        log.error("step=%s stands still: %s", step, cause)
        self._pulse.beat(step=step, error=cause)
        self._say_still()

    def _say_still(self) -> None:
        still = {name: each.error for name, each in [*self.steps.items()] if each.error}
        names, causes = ", ".join(still), "; ".join(still.values())
        said = f"{names} stands still, the other steps go on: {causes}" if still else None
        self._pulse.beat(stands_still=said)

    @property
    def still(self) -> Sequence[Running]:
        """Those that stand still."""
        return [running for running in self.steps.values() if running.error]

    @property
    def micro_batches(self) -> int:
        """That were sealed."""
        return sum(running.micro_batches for running in [*self.steps.values()])

    @property
    def undecided(self) -> bool:
        """Whether some query has neither ended, nor sealed, nor found nothing to seal."""
        started, queries = self.meant.keys() <= self.queries.keys(), self.queries.values()
        return not started or any(query.undecided for query in queries)

    def owing(self, block: int) -> dict[str, int]:
        """The micro-batches of each step that has something to seal before a block."""
        return {
            name: running.micro_batches
            for name, running in self.steps.items()
            if not running.error
            and (query := self.queries.get(running.query)) is not None
            and (running.block < block or query.undecided)
        }
