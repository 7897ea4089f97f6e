"""S2J's rules on a clock that the tests turn: when nodes come and go, and how many."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.scaling import SECOND, Rule, Rules, Tau, decide, wanted_nodes

MINUTE = 60 * SECOND
RULES = Rules(
    idle=0.2, target=0.4, overloaded=0.82, out_after=30 * SECOND, in_after=5 * MINUTE,
    cool_down=MINUTE, least=1, most=8,
)  # fmt: skip


def looks(*spans: tuple[int, float], every: int = 5) -> list[Tau]:
    """Looks every few seconds: each span is so many seconds of one tau."""
    found, at = [], 0
    for seconds, tau in spans:
        for _ in range(0, seconds, every):
            at += every * SECOND
            found.append(Tau(at, tau))
    return found


def life(taus: list[Tau], nodes: int, rules: Rules = RULES) -> list[tuple[int, int]]:
    """What is decided, (second, nodes), where the nodes there are share the load."""
    decided, changed, seen, work = [], None, [], nodes
    for look in taus:
        seen.append(Tau(look.at, min(1.0, look.tau * work / nodes)))
        verdict = decide(seen, nodes, rules, look.at, changed)
        if verdict is not None:
            nodes, changed = verdict.nodes, look.at
            decided.append((look.at // SECOND, nodes))
    return decided


def test_the_case_study_of_s2j() -> None:
    """A short spike is absorbed, sustained load brings four nodes, calm frees four."""
    day = looks((60, 0.5), (25, 0.95), (60, 0.5), (60, 0.92), (400, 0.4))
    assert life(day, 3) == [(180, 7), (510, 3)]


def test_as_long_as_the_hold_time_is_not_longer() -> None:
    assert decide(looks((30, 0.9)), 2, RULES, 30 * SECOND, None) is None
    verdict = decide(looks((35, 0.9)), 2, RULES, 35 * SECOND, None)
    assert verdict is not None
    assert (verdict.nodes, verdict.rule) == (5, Rule.OUT)
    assert verdict.reason == "busy 90% for 35 s, above 82%: 2 nodes become 5"


@pytest.mark.parametrize(("tau", "due"), [(0.82, False), (0.83, True), (1.0, True)])
def test_at_the_bound_nothing_is_overloaded(tau: float, due: bool) -> None:
    assert (decide(looks((60, tau)), 2, RULES, 60 * SECOND, None) is not None) is due


def test_one_calm_look_begins_the_hold_time_anew() -> None:
    taus = looks((25, 0.9), (5, 0.5), (30, 0.9))
    assert decide(taus, 2, RULES, taus[-1].at, None) is None


def test_what_was_not_looked_at_is_not_held() -> None:
    taus = [Tau(at * SECOND, 0.9) for at in (5, 10, 15, 60, 65)]
    assert decide(taus, 2, RULES, 65 * SECOND, None) is None, "45 s without a look"


def test_an_old_look_says_nothing_of_now() -> None:
    taus = looks((60, 0.9))
    assert decide(taus, 2, RULES, 76 * SECOND, None) is None
    assert decide(taus, 2, RULES, 75 * SECOND, None) is not None


def test_the_cool_down_and_what_was_before_a_change_do_not_count() -> None:
    taus = looks((120, 0.9))
    now = taus[-1].at
    assert decide(taus, 2, RULES, now, now - MINUTE + 1) is None
    assert decide(taus, 2, RULES, now, now - MINUTE) is not None
    long = replace(RULES, out_after=2 * MINUTE)
    assert decide(taus, 2, long, now, now - MINUTE) is None


def test_no_more_than_there_may_be_and_no_less() -> None:
    busy, idle = looks((60, 1.0)), looks((600, 0.01))
    most = decide(busy, 6, RULES, busy[-1].at, None)
    assert most is not None
    assert most.nodes == RULES.most
    assert decide(busy, 8, RULES, busy[-1].at, None) is None, "none is free"
    least = decide(idle, 6, replace(RULES, least=2), idle[-1].at, None)
    assert least is not None
    assert least.nodes == 2
    assert decide(idle, 1, RULES, idle[-1].at, None) is None


def test_the_bounds_hold_without_a_look_and_without_a_cool_down() -> None:
    few = decide([], 1, replace(RULES, least=3), 0, 0)
    many = decide([], 12, RULES, 0, 0)
    assert few is not None
    assert many is not None
    assert (few.nodes, few.rule) == (3, Rule.LEAST)
    assert (many.nodes, many.rule) == (8, Rule.MOST)


@given(nodes=st.integers(1, 50), tau=st.floats(0, 1), target=st.floats(0.1, 0.9))
def test_so_many_nodes_reach_the_target_and_one_less_does_not(
    nodes: int, tau: float, target: float
) -> None:
    wanted = wanted_nodes(nodes, tau, target)
    assert wanted * target >= nodes * tau - 1e-6
    assert wanted == 1 or (wanted - 1) * target < nodes * tau


@given(
    taus=st.lists(st.floats(0, 1), min_size=1, max_size=80),
    nodes=st.integers(1, 8),
    work=st.integers(1, 8),
)
def test_any_life_keeps_to_bounds_and_cool_down(taus: list[float], nodes: int, work: int) -> None:
    rules = replace(RULES, in_after=40 * SECOND)
    day = [Tau((n + 1) * 5 * SECOND, tau) for n, tau in enumerate(taus)]
    decided = life(day, nodes, rules)
    assert all(rules.least <= n <= rules.most for _, n in decided)
    assert all(b - a >= 60 for (a, _), (b, _) in pairwise(decided))
    assert all(a != b for (_, a), (_, b) in pairwise(decided))
