"""How many nodes a cluster should have: pure decisions over a record of its load.

Source: S2J's dynamic worker counts (tau0 < tau* < tau1 <= tau2; overloaded for 30 s: scale out,
idle for 5 minutes: scale in, either way to where tau would be tau*). All instants and spans are
``int`` microseconds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

SECOND = 1_000_000
EVERY = 5 * SECOND
"""Between two looks at the load: a look tells of the time before it."""


class Rule(StrEnum):
    """Why a cluster is scaled."""

    OUT = "out"
    IN = "in"
    LEAST = "least"
    MOST = "most"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Rules:
    """When to scale, and how far.

    Attributes:
        idle, target, overloaded: tau0, tau* and tau2, shares of 1.
        out_after, in_after: how long tau must have been above tau2, below tau0.
        cool_down: after a change, until the next.
        least, most: nodes.
        gap: longest time between two looks at the load that still tell of the time between them.
    """

    idle: float
    target: float
    overloaded: float
    out_after: int
    in_after: int
    cool_down: int
    least: int
    most: int
    gap: int = 3 * EVERY


@dataclass(frozen=True, slots=True)
class Tau:
    """How busy the nodes of a cluster were, all together, just before an instant.

    Attributes:
        at: the instant.
        tau: busy time of tasks over time of cores.
    """

    at: int
    tau: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What should be done.

    Attributes:
        nodes: so many there should be.
        rule: by which rule.
        reason: in words, with the figures.
    """

    nodes: int
    rule: Rule
    reason: str


def decide(
    taus: Sequence[Tau], nodes: int, rules: Rules, now: int, changed: int | None
) -> Verdict | None:
    """Whether to scale now.

    Args:
        taus: the load, the oldest first.
        nodes: that there are.
        rules: of the cluster.
        now: the present instant.
        changed: when the number of nodes last changed; none: never.

    Returns:
        None: all is well, or it is too early to say.
    """
    if nodes < rules.least:
        said = f"{nodes} nodes, and {rules.least} are the least"
        return Verdict(rules.least, Rule.LEAST, said)
    if nodes > rules.most:
        return Verdict(rules.most, Rule.MOST, f"{nodes} nodes, and {rules.most} are the most")
    if changed is not None and now - changed < rules.cool_down:
        return None
    since = [tau for tau in taus if changed is None or tau.at > changed]
    if not since or now - since[-1].at > rules.gap:
        return None
    return _out(since, nodes, rules) or _in(since, nodes, rules)


def _out(taus: Sequence[Tau], nodes: int, rules: Rules) -> Verdict | None:
    held = _newest(taus, rules.gap, lambda tau: tau > rules.overloaded)
    if not held or (span := _span(held)) <= rules.out_after:
        return None
    mean = _mean(held)
    wanted = min(rules.most, wanted_nodes(nodes, mean, rules.target))
    if wanted <= nodes:
        return None
    said = f"busy {mean:.0%} for {span // SECOND} s, above {rules.overloaded:.0%}"
    return Verdict(wanted, Rule.OUT, f"{said}: {nodes} nodes become {wanted}")


def _in(taus: Sequence[Tau], nodes: int, rules: Rules) -> Verdict | None:
    held = _newest(taus, rules.gap, lambda tau: tau < rules.idle)
    if not held or (span := _span(held)) <= rules.in_after:
        return None
    mean = _mean(held)
    wanted = max(rules.least, wanted_nodes(nodes, mean, rules.target))
    if wanted >= nodes:
        return None
    said = f"busy {mean:.0%} for {span // SECOND} s, below {rules.idle:.0%}"
    return Verdict(wanted, Rule.IN, f"{said}: {nodes} nodes become {wanted}")


def wanted_nodes(nodes: int, tau: float, target: float) -> int:
    """How many nodes bring a load to the target: n* = ceil(n tau / tau*), at least one."""
    return max(1, math.ceil(nodes * tau / target - 1e-9))


def _newest(taus: Sequence[Tau], gap: int, holds: Callable[[float], bool]) -> Sequence[Tau]:
    """The newest looks, without a gap, for which something holds."""
    first = len(taus)
    while first and holds(taus[first - 1].tau):
        if first < len(taus) and taus[first].at - taus[first - 1].at > gap:
            break
        first -= 1
    return taus[first:]


def _mean(taus: Sequence[Tau]) -> float:
    return sum(tau.tau for tau in taus) / len(taus)


def _span(taus: Sequence[Tau]) -> int:
    """The time that looks tell of, that before the first of them included."""
    return taus[-1].at - taus[0].at + EVERY
