"""Asks for a correction when much or old lateness waits: the event names no records.

Plain asset events, and no partitions: the trigger goes by what the tables say now, so an event
that Airflow held back (its issue 56050) is rung again, and a burst rings once.
"""

from typing import Any

from airflow.sdk import Asset, AssetWatcher

from penstock.config.kept import state_in_force
from penstock_airflow import wiring
from penstock_airflow.polling import POLL_SECONDS, PollingTrigger


def late(pipeline: str) -> Asset:
    """The asset that says: late records of a pipeline want their correction."""
    watcher = AssetWatcher(name=f"late__{pipeline}", trigger=LateTrigger(pipeline))
    uri = f"penstock://late/{pipeline}"
    return Asset(name=f"late__{pipeline}", uri=uri, watchers=[watcher])


class LateTrigger(PollingTrigger):
    """Looks at a pipeline's tables every few seconds.

    Args:
        pipeline: the pipeline.
        poll_seconds: between two looks.
    """

    def __init__(self, pipeline: str, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(f"late records of {pipeline}", poll_seconds, pipeline=pipeline)
        self.pipeline = pipeline
        self._files: object = None
        self._watch: Any = None

    def _look(self) -> dict[str, str] | None:
        """Imports wait until they are needed: DAG files are parsed every few seconds."""
        from penstock.core.clock import SystemClock
        from penstock.lake.history.watch import Watch
        from penstock.lake.storage.tables import Tables

        settings = wiring.settings()
        files = state_in_force(settings)
        if files != self._files:
            pipeline = wiring.catalog().pipeline(self.pipeline)
            soon, tables = pipeline.correction.soon, Tables(settings.lake_uri, pipeline.log)
            self._watch = soon and Watch(tables, pipeline.specs, soon.urgency, SystemClock())
            self._files = files
        return self._watch.look() if self._watch else None
