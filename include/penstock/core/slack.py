"""Slack: how far the watermark stays behind the newest event time (law 3, law 7).

A watermark is a pure function of the log and of decisions: it moves with every live record, and
where a source is silent or ends. All instants and spans are ``int`` microseconds.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

from penstock.core.window import BEGINNING, FOREVER


class SlackPolicy(StrEnum):
    """How the speed layer chooses K."""

    FIXED = "fixed"  # as given (K-slack)
    MAX_DELAY = "max_delay"  # the greatest lateness so far (MP-K-slack)
    PD = "pd"  # a share of the greatest lateness, steered by coverage, as published (HPM)
    PD_FINAL = "pd_final"  # the same of final coverage, with gains from the delay of its loop
    QUANTILE = "quantile"  # what the last windows turned out to need, steered by violations


class BlockKind(StrEnum):
    """What a sealed block says about the source."""

    DATA = "data"  # records follow
    IDLE = "idle"  # a live source has been silent: the watermark may go to t_max
    END = "end"  # a bounded source is finished: every window closes
    MARK = "mark"  # of answers of a step: after it the watermark is as far as the step's


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a controller of K goes by.

    Attributes:
        threshold: coverage that a window needs.
        delta: share of windows that may have less.
        horizon: how long after its end a window is measured, event time, us; none: once hardly a
            record still comes (``pd_final``, ``quantile``).
        recent: how much event time is remembered, us; none: all, or the last windows.
        kp, kd: of ``pd``; HPM's values are the defaults. ``pd_final`` finds its own.
    """

    threshold: float
    delta: float
    horizon: int | None
    recent: int | None = None
    kp: float = 0.2
    kd: float = 4.0


@dataclass(frozen=True, slots=True)
class SlackSpec:
    """A policy with its parameters.

    Attributes:
        policy: which policy.
        span: K for ``fixed``; for ``max_delay`` the bound above which a record's lateness no
            longer counts (us); 0 for the others.
        tuning: of ``pd``, ``pd_final`` and ``quantile``.
    """

    policy: SlackPolicy
    span: int
    tuning: Tuning | None = None

    @property
    def longest(self) -> int:
        """How far behind the newest event time something may still be looked at, us.

        A controller has no bound on K: the time after which it measures a window stands for it,
        if it is given.
        """
        return self.span if self.tuning is None else self.tuning.horizon or 0

    def to_text(self) -> str:
        """One word for the decisions table; ``from_text`` reads it back."""
        content = str(self.span) if self.tuning is None else json.dumps(asdict(self.tuning))
        return f"{self.policy.value}:{content}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read back what ``to_text`` wrote."""
        policy, _, content = text.partition(":")
        if content.startswith("{"):
            return cls(SlackPolicy(policy), 0, Tuning(**json.loads(content)))
        return cls(SlackPolicy(policy), int(content))


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """What is told of one sealed block: enough for a fold, where no record of it matters alone.

    Attributes:
        number: the block's number.
        kind: data, idle, end or mark.
        live: false for history and revisions, which never move a watermark.
        last_seq: greatest ``arrival_seq`` up to and with this block; -1: none yet.
        t_max: greatest event time of its accepted records, us; none: no accepted record.
        lateness: greatest lateness among them, each behind the newest of its stream before it, us.
        stream: whose records they are; empty: of the only one.
        mark: of a mark, where the watermark goes, us; none: nowhere.
    """

    number: int
    kind: BlockKind
    live: bool
    last_seq: int
    t_max: int | None
    lateness: int
    stream: str = ""
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """Where a fold stands.

    Attributes:
        watermark: in force for the next record, us; never falls.
        t_max: greatest live event time so far, us.
        k: greatest lateness that counted so far, us.
        slack: K in force, us.
    """

    watermark: int = BEGINNING
    t_max: int = BEGINNING
    k: int = 0
    slack: int = 0

    @property
    def ended(self) -> bool:
        """Whether the source has ended: every window is closed."""
        return self.watermark >= FOREVER

    def after(self, event_time: int, lateness: int, spec: SlackSpec) -> Self:
        """The state after one more live record, under ``fixed`` or ``max_delay``.

        Args:
            event_time: of the record, us.
            lateness: behind the newest live event time before it, us.
            spec: the slack in force.

        Source: HPM, watermark = t_max - K; MP-K-slack for ``max_delay``.
        """
        fixed = spec.policy is SlackPolicy.FIXED
        t_max = max(self.t_max, event_time)
        k = max(self.k, lateness) if fixed or lateness <= spec.span else self.k
        slack = spec.span if fixed else k
        return type(self)(max(self.watermark, t_max - slack), t_max, k, slack)

    def marked(self, block: BlockSummary) -> Self:
        """The state after a mark."""
        t_max = self.t_max if block.t_max is None else max(self.t_max, block.t_max)
        mark = self.watermark if block.mark is None else max(self.watermark, block.mark)
        return replace(self, watermark=mark, t_max=t_max)

    def silent(self, kind: BlockKind) -> Self:
        """The state after a block without a live record."""
        if kind is BlockKind.END:
            return replace(self, watermark=FOREVER)
        if kind is BlockKind.IDLE:
            return replace(self, watermark=max(self.watermark, self.t_max))
        return self


@dataclass(frozen=True, slots=True)
class SlackChange:
    """A decision: from this block on, this slack."""

    block: int
    spec: SlackSpec


def spec_at(changes: Iterable[SlackChange], block: int) -> SlackSpec:
    """The slack in force for a block.

    Args:
        changes: in the order they were decided; the last one that is in force wins.
        block: number of the block.

    Raises:
        ValueError: no decision covers the block.
    """
    found = [c.spec for c in changes if c.block <= block]
    if not found:
        raise ValueError(f"no slack was decided for block {block}")
    return found[-1]
