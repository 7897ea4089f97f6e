"""Where each of several streams stands at a position of the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.slack import BlockKind, WatermarkState
from penstock.core.window import BEGINNING


@dataclass(frozen=True, slots=True)
class Stood:
    """One stream.

    Attributes:
        stream: its name.
        newest: its newest live event time so far, us.
        silent: idle or end, since its last block says so; empty: it is not silent.
        accepted, refused: records of it so far; of a step's fold none are counted.
        state: the fold of its watermark.
        controller: of its slack; empty: none.
    """

    stream: str
    newest: int = BEGINNING
    silent: str = ""
    accepted: int = 0
    refused: int = 0
    state: WatermarkState = field(default_factory=WatermarkState)
    controller: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "Stood":
        """From its fields as plain values."""
        return cls(**{**fields, "state": WatermarkState(**fields["state"])})

    def begun(self, *, live: bool) -> "Stood":
        """As a fold begins with it that knows nothing from before.

        Args:
            live: whether a source that has ended then only was silent.
        """
        ended = self.silent == BlockKind.END
        silent = BlockKind.IDLE if ended and live else self.silent
        return Stood(self.stream, self.newest, silent)
