"""When late records ask for a correction: by span, by age, once, and again where nobody came."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.config.running import Soon
from penstock.core.urgency import Bell, Urgency, Waiting
from penstock.lake.history.watch import Watch, waiting
from tests import reference as ref
from tests.answers import blocks_of
from tests.doubles import FixedClock
from tests.lakes import Lake, make_lake
from tests.steps import CASES
from tests.streams import BEGIN, MINUTE, SECOND, us, write_jsonl

WITHIN = timedelta(minutes=10)


def row(seconds: float) -> dict[str, Any]:
    return {"event_time": BEGIN + timedelta(seconds=seconds), "site": "a", "code": 1,
            "delay": 1.0, "bags": 1, "live": True}  # fmt: skip


class Shore:
    """A live stream, its watch, and a clock that both look at."""

    def __init__(self, home: Path, **soon: Any) -> None:
        source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
        self.lake: Lake = make_lake(home, CASES["sites"], source=source)
        self.clock = FixedClock()
        self.lake.clock = self.clock  # type: ignore[assignment]
        self.lake.query()
        self.urgency = Soon(within=WITHIN, **soon).urgency
        self.again()

    def again(self) -> None:
        """The process that watches starts anew."""
        lake = self.lake
        self.watch = Watch(lake.tables, lake.pipeline.specs, self.urgency, self.clock)

    def come(self, *seconds: float) -> None:
        folder = self.lake.home / "live"
        number = len(list(folder.glob("*"))) if folder.exists() else 0
        write_jsonl(folder / f"{number}.jsonl", [row(s) for s in seconds])
        self.lake.ingest()
        self.lake.query().run()


@pytest.fixture
def shore(tmp_path: Path) -> Shore:
    return Shore(tmp_path)


def test_before_anything_is_there_nothing_is_asked(shore: Shore) -> None:
    assert shore.watch.look() is None
    shore.come(0, 1_000)
    assert waiting(shore.lake.tables, shore.lake.step) == (-1, None)
    assert shore.watch.look() is None


def test_a_lone_late_record_is_repaired_within_its_time_though_the_stream_is_silent(
    shore: Shore,
) -> None:
    lake, clock = shore.lake, shore.clock
    shore.come(0, 1_000)
    shore.come(5)
    clock.move(WITHIN / 3)
    assert shore.watch.look() is None, "a third of the time is for waiting"
    clock.move(timedelta(microseconds=1))
    assert shore.watch.look() == {"s": "age"}
    assert lake.correct() == 3, "the windows of one record"
    clock.move(WITHIN * 5)
    assert shore.watch.look() is None
    assert waiting(lake.tables, lake.step)[1] is None
    lake.check()


def test_a_span_asks_strictly_above_and_at_once(tmp_path: Path) -> None:
    shore = Shore(tmp_path, span=timedelta(seconds=50))
    shore.come(0, 1_000)
    shore.come(100, 150)
    assert shore.watch.look() is None, "not above"
    shore.come(150.001)
    assert shore.watch.look() == {"s": "span"}


def test_what_waits_is_the_oracle_s(shore: Shore) -> None:
    shore.come(0, 1_000)
    shore.come(*range(1_000, 1_400, 7))
    shore.clock.move(timedelta(seconds=3))
    shore.come(70, 990, 985, 1_390, 1_420)
    lake = shore.lake
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline))
    after, found = waiting(lake.tables, lake.step)
    assert truth.late_times
    assert after == -1
    assert found == Waiting(us(shore.clock.now()), min(truth.late_times), max(truth.late_times))


def test_a_burst_rings_once_and_what_comes_during_the_repair_rings_again(tmp_path: Path) -> None:
    shore = Shore(tmp_path, span=timedelta(0))
    shore.come(0, 1_000)
    rung = []
    for second in range(1, 20):
        shore.come(second, second + 1)
        rung.append(shore.watch.look())
    assert rung == [{"s": "span"}] + [None] * 18
    plan = shore.lake.planner().due()
    shore.come(30, 31)
    for each in plan:
        shore.lake.corrector().run(shore.lake.planner(), each)
    assert shore.watch.look() == {"s": "span"}, "what the run did not take"
    shore.lake.correct()
    assert shore.watch.look() is None
    shore.lake.check()


def test_an_event_that_nobody_followed_is_rung_again(shore: Shore) -> None:
    shore.come(0, 1_000)
    shore.come(5)
    shore.clock.move(WITHIN)
    assert shore.watch.look() == {"s": "age"}
    assert shore.watch.look() is None
    shore.clock.move(WITHIN / 3)
    assert shore.watch.look() == {"s": "age"}
    shore.again()
    assert shore.watch.look() == {"s": "age"}, "a new process knows of no ring"


def test_a_plan_whose_run_died_is_not_a_repair(shore: Shore) -> None:
    shore.come(0, 1_000)
    shore.come(5)
    shore.lake.planner().due()
    shore.clock.move(WITHIN)
    assert shore.watch.look() == {"s": "age"}


def test_the_rule_by_hand() -> None:
    rule = Urgency(5 * SECOND, 10 * MINUTE)
    assert rule.reason(Waiting(0, 10, 10 + 5 * SECOND), 0) is None
    assert rule.reason(Waiting(0, 10, 11 + 5 * SECOND), 0) == "span"
    assert rule.reason(Waiting(0, 10, 10), 200 * SECOND) is None
    assert rule.reason(Waiting(0, 10, 10), 200 * SECOND + 1) == "age"
    assert Urgency(None, 10 * MINUTE).reason(Waiting(0, 0, 10**15), 0) is None
    bell = Bell(60)
    assert not bell.rings({}, 0)
    assert [bell.rings({"s": 1}, t) for t in (0, 59, 60, 61)] == [True, False, True, False]
    assert bell.rings({"s": 2}, 62)
    assert bell.rings({"s": 2, "t": 1}, 63)
