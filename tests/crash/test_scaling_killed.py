"""A scaling that is killed at any point is seen through by whoever does it again."""

import signal
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.cluster.scalings import DONE, Scalings
from penstock.runtime.cluster.state import ClusterFiles
from tests.crash.points import Reached
from tests.crash.rows import OF_A_SCALING, POINTS
from tests.crash.scaling import RUN, WANTED, scaled_apart
from tests.rarely import rare

FEW = ("after scaling scalings", "before status wanted.json", "within load load")


@pytest.mark.parametrize("point", [p if p in FEW else rare(p) for p in OF_A_SCALING])
@pytest.mark.parametrize("time", [1, rare(2)])
def test_a_scaling_that_is_killed_is_seen_through(tmp_path: Path, point: str, time: int) -> None:
    home, trace = tmp_path / "home", tmp_path / "trace"
    code = scaled_apart(home, trace, PENSTOCK_CRASH_AT=f"{point}:{time}")
    assert code in {-signal.SIGKILL, 0}, "a point may be reached only once"
    assert time > 1 or code != 0
    assert scaled_apart(home, tmp_path / "again") == 0
    assert scaled_apart(home, tmp_path / "once-more") == 0
    files = ClusterFiles(home)
    assert files.wanted() == WANTED
    settings = Settings(home=home)
    (only,) = Scalings(settings.lake_uri, SystemClock()).all()
    assert (only.state, only.run_id, only.nodes, only.found) == (DONE, RUN, 1, WANTED)


def test_these_are_all_points_that_a_scaling_adds(scaling: list[Reached]) -> None:
    assert {each.point for each in scaling} - POINTS.keys() == {*OF_A_SCALING}
