"""What an audit goes on from, and what makes it worthless."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.window import BEGINNING, micros
from penstock.lake.history.position import BACKFILL, DONE, LATE, PLANNED, Position, position
from penstock.lake.proof.audits import record_audit
from penstock.lake.proof.footing import (
    TOTALS,
    Footing,
    contradicted,
    decisions_digest,
    epoch_of,
    read_footing,
    unfinished,
)
from penstock.lake.proof.waypoint import Waypoint
from tests.doubles import NOON
from tests.lakes import Lake, arrive, fed


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = fed(tmp_path)
    for _ in range(2):
        arrive(found)
        found.ingest()
        found.query().run()
    return found


def opened(lake: Lake) -> Position:
    at = position(lake.tables, lake.step)
    assert at is not None
    return at


def footing(lake: Lake) -> Footing:
    """Of an audit at the newest position."""
    at = opened(lake)
    head = Waypoint(at.sealed.block, at.sealed.seq, 5, at.sealed.state, "text")
    digest = decisions_digest(lake.tables, lake.step, head.block)
    return Footing(epoch_of(at.epoch), digest, head, BEGINNING, dict.fromkeys(TOTALS, 3), 4, 6,
                   [2, 5], replace(head, block=1, seq=3), None, 9)  # fmt: skip


def recorded(lake: Lake, number: int, passed: bool, **columns: Any) -> None:
    row = {"step": lake.name, "through_seq": 1, "answers_compared": 1} | columns
    at = NOON + timedelta(hours=number)
    record_audit(lake.tables, [lake.step], f"r{number}", at, [row], passed, [])


def test_the_newest_green_audit_is_gone_on_from(lake: Lake) -> None:
    assert read_footing(lake.tables, lake.step) is None
    one = footing(lake)
    recorded(lake, 1, True, everything=True, footing=replace(one, since=1).to_text())
    recorded(lake, 2, True, everything=False, footing=one.to_text())
    recorded(lake, 3, False, everything=False, footing=replace(one, since=3).to_text())
    recorded(lake, 4, True, answers_compared=0, footing=replace(one, since=4).to_text())
    found = read_footing(lake.tables, lake.step)
    audited_at = micros(NOON + timedelta(hours=2))
    assert found == replace(one, run_id="r2", audited_at=audited_at)


def test_after_a_red_audit_of_everything_there_is_none(lake: Lake) -> None:
    recorded(lake, 1, True, everything=False, footing=footing(lake).to_text())
    recorded(lake, 2, False, everything=True, footing=None)
    recorded(lake, 3, False, everything=False, footing=None)
    assert read_footing(lake.tables, lake.step) is None
    recorded(lake, 4, True, everything=True, footing=footing(lake).to_text())
    assert read_footing(lake.tables, lake.step) is not None


def test_a_green_audit_that_left_none_hides_the_one_before(lake: Lake) -> None:
    recorded(lake, 1, True, everything=False, footing=footing(lake).to_text())
    recorded(lake, 2, True, everything=True, footing=None)
    assert read_footing(lake.tables, lake.step) is None


def test_it_carries_what_comes_later(lake: Lake) -> None:
    one = footing(lake)
    assert contradicted(one, lake.tables, lake.step, opened(lake), []) == ""
    arrive(lake)
    lake.ingest()
    lake.query().run()
    assert opened(lake).sealed.seq > one.head.seq
    plans = [{"plan": 7, "reason": LATE}, {"plan": 6, "reason": BACKFILL}]
    assert contradicted(one, lake.tables, lake.step, opened(lake), plans) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda f: replace(f, epoch=[1]), "the step began anew"),
        (lambda f: replace(f, decisions="x"), "its slack or shedding was decided otherwise"),
        (lambda f: replace(f, head=replace(f.head, block=1)), "its position is not sealed"),
        (lambda f: replace(f, head=replace(f.head, seq=0)), "its position is not sealed"),
        (lambda f: replace(f, plan=3), "its history was answered since"),
        (lambda f: replace(f, unfinished=[4]), "its history was answered since"),
    ],
)
def test_what_contradicts_it(lake: Lake, change: Callable[[Footing], Footing], why: str) -> None:
    plans = [{"plan": 4, "reason": BACKFILL}]
    found = contradicted(change(footing(lake)), lake.tables, lake.step, opened(lake), plans)
    assert found.startswith(why)


def test_plans_that_are_not_done_are_kept_in_mind(lake: Lake) -> None:
    said = [(5, DONE), (7, PLANNED), (8, PLANNED), (8, DONE)]
    rows = [{"plan": plan, "state": state} for plan, state in said]
    assert unfinished(rows, footing(lake)) == (8, [2, 7])
    assert unfinished([], None) == (0, [])
    assert unfinished([], footing(lake)) == (6, [2, 5])
