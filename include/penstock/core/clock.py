"""Where "now" comes from: injected, so that tests and re-runs get the same answer."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the present instant."""

    def now(self) -> datetime:
        """The present instant, aware, UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present instant, aware, UTC."""
        return datetime.now(UTC)
