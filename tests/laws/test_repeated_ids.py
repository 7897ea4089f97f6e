"""An id is repeated within the horizon of an accepted arrival of it, for any door that asks."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from tests.gates import Gate
from tests.streams import at, write_jsonl

pytestmark = pytest.mark.law
COLUMNS = {"site": "string", "delay": "double", "bags": "long", "uid": "string"}
HORIZON = timedelta(hours=1)
Sent = Sequence[tuple[str, int | None]]
"""Ids with their arrival, minutes after midnight; none: it carries none."""


def gate_of(home: Path) -> Gate:
    again = {"column": "uid", "horizon": "PT1H"}
    early = "2000-01-01T00:00:00Z"
    return Gate(home, "jsonl", columns=COLUMNS, arrival_time="came", not_before=early, id=again)


def expected(files: Sequence[Sent], gate: Gate) -> list[int]:
    """Numbers of the repeated ones, by the words of the law alone."""
    accepted: list[tuple[str, object]] = []
    found = []
    for seq, (uid, minute) in enumerate(record for sent in files for record in sent):
        came = gate.clock.now() if minute is None else at("00:00") + timedelta(minutes=minute)
        if any(u == uid and abs(came - a) <= HORIZON for u, a in accepted):  # type: ignore[operator]
            found.append(seq)
        else:
            accepted.append((uid, came))
    return found


def send(gate: Gate, name: str, sent: Sent) -> None:
    early = "2023-12-31T00:00:00Z"
    write_jsonl(gate.home / "live" / f"{name}.jsonl", [
        {"event_time": early, "site": "x", "uid": uid}
        | ({} if minute is None else {"came": at("00:00") + timedelta(minutes=minute)})
        for uid, minute in sent
    ])  # fmt: skip


def test_a_record_without_an_arrival_refuses_none_that_arrived_long_before(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    for name, sent in enumerate([[("a", None)], [("a", 0), ("a", 30), ("a", None)]]):
        send(gate, str(name), sent)
        gate.take()
    assert [r["arrival_seq"] for r in gate.rows("quarantine")] == [2, 3]


def test_an_older_arrival_of_the_same_id_is_repeated_within_the_horizon(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    for name, sent in enumerate([[("a", 600)], [("a", 570)], [("a", 480), ("a", 530)]]):
        send(gate, str(name), sent)
        gate.take()
    assert [r["arrival_seq"] for r in gate.rows("quarantine")] == [1, 3]


RECORD = st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 300))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=st.lists(st.lists(RECORD, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_running_and_a_restarted_door_find_the_same_repeated_ids(
    files: list[Sent], tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = gate_of(tmp_path_factory.mktemp("running"))
    restarted = gate_of(tmp_path_factory.mktemp("restarted"))
    door = running.door()
    for number, sent in enumerate(files):
        for gate in (running, restarted):
            send(gate, str(number), sent)
        run_through(door, LIVE, None, None)
        restarted.take()
    for gate in (running, restarted):
        assert [r["arrival_seq"] for r in gate.rows("quarantine")] == expected(files, gate)
        assert {r["reason"] for r in gate.rows("quarantine")} <= {"repeated id"}
