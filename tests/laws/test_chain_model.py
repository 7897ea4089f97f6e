"""Steps over steps as a model, over random schedules: law 0 and exact answers, three steps deep."""

import random

import pytest

from tests.chain_model import EVER, Answer, Block, Feed, Log, Record, Step, Windows, truth
from tests.chain_model import timely as true_timely
from tests.lookup_model import KilledError, Lake

pytestmark = pytest.mark.law
SCHEDULES = 40
DELAYS = (0, 0, 0, 1, 3, 9, 20)


def events(draw: random.Random) -> list[tuple[int, str, int]]:
    """Event time, key and value, in disorder."""
    clock, found = 0, []
    for _ in range(draw.randint(10, 60)):
        clock += draw.randint(0, 3)
        time = max(0, clock - draw.choice(DELAYS))
        found.append((time, draw.choice("ab"), draw.randint(-5, 5)))
    return found


class Door:
    """Of the events: each a block; the watermark moves with it."""

    def __init__(self, log: Log, source: list[tuple[int, str, int]], slack: int) -> None:
        self.log, self.source, self.slack = log, source, slack

    def work(self) -> None:
        """One record, or the end."""
        log, at = self.log, len(self.log.blocks)
        if at > len(self.source):
            return
        if at == len(self.source):
            log.lake.commit("blocks", at, [Block(at, EVER)])
            return
        time, key, value = self.source[at]
        log.lake.commit("records", at, [Record(at, time, key, value, log.mark(at), at)])
        mark = max(log.mark(at), time - self.slack)
        log.lake.commit("blocks", at, [Block(at + 1, mark)])


class World:
    """Three steps, one over the other; the lower ones are added while the others run."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311
        self.chaos = random.Random(seed + 1)  # noqa: S311
        self.kill = self.draw.choice((0.0, 0.05, 0.2))
        self.source = events(self.draw)
        log = self.log()
        self.door = Door(log, self.source, self.draw.randint(0, 6))
        self.steps = [Step(log.lake, log, Windows(6, 2), self.draw, keyed=True)]
        self.steps[0].lake = self.lake()
        self.feeds: list[Feed] = []
        self.kills = 0

    def lake(self) -> Lake:
        return Lake(self.chaos, self.kill)

    def log(self) -> Log:
        return Log(self.lake())

    def add(self) -> None:
        """A step over the last one; nobody is killed meanwhile."""
        above, log = self.steps[-1], self.log()
        feed = Feed(above, log)
        windows = Windows(12, 4) if len(self.steps) == 1 else Windows(16, 8)
        self.calm(0.0, [log.lake])
        for _ in range(self.draw.randint(1, 3)):  # others may have begun over it before
            feed.work()
        step = Step(Lake(self.chaos, 0.0), log, windows, self.draw, keyed=len(self.steps) == 1,
                    first=len(log.blocks), above=above)  # fmt: skip
        step.history()
        self.calm(self.kill, [log.lake, step.lake])
        self.steps.append(step)
        self.feeds.append(feed)

    def calm(self, kill: float, lakes: list[Lake]) -> None:
        for lake in lakes:
            lake.kill = kill

    def live(self) -> None:
        """One turn of somebody."""
        work = [self.door.work, *(feed.work for feed in self.feeds)]
        work += [each for step in self.steps for each in (step.work, step.work, step.correct)]
        try:
            self.draw.choice(work)()
        except KilledError:
            self.kills += 1
            for step in self.steps:
                step.state = None if self.draw.random() < 0.5 else step.state

    def holds(self) -> None:
        for step in self.steps:
            for _, upto in step.lake.tables["control"][-2:]:
                holds(step, upto)

    def end(self) -> None:
        """Everything is taken, answered and corrected."""
        self.calm(0.0, [lake for s in self.steps for lake in (s.lake, s.log.lake)])
        while len(self.door.log.blocks) <= len(self.source):
            self.door.work()
        for step, feed in zip(self.steps, [*self.feeds, None], strict=True):
            while step.sealed < len(step.log.blocks):
                step.work()
            while step.waits(step.sealed, step.done):
                step.correct()
            if feed is not None:
                feed.work()
                feed.work()


def holds(step: Step, upto: int) -> None:
    """The laws at a sealed position."""
    told = [row for row in step.rows("answers", upto) if isinstance(row, Answer)]
    assert len({row.window for row in told}) == len(told), "two timely answers of one window"
    found, exact = step.in_force(upto, step.done), truth(step, upto)
    pending = step.pending(upto, step.done)
    for window, must in exact.items():
        if window not in pending:
            assert window in found, "not pending, not there"
            assert found[window].told == must, "not pending, not exact"
    extra = {w for w, row in found.items() if row.count} - exact.keys() - pending
    assert not extra, "an answer of nothing"


def lived(seed: int) -> dict[str, int]:
    world = World(seed)
    joins = sorted(world.draw.randint(5, 150) for _ in range(2))
    for turn in range(world.draw.randint(60, 400)):
        world.live()
        while joins and turn >= joins[0] and world.steps[-1].sealed > world.steps[-1].first:
            joins.pop(0)
            world.add()
        world.holds()
    world.end()
    while len(world.steps) < 3:
        world.add()
        world.end()
    last = world.steps[-1]
    for step in world.steps:
        holds(step, step.sealed)
        assert not step.pending(step.sealed, step.done)
        told = step.rows("answers", step.sealed)
        said = {(r.window, *r.told) for r in told if isinstance(r, Answer)}
        assert said == true_timely(step), "law 0"
    revisions = sum(record.is_revision for record in last.log.records)
    return {"kills": world.kills, "late": len(world.steps[0].lake.tables["late"]),
            "revisions": revisions, "timely": len(last.lake.tables["answers"]),
            "corrected": len(last.lake.tables["corrected"])}  # fmt: skip


def test_in_any_order_of_commits_answers_of_answers_end_exact() -> None:
    told = [lived(seed) for seed in range(SCHEDULES)]
    for name in ("kills", "late", "revisions", "timely", "corrected"):
        assert sum(each[name] for each in told) > SCHEDULES, name
