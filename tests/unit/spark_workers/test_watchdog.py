"""Progress is what is sealed."""

from dataclasses import dataclass

from penstock.lake.proof.unsettled import OVERDUE, RECORD
from penstock.spark.watchdog import STOPPED_SECONDS, Watchdog

QUIET_SECONDS, RECORDS_PER_SECOND = OVERDUE.total_seconds(), 1 / RECORD.total_seconds()


@dataclass
class Seconds:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A watchdog that looks every ten seconds, as it is told to."""

    def __init__(self, records: int = 0) -> None:
        self.seconds, self.records = Seconds(), records
        self.dog = Watchdog(self.seconds)

    def over(self, seconds: float, **owing: int) -> tuple[str, float] | None:
        until = self.seconds.now + seconds
        found = self.dog.stuck(owing, self.records)
        while found is None and self.seconds.now < until:
            self.seconds.now += 10
            found = self.dog.stuck(owing, self.records)
        return found


def test_a_step_that_owes_blocks_and_seals_none_is_stuck() -> None:
    watched = Watched()
    assert watched.over(QUIET_SECONDS, a=3, b=1) is None
    assert watched.over(20, a=4, b=1) == ("b", QUIET_SECONDS + 10)


def test_a_step_that_seals_now_and_then_or_owes_nothing_is_not() -> None:
    watched = Watched()
    for sealed in range(5):
        assert watched.over(QUIET_SECONDS - 20, a=sealed) is None
    assert watched.over(10) is None
    assert watched.over(QUIET_SECONDS, a=5) is None, "its time begins when it owes something"


def test_a_long_log_takes_its_time() -> None:
    watched = Watched(records=100 * RECORDS_PER_SECOND)
    assert watched.over(QUIET_SECONDS + 100, a=1) is None
    assert watched.over(20, a=1) == ("a", QUIET_SECONDS + 110)


def test_time_in_which_the_watchdog_itself_was_stopped_does_not_count() -> None:
    watched = Watched()
    assert watched.over(QUIET_SECONDS - 20, a=1) is None
    watched.seconds.now += 100 * STOPPED_SECONDS
    assert watched.over(0, a=1) is None
    assert watched.over(40, a=1) == ("a", QUIET_SECONDS + 10)
