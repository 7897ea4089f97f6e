"""Killed with -9 at every point, by every seed: nothing is lost, doubled or falsely accused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.life import Life
from tests.crash.matrix import Row
from tests.crash.rows import ROWS, SEEDS, Kept

pytestmark = [pytest.mark.spark, pytest.mark.all]


@pytest.mark.parametrize(("seed", "point"), [(s, p) for s in SEEDS for p in ROWS])
def test_killed_anywhere_a_life_ends_as_the_undisturbed_one(
    quick: SparkSession,
    lives: Callable[[int], Life],
    kept: Kept,
    tmp_path: Path,
    seed: int,
    point: str,
) -> None:
    kept.or_else(point, seed, lambda: Row(lives(seed), point, tmp_path / "row", quick).live())
