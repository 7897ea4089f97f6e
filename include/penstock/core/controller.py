"""Slack controllers: K follows what coverage needs, one step a measured window (law 0, law 7).

A window is measured once the newest event time is ``horizon`` beyond its end: coverage is the
records that were there when it closed, over all that have come by then. The watermark moves with
every record; steps are taken every ``EVERY`` numbers of the log, in the order of window ends, and
the new K holds from the next record, so a trace is a function of the log however it is cut.
Sources: HPM, slack controller (``pd``); feed-forward on the recent lateness with an adaptive
margin after Gibbs and Candes 2021 (``quantile``) [D].
"""

import json
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from penstock.core.lateness import Lateness, Tally, plain_of
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import BEGINNING, WindowSpec

EVERY = 256
"""Numbers of the log from one step to the next: a step costs as much as judging some hundred
records."""
MARGIN_STEP = 0.005
"""How much of the room one window moves; the rate of violations settles over some 1 / step."""
FIGURES = ("slack", "former", "alpha", "error", "margin", "t_max", "watermark", "passed",
           "greatest")  # fmt: skip
"""What is written down as it is."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a controller sees of some live records, one after the other.

    Attributes:
        newest: greatest event time, us.
        greatest: greatest lateness, us.
        lags: records by bin of lateness.
        panes: records by start of their pane, us.
    """

    newest: int
    greatest: int
    lags: Tally | Mapping[int, int]
    panes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """One window, measured: what the controller made of it."""

    window_start: int
    received: int
    records: int
    slack: int
    alpha: float
    margin: float
    threshold: float

    @property
    def below(self) -> bool:
        """Whether it held too little."""
        return self.coverage < self.threshold

    @property
    def coverage(self) -> float:
        """Early: within the horizon."""
        return self.received / self.records


@dataclass(slots=True)
class Controller:
    """Where the control of one step's slack stands.

    Attributes:
        window: the step's windows.
        spec: the policy, pd or quantile, with its tuning.
        slack: K in force, us.
        former: K of the policy before it, us; not gone below until a window is measured.
        alpha: share of the greatest lateness that K is (``pd``).
        error: threshold less coverage, of the last measured window; none: none yet.
        margin: share of the room above the threshold that is kept free (``quantile``).
        t_max, watermark: us.
        passed: windows that start so early were due at the last step, us; none: no record came.
        greatest: lateness of a record since the last step, us; none: there was none.
    """

    window: WindowSpec
    spec: SlackSpec
    lateness: Lateness = field(init=False)
    slack: int = 0
    former: int = 0
    alpha: float = 1.0
    error: float | None = None
    margin: float = 0.5
    t_max: int = BEGINNING
    watermark: int = BEGINNING
    passed: int | None = None
    greatest: int | None = None
    _lags: list[Tally | Mapping[int, int]] = field(default_factory=list)
    _panes: dict[int, int] = field(default_factory=dict)
    _closed: list[tuple[int, int]] = field(default_factory=list)
    _begin: int | None = None
    _next: int | None = None

    def __post_init__(self) -> None:
        self.lateness = Lateness(self.tuning.recent)

    @property
    def tuning(self) -> Tuning:
        """What it goes by."""
        if self.spec.tuning is None:
            raise ValueError(f"{self.spec.policy} has no controller")
        return self.spec.tuning

    @classmethod
    def under(
        cls, known: Self | None, window: WindowSpec, spec: SlackSpec, state: WatermarkState
    ) -> Self:
        """The controller for a block: the one at hand, or for another policy a fresh one."""
        if known is None or known.spec.policy is not spec.policy:
            slack, t_max, watermark = state.slack, state.t_max, state.watermark
            return cls(window, spec, slack, slack, t_max=t_max, watermark=watermark)
        known.spec = spec
        known.lateness.horizon = known.tuning.recent
        return known

    @property
    def steady(self) -> bool:
        """Whether a window has been measured: until then K is the greatest lateness so far."""
        return self.error is not None

    def state(self, before: WatermarkState) -> WatermarkState:
        """Where the fold stands that stood elsewhere before."""
        k = max(self.lateness.greatest, self.greatest or 0)
        return WatermarkState(self.watermark, max(before.t_max, self.t_max), k, self.slack)

    def silent(self, before: WatermarkState, kind: BlockKind) -> list[Measured]:
        """The source is silent or has ended; returns the windows measured by it."""
        self.close(before.silent(kind).watermark)
        return self.settle()

    def after(self, arrivals: Arrivals) -> list[Measured]:
        """Take the records of a whole step, none of which closes a window but the last."""
        self.receive(arrivals)
        return self.step()

    def receive(self, arrivals: Arrivals, watermark: int | None = None) -> None:
        """Take records, none of which closes a window but the last.

        Args:
            arrivals: the records.
            watermark: after the last, us; none: it has moved with the newest of them.
        """
        if self.passed is None:
            self.passed = self._until()
        self.t_max = max(self.t_max, arrivals.newest)
        self.greatest = max(self.greatest or 0, arrivals.greatest)
        self._lags.append(arrivals.lags)
        if self._next is None:
            self._next = self._begin = self._first(min(arrivals.panes))
        self._missed(arrivals.panes, self.passed)
        oldest = self._oldest(self._next)
        for pane, count in arrivals.panes.items():
            if pane >= oldest:
                self._panes[pane] = self._panes.get(pane, 0) + count
        if not self.steady:  # as max_delay: a record's own lateness counts
            self.slack = max(self.slack, arrivals.greatest)
        self.close(self.t_max - self.slack if watermark is None else watermark)

    def step(self) -> list[Measured]:
        """Learn from what came since the last step; returns the windows measured by it."""
        if self.greatest is None:
            return []
        forgotten = self.lateness.add(self.t_max, self.greatest, *self._lags)
        self.greatest, self._lags = None, []
        if not self.steady:
            self.slack = max(self.former, self.lateness.greatest)
        return self.settle(forgotten=forgotten)

    def settle(self, *, forgotten: bool = False) -> list[Measured]:
        """Measure the windows that are closed and due, and choose K anew; returns them."""
        measured = [self._measure(*each) for each in self._due()]
        self.passed = self._until()
        if measured and self._next is not None:
            oldest = self._oldest(self._next)
            self._panes = {pane: n for pane, n in self._panes.items() if pane >= oldest}
        if self.error is not None:
            self._steer(changed=forgotten or bool(measured))
        return measured

    def _steer(self, *, changed: bool) -> None:
        """The K that follows; ``changed``: whether coverage or the lateness says anything new."""
        if self.spec.policy is SlackPolicy.PD:
            self.slack = round(self.alpha * self.lateness.greatest)
        elif changed:
            threshold = self.tuning.threshold
            wanted = threshold + self.margin * (1 - threshold)
            self.slack = self.lateness.least_slack(self.window.size, wanted)

    def _first(self, pane: int) -> int:
        """The earliest open window; before any watermark that of the first record's pane."""
        if self.watermark == BEGINNING:
            first = self.window.first_window(pane)
        else:
            first = self.window.floor(self.watermark - self.window.size) + self.window.slide
        return max(first, self.window.origin) if self.window.landmark else first

    def _missed(self, panes: Iterable[int], due: int) -> None:
        """Closed windows that held nothing get their first record: they are measured too.

        Args:
            panes: of some records.
            due: windows that start so early were due before them.
        """
        assert self._begin is not None  # noqa: S101
        assert self._next is not None  # noqa: S101
        window = self.window
        least = max(self._begin, window.floor(due) + window.slide)
        for pane in panes:
            end = min(window.last_window(pane) + window.slide, self._next)
            for start in range(max(window.first_window(pane), least), end, window.slide):
                at = bisect_left(self._closed, (start, 0))
                if at == len(self._closed) or self._closed[at][0] != start:
                    insort(self._closed, (start, 0))

    def close(self, watermark: int) -> None:
        """Move the watermark, never back, and note what the windows it closes have received."""
        self.watermark = max(self.watermark, watermark)
        size, slide = self.window.size, self.window.slide
        while self._next is not None and self._next + size <= self.watermark:
            received = self._count(self._next)
            if received:
                self._closed.append((self._next, received))
                self._next += slide
                continue
            later = [pane for pane in self._panes if pane >= self._next]
            beyond = self.window.floor(self.watermark - size) + slide
            first = min(map(self.window.first_window, later), default=beyond)
            self._next = max(self._next + slide, min(first, beyond))

    def _count(self, window_start: int) -> int:
        return sum(self._panes.get(pane, 0) for pane in self.window.panes_of(window_start))

    def _due(self) -> Iterator[tuple[int, int]]:
        until = self._until()
        while self._closed and self._closed[0][0] <= until:
            yield self._closed.pop(0)

    def _until(self) -> int:
        """Windows that start up to there are due."""
        return self.t_max - self.tuning.horizon - self.window.size

    def _measure(self, start: int, received: int) -> Measured:
        records, tuning = self._count(start), self.tuning
        error = tuning.threshold - received / records
        if self.spec.policy is SlackPolicy.PD:
            last = error if self.error is None else self.error
            change = tuning.kp * error + tuning.kd * (error - last)
            self.alpha = min(max(self.alpha + change, 0.0), 1.0)
        else:
            missed = float(error > 0) - tuning.delta / 2  # half: the rate itself fluctuates
            self.margin = min(max(self.margin + MARGIN_STEP * missed, 0.0), 1.0)
        self.error = error
        at = self.slack, self.alpha, self.margin, tuning.threshold
        return Measured(start, received, records, *at)

    def _oldest(self, following: int) -> int:
        """Start of the oldest window that is not measured; ``following``: the next to close."""
        return self._closed[0][0] if self._closed else following

    def to_text(self) -> str:
        """All of it but what is configured, in a few kilobytes."""
        content = {name: getattr(self, name) for name in FIGURES} | {
            "policy": self.spec.policy,
            "begin": self._begin,
            "next": self._next,
            "panes": sorted(self._panes.items()),
            "closed": [*self._closed],
            "lateness": self.lateness.to_json(),
            "lags": sorted(self._counted().items()),
        }
        return b64encode(zlib.compress(json.dumps(content).encode())).decode()

    @classmethod
    def from_text(cls, window: WindowSpec, spec: SlackSpec, text: str) -> Self | None:
        """Read back what ``to_text`` wrote; none: another policy did, which says nothing here."""
        content = json.loads(zlib.decompress(b64decode(text)))
        if content.get("policy") != spec.policy:
            return None
        found = cls(window, spec, **{name: content[name] for name in FIGURES})
        found._begin, found._next = content["begin"], content["next"]
        found._panes = dict(content["panes"])
        found._closed = [(start, received) for start, received in content["closed"]]
        found.lateness = Lateness.from_json(found.tuning.recent, content["lateness"])
        found._lags = [dict(content["lags"])] if content["lags"] else []
        return found

    def _counted(self) -> Mapping[int, int]:
        """Records by bin of lateness since the last step; they are kept summed up."""
        if self._lags:
            self._lags = [sum((Counter(plain_of(lags)) for lags in self._lags), Counter())]
        return plain_of(self._lags[0]) if self._lags else {}
