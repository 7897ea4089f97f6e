"""Scaling step by step: decided once, acted upon, seen through, whatever is killed in between."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from penstock.config.cluster import Cluster, Nodes
from penstock.config.settings import Settings
from penstock.control.nodes import REGISTERED, STARTING, NodeState
from penstock.core.errors import ConfigError, TransientError
from penstock.core.window import micros
from penstock.lake.cluster.load import Load, LoadTable, forget, loads, taus
from penstock.lake.cluster.scalings import DONE, FAILED
from penstock.lake.storage.commit import ConflictError
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster.scaler import LEFT, LoadReader, Scaler
from penstock.runtime.cluster.state import ClusterFiles
from tests.doubles import FixedClock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def scaler(tmp_path: Path) -> Iterator[Scaler]:
    """Of a cluster with a supervisor that only holds its lock, and two nodes."""
    settings = Settings(home=tmp_path, cluster=tmp_path / "cluster.yaml")
    cluster = Cluster(nodes=Nodes(start=2, least=1, most=6))
    made = Scaler(settings, cluster, FixedClock(NOW), ["a", "b"])
    made.files.want(2)
    tell(made.files, 2)
    held = os.open(made.files.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    yield made
    os.close(held)


def tell(files: ClusterFiles, registered: int, starting: int = 0) -> None:
    states = [REGISTERED] * registered + [STARTING] * starting
    nodes = [NodeState(f"node{n}", f"h{n}", state) for n, state in enumerate(states, 1)]
    files.publish("spark://here:1", nodes)


def load(pipeline: str, lake: str, seconds: int, shares: dict[str, float]) -> None:
    """Looks every 5 s until now: so many seconds of some busy shares, one core a node."""
    table = LoadTable(Tables(lake, pipeline))
    for ago in range(seconds, -1, -5):
        at = micros(NOW - timedelta(seconds=ago))
        rows = [Load(at, 5.0, n, n, 1, 5.0 * share, 0) for n, share in shares.items()]
        whole = Load(at, 5.0, None, None, len(rows), sum(r.busy for r in rows), 0, 9.0, 9.0, 0, 0.0)
        table.append([*rows, whole])


def test_the_load_of_several_streams_is_that_of_their_nodes(scaler: Scaler) -> None:
    lake = scaler.settings.lake_uri
    load("a", lake, 10, {"node1": 0.5, "node2": 0.3})
    load("b", lake, 10, {"node1": 0.25})
    found = taus([loads(Tables(lake, name), NOW - timedelta(minutes=1)) for name in "ab"])
    assert [round(each.tau, 9) for each in found] == [(0.5 + 0.3 + 0.25) / 2] * 3


def test_a_rule_that_holds_is_decided_acted_upon_and_seen_through(scaler: Scaler) -> None:
    load("a", scaler.settings.lake_uri, 60, {"node1": 0.95, "node2": 0.85})
    assert LoadReader(scaler).verdict() == scaler.due()
    made = scaler.decide("run1", scaler.observe(), None, "")
    assert made is not None
    assert (made.number, made.rule, made.nodes, made.wanted) == (0, "out", 2, 5)
    assert made.inputs["registered"] == 2
    assert scaler.files.wanted() == 2, "a decision is a row before it acts"
    scaler.act(made)
    assert scaler.files.wanted() == 5
    tell(scaler.files, 5)
    ended = scaler.verify(made)
    assert (ended.state, ended.found) == (DONE, 5)
    assert [each.state for each in scaler.scalings.all()] == [DONE]
    assert scaler.due() is None, "cool-down"


def test_every_step_may_be_done_twice(scaler: Scaler) -> None:
    first = scaler.decide("run1", {}, 4, "more cabs")
    assert first == scaler.decide("run1", {}, 4, "more cabs")
    assert first is not None
    scaler.act(first)
    scaler.act(first)
    tell(scaler.files, 4)
    ended = scaler.verify(first)
    assert scaler.verify(ended) == ended
    scaler.verify(first)
    assert len(scaler.scalings.all()) == 1
    scaler.files.want(1)
    again = scaler.decide("run1", {}, 4, "more cabs")
    assert again is not None
    scaler.act(again)
    assert scaler.files.wanted() == 1, "a decision that is over acts no more"


def test_one_scaling_at_a_time(scaler: Scaler) -> None:
    scaler.decide("run1", {}, 4, "first")
    with pytest.raises(ConflictError, match=r"scaling 0 .*first; run run1.* is not over"):
        scaler.decide("run2", {}, 5, "second")


def test_of_two_that_decide_at_the_same_moment_one_wins(scaler: Scaler) -> None:
    tell(scaler.files, 2)
    first = scaler.decide("run0", {}, 3, "made first")
    assert first is not None
    scaler.act(first)
    tell(scaler.files, 3)
    scaler.verify(first)

    def one(number: int) -> None:
        mine = Scaler(scaler.settings, scaler.cluster, scaler.clock, [])
        with suppress(ConflictError):
            mine.decide(f"run{number}", {}, 3 + number, "")

    threads = [Thread(target=one, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = scaler.scalings.all()
    assert len(found) == 2
    assert found[-1].number == 1


def test_nodes_that_do_not_come_are_a_row_and_an_error(scaler: Scaler) -> None:
    short = scaler.cluster.scale.model_copy(update={"come": timedelta(seconds=0.3)})
    scaler.cluster = scaler.cluster.model_copy(update={"scale": short})
    made = scaler.decide("run1", {}, 3, "")
    assert made is not None
    scaler.act(made)
    tell(scaler.files, 2, starting=1)
    with pytest.raises(TransientError, match=r"3 nodes are wanted and 2 are registered .*node3"):
        scaler.verify(made)
    last = scaler.scalings.all()[-1]
    assert (last.state, last.found) == (FAILED, 2)
    assert "node3 starting" in last.reason
    assert scaler.decide("run2", {}, 4, "again") is not None


def test_a_decision_that_nobody_sees_through_is_not_in_the_way_for_ever(scaler: Scaler) -> None:
    scaler.decide("killed", {}, 4, "")
    scale = scaler.cluster.scale
    later = FixedClock(NOW + max(scale.come, 2 * scale.drain) + LEFT + timedelta(seconds=1))
    then = Scaler(scaler.settings, scaler.cluster, later, [])
    made = then.decide("next", {}, 3, "")
    assert made is not None
    assert [each.state for each in then.scalings.all()] == [FAILED, "decided"]
    assert "nobody saw it through" in then.scalings.all()[0].reason


def test_there_may_not_be_more_than_the_file_says(scaler: Scaler) -> None:
    with pytest.raises(ConfigError, match="7 nodes: there may be 0 to 6"):
        scaler.decide("run1", {}, 7, "")
    assert scaler.decide("run1", {}, 2, "") is None, "there are as many"


def test_a_cluster_that_is_down_is_said(scaler: Scaler, tmp_path: Path) -> None:
    other = Scaler(scaler.settings.model_copy(update={"home": tmp_path / "none"}),
                   scaler.cluster, scaler.clock, [])  # fmt: skip
    with pytest.raises(TransientError, match="penstock cluster up"):
        other.observe()


def test_old_load_is_forgotten(scaler: Scaler) -> None:
    lake = scaler.settings.lake_uri
    load("a", lake, 20, {"node1": 0.5})
    tables = Tables(lake, "a")
    assert forget(tables, NOW + timedelta(days=6)) == 0
    assert forget(tables, NOW + timedelta(days=7) - timedelta(seconds=9)) == 2 * 3
    assert len(loads(tables, NOW - timedelta(days=1))) == 2 * 2
    assert forget(Tables(lake, "b"), NOW + timedelta(days=9)) == 0
