"""Which nodes come and which go, and a supervisor that brings it about whatever happens."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.nodes import DRAINING, REGISTERED, STARTING, NodeState
from penstock.runtime.cluster.pool import difference, name_of
from penstock.runtime.cluster.state import ClusterFiles
from penstock.runtime.cluster.supervisor import ClusterSupervisor


def test_the_lowest_free_numbers_come_and_the_highest_go() -> None:
    assert difference(3, ["node2"], []) == (["node1", "node3"], [])
    assert difference(1, ["node1", "node2", "node10"], []) == ([], ["node10", "node2"])
    assert difference(2, ["node1"], ["node2"]) == (["node3"], []), "a name is not given twice"
    assert difference(0, [], []) == ([], [])


@given(
    wanted=st.integers(0, 12),
    present=st.sets(st.integers(1, 15)),
    draining=st.sets(st.integers(1, 15)),
)
def test_any_difference_leads_to_as_many_as_wanted(
    wanted: int, present: set[int], draining: set[int]
) -> None:
    stays, goes = [name_of(n) for n in present - draining], [name_of(n) for n in draining]
    add, drain = difference(wanted, stays, goes)
    assert len({*stays, *add} - {*drain}) == wanted
    assert not {*add} & {*stays, *goes}
    assert {*drain} <= {*stays}
    assert not (add and drain)


@dataclass
class FakePool:
    """Nodes that are registered at the second look, and gone at the second look after a drain."""

    url: str = "spark://here:1"
    states: dict[str, str] = field(default_factory=dict)
    closed: bool = False

    def open(self) -> None:
        self.closed = False

    def tend(self) -> None:
        self.states = {
            name: REGISTERED if state == STARTING else state
            for name, state in self.states.items()
            if state != DRAINING
        }

    def nodes(self) -> Sequence[NodeState]:
        return [NodeState(name, "h", state) for name, state in sorted(self.states.items())]

    def add(self, name: str) -> None:
        assert name not in self.states
        self.states[name] = STARTING

    def drain(self, name: str) -> None:
        assert self.states[name] != DRAINING
        self.states[name] = DRAINING

    def close(self) -> None:
        self.closed = True


@given(wishes=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=8))
def test_after_any_wishes_there_are_as_many_as_the_last_one_says(
    tmp_path_factory: object, wishes: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("home")  # type: ignore[attr-defined]
    files, pool = ClusterFiles(folder), FakePool()
    supervisor = ClusterSupervisor(files, pool)
    for nodes, looks in wishes:
        files.want(nodes)
        for _ in range(looks):
            supervisor.look()
    for _ in range(3):
        supervisor.look()
    assert list(pool.states.values()) == [REGISTERED] * wishes[-1][0]


def test_what_is_published_is_what_is_read_and_only_while_somebody_lives(tmp_path: Path) -> None:
    files, pool = ClusterFiles(tmp_path), FakePool()
    files.want(2)
    supervisor = ClusterSupervisor(files, pool)
    supervisor.look()
    supervisor.look()
    told = files.read()
    assert not told.alive
    assert told.nodes == (), "nobody holds the lock"
    assert told.wanted == 2
    assert told.url == pool.url


def test_a_supervisor_closes_its_pool_at_the_end(tmp_path: Path) -> None:
    pool = FakePool()
    supervisor = ClusterSupervisor(ClusterFiles(tmp_path), pool)
    supervisor.stop.set()
    supervisor.run()
    assert pool.closed
