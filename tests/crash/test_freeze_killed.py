"""Maintenance that is killed at any point of a freeze, or of a merge, goes on."""

import signal
from pathlib import Path

import pytest

from penstock.lake.log.freezes import frozen
from tests.crash.points import Reached
from tests.crash.rows import OF_A_FREEZE, POINTS
from tests.lakes import Lake
from tests.rarely import rare
from tests.spark.freezing import copied, maintained, maintained_apart, rows_of, told

pytestmark = pytest.mark.spark
FEW = ("within freeze freezes", "within thin events", "before thin control", "within merge merged")


@pytest.mark.parametrize("point", [p if p in FEW else rare(p) for p in OF_A_FREEZE])
def test_maintenance_that_is_killed_goes_on(due: Lake, tmp_path: Path, point: str) -> None:
    whole, killed = copied(due, tmp_path / "whole"), copied(due, tmp_path / "killed")
    assert maintained(whole).endswith(" are frozen")
    at = {"PENSTOCK_CRASH_AT": f"{point}:1"}
    assert maintained_apart(killed.home, tmp_path / "trace", **at) == -signal.SIGKILL
    maintained(killed)
    maintained(killed)
    assert told(killed) == told(whole)
    assert frozen(killed.tables) == frozen(whole.tables)
    assert len(rows_of(killed, "events")) < len(rows_of(due, "events"))
    assert told(whole)[2][1] == {"rows", "merged"}, "something is merged"


def test_these_are_all_points_that_a_freeze_adds(freezing: list[Reached]) -> None:
    assert {each.point for each in freezing} - POINTS.keys() == {*OF_A_FREEZE}
