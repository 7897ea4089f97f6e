"""Slack controllers: K follows what coverage needs, one step a measured window (law 0, law 7).

The watermark moves with every record; steps are taken every ``EVERY`` numbers of the log, and the
new K holds from the next record, so a trace is a function of the log however it is cut. Which
controller steers is said by the policy: ``penstock.core.controllers``.
"""

import json
import zlib
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from penstock.core.errors import ConfigError
from penstock.core.lateness import Tally
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import BEGINNING, WindowSpec

FORM = 2
"""Of what is written down of a controller: what it learns, and how it chooses K."""
EVERY = 256
"""Numbers of the log from one step to the next: a step costs as much as judging some hundred
records."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a controller sees of some live records, one after the other.

    Attributes:
        newest: greatest event time, us.
        greatest: greatest lateness, us.
        lags: records by bin of lateness.
        panes: records by start of their pane, us.
        overdue: of those that came past their pane's end, how many by the pane and how far past
            (``penstock.core.overdue.key_of``).
    """

    newest: int
    greatest: int
    lags: Tally | Mapping[int, int]
    panes: Mapping[int, int]
    overdue: Mapping[tuple[int, int], int]


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
        """Of what had come when it was measured."""
        return self.received / self.records


@dataclass(slots=True)
class Controller(ABC):
    """Where the control of one step's slack stands.

    Attributes:
        window: the step's windows.
        spec: the policy with its tuning.
        slack: K in force, us.
        former: K of the policy before it, us; not gone below until the controller is steady.
        t_max, watermark: us.
        passed: windows that start so early were due at the last step, us; none: no record came.
        greatest: lateness of a record since the last step, us; none: there was none.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (
        "slack", "former", "t_max", "watermark", "passed", "greatest")  # fmt: skip
    """What is written down as it is."""

    window: WindowSpec
    spec: SlackSpec
    slack: int = 0
    former: int = 0
    t_max: int = BEGINNING
    watermark: int = BEGINNING
    passed: int | None = None
    greatest: int | None = None

    @property
    def tuning(self) -> Tuning:
        """What it goes by."""
        if self.spec.tuning is None:
            raise ValueError(f"{self.spec.policy} has no controller")
        return self.spec.tuning

    @property
    @abstractmethod
    def steady(self) -> bool:
        """Whether it has learned enough: until then K is the greatest lateness so far."""

    @property
    @abstractmethod
    def k(self) -> int:
        """The greatest lateness it remembers, us, but for what came since the last step."""

    @abstractmethod
    def _take(self, arrivals: Arrivals) -> None:
        """Note records, before they move ``t_max``."""

    @abstractmethod
    def _learn(self, greatest: int) -> None:
        """The lateness of what came since the last step counts; ``greatest``: of it, us."""

    @abstractmethod
    def close(self, watermark: int) -> None:
        """Move the watermark, never back, and note what the windows it closes have received."""

    @abstractmethod
    def settle(self) -> list[Measured]:
        """Measure the windows that are closed and due, and choose K anew; returns them."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """What is to be written down beside the figures."""

    @abstractmethod
    def _restore(self, content: Mapping[str, Any]) -> None:
        """Take back what ``_content`` gave."""

    def turn(self, spec: SlackSpec) -> None:
        """Another tuning of the same policy holds from here on."""
        self.spec = spec

    def state(self, before: WatermarkState) -> WatermarkState:
        """Where the fold stands that stood elsewhere before."""
        k = max(self.k, self.greatest or 0)
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
        self._take(arrivals)
        self.t_max = max(self.t_max, arrivals.newest)
        self.greatest = max(self.greatest or 0, arrivals.greatest)
        if not self.steady:  # as max_delay: a record's own lateness counts
            self.slack = max(self.slack, arrivals.greatest)
        self.close(self.t_max - self.slack if watermark is None else watermark)

    def step(self) -> list[Measured]:
        """Learn from what came since the last step; returns the windows measured by it."""
        if self.greatest is None:
            return []
        self._learn(self.greatest)
        self.greatest = None
        if not self.steady:
            self.slack = max(self.former, self.k)
        return self.settle()

    def _first(self, pane: int) -> int:
        """The earliest open window; before any watermark that of the first record's pane."""
        if self.watermark == BEGINNING:
            first = self.window.first_window(pane)
        else:
            first = self.window.floor(self.watermark - self.window.size) + self.window.slide
        return max(first, self.window.origin) if self.window.landmark else first

    def to_text(self) -> str:
        """All of it but what is configured, in a few kilobytes."""
        content = {name: getattr(self, name) for name in self.FIGURES} | self._content()
        content |= {"policy": self.spec.policy, "form": FORM}
        text = json.dumps(content, separators=(",", ":"))
        return b64encode(zlib.compress(text.encode(), 1)).decode()

    @classmethod
    def read(cls, window: WindowSpec, spec: SlackSpec, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_text`` wrote."""
        found = cls(window, spec, **{name: content[name] for name in cls.FIGURES})
        found._restore(content)
        return found


def passed_of(text: str) -> int:
    """Windows that start so early were due when ``to_text`` wrote this, us."""
    content = json.loads(zlib.decompress(b64decode(text))) if text else {}
    return BEGINNING if content.get("passed") is None else int(content["passed"])


def content_of(text: str, policy: SlackPolicy) -> Mapping[str, Any] | None:
    """What ``to_text`` wrote; none: another policy did, which says nothing here.

    Raises:
        ConfigError: another version did: the same log would come to other answers.
    """
    content: dict[str, Any] = json.loads(zlib.decompress(b64decode(text)))
    if content.get("policy") != policy:
        return None
    if content.get("form", 1) != FORM:
        raise ConfigError(
            f"the controller of slack {policy} was written by another version (form"
            f" {content.get('form', 1)}; this one reads {FORM}). Use that version, or penstock"
            " remove the pipeline to start afresh."
        )
    return content
