"""Triggers that look again and again, and ask for a run when something is due."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from penstock.core.errors import PenstockError

POLL_SECONDS = 5.0


class PollingTrigger(BaseEventTrigger):
    """Looks every few seconds; what cannot be looked at now is tried again.

    Args:
        what: is looked at, in words.
        poll_seconds: between two looks.
        told: the other arguments of the trigger, as plain JSON.
    """

    def __init__(self, what: str, poll_seconds: float, **told: str) -> None:
        super().__init__()
        self.what, self.poll_seconds, self._arguments = what, poll_seconds, told

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as plain JSON."""
        told = self._arguments | {"poll_seconds": self.poll_seconds}
        return f"{type(self).__module__}.{type(self).__qualname__}", told

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """An event whenever something is due; never ends by itself."""
        while True:
            try:
                why = await asyncio.to_thread(self._look)
            except (PenstockError, OSError) as wrong:
                self.log.warning("%s: %s; trying again", self.what, wrong)
                why = None
            if why:
                yield TriggerEvent({"why": why})
            await asyncio.sleep(self.poll_seconds)

    def _look(self) -> Any:
        """Why a run is due; nothing: none is."""
        raise NotImplementedError
