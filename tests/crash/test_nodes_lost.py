"""On a cluster, at a point of a task its node is lost, or its driver: the life ends the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clusters import TestCluster, a_cluster
from tests.crash.life import Life
from tests.crash.nodes import NODES, OnNodes
from tests.crash.rows import ON_NODES, Kept, named

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with a_cluster(tmp_path_factory.mktemp("nodes"), NODES) as found:
        yield found


@pytest.mark.all
@pytest.mark.parametrize(("point", "lost"), ON_NODES)
def test_lost_anywhere_a_life_ends_as_the_undisturbed_one(
    spark: SparkSession,
    lives: Callable[[int], Life],
    cluster: TestCluster,
    tmp_path: Path,
    kept: Kept,
    point: str,
    lost: str,
) -> None:
    row = OnNodes(lives(0), point, tmp_path / "row", spark, cluster, lost)
    kept.or_else(named(point, lost), 0, row.live)
