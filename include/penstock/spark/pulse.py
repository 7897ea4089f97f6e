"""How a stream host tells of itself, and is told to end."""

from typing import Any, Protocol


class Pulse(Protocol):
    """Tells the supervisor how the host is, and the host whether to stop."""

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        """Publish figures."""

    def forget(self, step: str) -> None:
        """Publish no more of a step."""

    def works(self, sealed: int) -> None:
        """Say that so many micro-batches are sealed, or that none waits to be."""

    def fail(self, error: str) -> None:
        """Say why the host ends."""

    def should_stop(self) -> bool:
        """Whether somebody asked for an end."""
