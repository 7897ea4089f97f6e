"""How many tasks a step is cut into, where the load decides."""

import pytest

from penstock.core.parallelism import AUTO, HELD, UNSAID, Look, decide, joint


def looks(*found: tuple[float, float | None], used: float = 0.5) -> list[Look]:
    return [Look(arrives, done, used) for arrives, done in found]


def test_one_more_while_it_is_overloaded_and_a_core_is_free() -> None:
    verdict = decide(looks((900.0, 800.0)), 2, 4)
    assert verdict is not None
    assert verdict.tasks == 3
    assert verdict.reason == "900 records/s arrive, 2 do 800, and 50% of the processor are in use"


@pytest.mark.parametrize(
    ("arrives", "done", "used", "tasks"),
    [(900.0, 800.0, 0.75, 2), (900.0, 800.0, 0.5, 4), (800.0, 800.0, 0.5, 2), (9.0, None, 0.5, 2)],
    ids=["no core is free", "no more are there", "it keeps up", "it had nothing to do"],
)
def test_no_more(arrives: float, done: float | None, used: float, tasks: int) -> None:
    assert decide(looks((arrives, done), used=used), tasks, 4) is None


def test_one_less_once_fewer_would_have_done_for_long_enough() -> None:
    quiet = looks(*[(500.0, 1_300.0)] * HELD)
    verdict = decide(quiet, 2, 4)
    assert verdict is not None
    assert verdict.tasks == 1
    assert verdict.reason == "no more than 500 records/s arrived in 30 s: 1 would do"
    assert decide(quiet[1:], 2, 4) is None, "not for long enough"
    assert decide([*looks((540.0, 1_300.0)), *quiet[1:]], 2, 4) is None, "once it would not have"
    assert decide(quiet, 1, 4) is None, "one is the least"
    idle = decide(looks(*[(0.0, None)] * HELD), 3, 4)
    assert idle is not None
    assert idle.tasks == 2


def test_nothing_is_decided_before_a_look() -> None:
    assert decide([], 2, 4) is None


def simulated(arrives: list[float], each: float, most: int) -> list[int]:
    """Tasks over looks: one does so many records a second, and several so many more."""
    tasks, seen, found = most, list[Look](), list[int]()
    for now in arrives:
        done = tasks * each
        seen.append(Look(now, done, min(now, done) / (most * each) * 0.7))
        if (verdict := decide(seen, tasks, most)) is not None:
            tasks, seen = verdict.tasks, []
        found.append(tasks)
    return found


def test_it_follows_the_load_and_does_not_swing() -> None:
    found = simulated([3_000.0] * 40 + [100.0] * 40 + [3_000.0] * 40, 1_000.0, 8)
    assert found[39] == 4, "3 would do, but not with what is kept in reserve"
    assert found[79] == 1
    assert found[119] == 3, "one more at a time, until it keeps up"
    assert all(tasks == 3 for tasks in found[90:]), "and stays there"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(2, 3, 3), (AUTO, 3, 3), (UNSAID, 3, 3), (AUTO, UNSAID, AUTO), (UNSAID, UNSAID, UNSAID),
     (AUTO, AUTO, AUTO)],
)  # fmt: skip
def test_who_share_a_step_get_what_either_needs(one: int, other: int, both: int) -> None:
    assert joint(one, other) == joint(other, one) == both
