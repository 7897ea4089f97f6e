"""Asks for a correction when much or old lateness waits: the event names no records.

Plain asset events, and no partitions: the trigger goes by what the tables say now, so an event
that Airflow held back (its issue 56050) is rung again, and a burst rings once.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from penstock.core.errors import PenstockError
from penstock_airflow import wiring


def late(pipeline: str) -> Asset:
    """The asset that says: late records of a pipeline want their correction."""
    watcher = AssetWatcher(name=f"late__{pipeline}", trigger=LateTrigger(pipeline))
    uri = f"penstock://late/{pipeline}"
    return Asset(name=f"late__{pipeline}", uri=uri, watchers=[watcher])


class LateTrigger(BaseEventTrigger):
    """Looks at a pipeline's tables every few seconds.

    Args:
        pipeline: the pipeline.
        poll_seconds: between two looks.
    """

    def __init__(self, pipeline: str, poll_seconds: float = 5.0) -> None:
        super().__init__()
        self.pipeline, self.poll_seconds = pipeline, poll_seconds
        self._files: object = None
        self._watch: Any = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as plain JSON."""
        told = {"pipeline": self.pipeline, "poll_seconds": self.poll_seconds}
        return f"{type(self).__module__}.{type(self).__qualname__}", told

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """An event whenever a correction is due; never ends by itself."""
        while True:
            try:
                why = await asyncio.to_thread(self._look)
            except (PenstockError, OSError) as wrong:
                self.log.warning("late records of %s: %s; trying again", self.pipeline, wrong)
                why = None
            if why:
                yield TriggerEvent({"why": why})
            await asyncio.sleep(self.poll_seconds)

    def _look(self) -> dict[str, str] | None:
        """Imports wait until they are needed: DAG files are parsed every few seconds."""
        from penstock.core.clock import SystemClock
        from penstock.lake.history.watch import Watch
        from penstock.lake.storage.tables import Tables

        settings = wiring.settings()
        files = wiring.file_state(settings.pipelines)
        if files != self._files:
            pipeline = wiring.catalog().pipeline(self.pipeline)
            soon, tables = pipeline.correction.soon, Tables(settings.lake_uri, pipeline.name)
            self._watch = soon and Watch(tables, pipeline.specs, soon.urgency, SystemClock())
            self._files = files
        return self._watch.look() if self._watch else None
