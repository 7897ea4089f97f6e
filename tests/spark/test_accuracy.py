"""Mars' accuracy test, at sizes that fit into a test run."""

from pathlib import Path

import pytest

from tests.accuracy import Loss, accuracy
from tests.clusters import a_cluster
from tests.hosts import AVAILABLE, REMEDY, hosts

pytestmark = pytest.mark.spark

ORDERS = {
    "one after the other": [Loss(1, 0.2, 0.4), Loss(2, 0.45, 0.65), Loss(3, 0.7)],
    "two at once, then a third": [Loss(4, 0.3, 0.7), Loss(2, 0.3), Loss(1, 0.5, 0.8)],
    "all three at once": [Loss(2, 0.4, 0.6), Loss(3, 0.4, 0.6), Loss(4, 0.4, 0.6)],
}


@pytest.mark.all  # test_on_a_cluster.py loses a node in every run
def test_a_node_is_killed_and_every_record_is_counted_once(tmp_path: Path) -> None:
    with a_cluster(tmp_path, 2) as cluster:
        found = accuracy(tmp_path, cluster, 300_000, [Loss(1, 0.2)], None, share_late=0.0)
    assert found.counted == found.records
    assert found.wrong == 0
    assert found.answers > 1_000


@pytest.mark.all
@pytest.mark.skipif(not AVAILABLE, reason=REMEDY)
@pytest.mark.parametrize("order", ORDERS)
def test_three_of_four_hosts_are_cut_off_and_every_record_is_counted_once(
    tmp_path: Path, order: str
) -> None:
    with hosts(4) as four, a_cluster(tmp_path, 4, four) as cluster:
        found = accuracy(tmp_path, cluster, 4_000_000, ORDERS[order], four)
    assert found.counted == found.records
    assert found.wrong == 0
