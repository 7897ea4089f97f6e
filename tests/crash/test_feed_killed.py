"""A feed that is killed at any point goes on: no answer is lost, and none is there twice."""

import signal
from pathlib import Path

import pytest

from tests.crash.feeding import copied, fed_apart, told
from tests.crash.points import Reached
from tests.crash.rows import OF_A_FEED
from tests.rarely import rare

pytestmark = pytest.mark.spark
FEW = ("within ingest plans", "after ingest events", "before plan decisions")


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", [p if p in FEW else rare(p) for p in OF_A_FEED])
def test_a_feed_that_is_killed_goes_on(fed: Path, tmp_path: Path, point: str, nth: int) -> None:
    whole, killed = copied(fed, tmp_path / "whole"), copied(fed, tmp_path / "killed")
    whole.feed().catch_up()
    at = {"PENSTOCK_CRASH_AT": f"{point}:{nth}"}
    assert fed_apart(killed.home, tmp_path / "trace", **at) == -signal.SIGKILL
    killed.feed().catch_up()
    assert told(killed) == told(whole)
    origins = {row for row in told(whole)["blocks"] if "'revision'" in row}
    assert origins, "something was revised"


def test_these_are_all_points_that_a_feed_reaches(feeding: list[Reached]) -> None:
    reached = {
        each.point for each in feeding if not each.point.startswith(("# ", "first", "slack"))
    }
    assert reached == {*OF_A_FEED}
