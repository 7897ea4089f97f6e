"""The trigger that keeps a stream's supervisor alive and tells Airflow how it ends."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from penstock.config.catalog import Catalog, UnknownPipelineError
from penstock.core.errors import PenstockError
from penstock.runtime.streams import control
from penstock.runtime.streams.control import StreamStatus
from penstock.runtime.streams.links import link, linked, mark, marked_by, runs, unlink
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.reading import Reading, is_gone, state_of
from penstock.runtime.streams.spec import StreamSpec
from penstock.runtime.streams.stages import MEANS, Stage, stage_of
from penstock.runtime.streams.wish import SPENT
from penstock_airflow import wiring

USER, DOWN, GONE = "user", "down", "gone"
GRACE = {DOWN: 60.0}
GRACE_SECONDS = 6.0
OVER = (*control.ENDED, "stopping")
"""A host that a new task finds like this is another task's: its end says nothing of this one."""


class StreamTrigger(BaseTrigger):
    """Ensure the supervisor of a stream, watch it, end the task when the stream ends.

    Everything is done here and not in the operator: in Airflow 3.3 a task that is resumed soon
    after it deferred may be failed by mistake (its issue 71580).

    Args:
        pipeline: the pipeline.
        watch_for_seconds: end with success after this time, leaving the stream alone.
        poll_seconds: between two looks.
    """

    def __init__(
        self, pipeline: str, watch_for_seconds: float | None = None, poll_seconds: float = 2.0
    ) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.watch_for_seconds = watch_for_seconds
        self.poll_seconds = poll_seconds
        self._unwanted = threading.Event()
        self._told: object = None
        self._reading = Reading()
        self._runs: list[str] = []
        self._stage: object = None
        self._digest: str | None = None
        self._is_gone, self._astray = False, ""
        self._stream = pipeline
        self._stopped_since: float | None = None
        self._unlinked_since: float | None = None
        self._gone_since: float | None = None
        self._seen_to = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, as plain JSON."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "pipeline": self.pipeline,
                "watch_for_seconds": self.watch_for_seconds,
                "poll_seconds": self.poll_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch until the stream ends, gives up, or the watch is over; exactly one event."""
        began = time.monotonic()
        await asyncio.to_thread(self._ensure)
        while True:
            event = await asyncio.to_thread(self._look_if_it_can)
            if event is None and self._is_over(began):
                event = TaskSuccessEvent(xcoms={"stream": {"state": "watched on by the next run"}})
            if event is not None:
                yield event
                return  # at once: a trigger that goes on after its event is killed as if by a user
            await asyncio.sleep(self.poll_seconds)

    async def on_kill(self) -> None:
        """The user marked the task or cleared it: stop gracefully.

        Airflow cancels this method after less than a second, so it does two things that cannot
        be interrupted and awaits nothing.
        """
        self._unwanted.set()
        unlink(wiring.settings().streams, self.pipeline, "on_kill")

    def _is_over(self, began: float) -> bool:
        return (
            self.watch_for_seconds is not None and time.monotonic() - began > self.watch_for_seconds
        )

    def _ensure(self) -> None:
        try:
            asked = wiring.settings().stream_runner
            ensure = control.ask_runner if asked else control.ensure_supervisor
            spec, paths = self._spec(), self._paths
            if self._is_end(control.status(paths)):  # which no triggerer has seen yet
                return
            if self._digest is None:  # gone, or nobody knows yet on which log it stands
                return
            if not link(paths, self.pipeline, self._wanted):
                return
            if fresh := ensure(paths, spec, self._wanted):
                done = "asked the stream runner for it" if asked else "supervisor started"
                self.log.info("stream %s: %s", self.pipeline, done)
            if fresh or control.status(paths).state not in OVER:
                self._see_to()
        except (PenstockError, OSError) as wrong:
            self.log.warning("stream %s: %s; trying again", self.pipeline, wrong)

    def _look_if_it_can(self) -> TriggerEvent | None:
        """A full disk must not end the task."""
        try:
            return self._look()
        except (PenstockError, OSError) as wrong:
            self.log.warning("stream %s: %s; looking again", self.pipeline, wrong)
            return None

    def _look(self) -> TriggerEvent | None:
        meant, paths = self._meant(), self._paths
        now = control.status(paths)
        if not self._has_begun(now):
            return self._begin(now)
        self._tell(now)
        self._tell_stage(now)
        if now.state != "stopped":
            self._stopped_since = None
        if now.state in {"absent", "dead", "wanted"}:  # wanted as the file was, perhaps
            self._ensure()
        elif self._is_end(now):
            return self._end(now)
        elif now.state == "stopped":
            self._after_stop(now)
        elif now.state != "stopping" and self._is_outdated(now, meant):
            self.log.info("stream %s: its definition changed: restarting it", self.pipeline)
            control.request_stop(paths, "respec")
        elif now.state != "stopping":
            self._stay_linked()
        return None

    def _begin(self, now: StreamStatus) -> TriggerEvent | None:
        """Try again to start it, until that came through; unless there is nothing to start."""
        if not self._is_gone or self._seen_to:
            self._gone_since = None
            if now.state != "stopping":
                self._ensure()
            return None
        if self._gone_since is None:  # an editor may be about to put it there
            self._gone_since = time.monotonic()
        if time.monotonic() - self._gone_since < GRACE_SECONDS:
            return None
        self.log.error("stream %s: nothing was started: %s", self.pipeline, self._astray)
        return self._end(StreamStatus(GONE, alive=False, error=self._astray))

    def _has_begun(self, now: StreamStatus) -> bool:
        """Whether this try of the task has seen to the host, perhaps in another triggerer.

        How a host ended that it has not seen to is yesterday's end, or another pipeline's.
        """
        if self._seen_to != self._stream:
            runs_it = now.alive and now.state not in OVER and self.pipeline in linked(self._paths)
            if runs_it or (self._try and marked_by(self._paths, self.pipeline) == self._try):
                self._see_to()
        return self._seen_to == self._stream

    def _see_to(self) -> None:
        """From now on the end of the host is the task's; a triggerer that comes later knows."""
        if self._try and marked_by(self._paths, self.pipeline) != self._try:
            mark(self._paths, self.pipeline, self._try)
        self._seen_to = self._stream

    def _is_end(self, now: StreamStatus) -> bool:
        """Whether the task ends by this; after other stops it is meant to run."""
        by_user = now.state == "stopped" and now.reason == USER
        return self._has_begun(now) and (by_user or now.state in SPENT)

    @property
    def _try(self) -> str:
        """Tells the try of the task from others; the same in the next triggerer."""
        task = self.task_instance
        return "" if task is None else f"{task.id}/{task.try_number}"

    def _end(self, now: StreamStatus) -> TriggerEvent:
        """Take the link along: left behind, it would hold the next host with nobody to take it."""
        if self.pipeline in linked(self._paths):
            unlink(wiring.settings().streams, self.pipeline, now.state)
        event = TaskFailedEvent if now.state in {"gave_up", GONE} else TaskSuccessEvent
        return event(xcoms={"stream": _report(now)})

    def _meant(self) -> StreamSpec:
        """What should run; first of all: it may stand on another log by now, or be gone."""
        stood, was_gone, meant = self._stream, self._is_gone, self._spec()
        if self._stream != stood:
            self.log.info("stream %s: stands on the log %s now", self.pipeline, self._stream)
        if was_gone and not self._is_gone:  # it left the host: how that went on was not its own
            self._seen_to = ""
        if self._stream != stood or was_gone:
            self._ensure()
        if self._is_gone and {*linked(self._paths)} > {self.pipeline}:
            said = "stream %s: leaves the host of %s, which goes on for others"
            self.log.warning(said, self.pipeline, self._stream)
            unlink(wiring.settings().streams, self.pipeline, "gone")
        return meant

    def _stay_linked(self) -> None:
        """A former try's end may have unlinked what goes on for others; or ours comes now."""
        if self._digest is None or runs(self._paths, self.pipeline):
            self._unlinked_since = None
        elif self._unlinked_since is None:
            self._unlinked_since = time.monotonic()
        elif time.monotonic() - self._unlinked_since >= GRACE_SECONDS:
            link(self._paths, self.pipeline, self._wanted)
            self._see_to()

    def _after_stop(self, now: StreamStatus) -> None:
        """We still watch, so unless a user stopped it, it is meant to run.

        Airflow may be about to end us, having stopped the stream already: hence the grace.
        """
        if self._stopped_since is None:
            self._stopped_since = time.monotonic()
        grace = 0.0 if now.reason == "respec" else GRACE.get(now.reason or "", GRACE_SECONDS)
        if time.monotonic() - self._stopped_since >= grace:
            self._ensure()

    def _spec(self) -> StreamSpec:
        """What should run: by the pipeline file as it is now, or as it was while it was valid."""
        files = state_of(wiring.settings())
        if self._reading.is_due(files):
            try:
                catalog = self._read()
                is_known = self._digest is not None or self._is_gone
                self._reading.took(files, whole=is_known and not catalog.errors)
            except (PenstockError, OSError) as wrong:  # perhaps it passes: it is read again
                self._stay(wrong)
        return wiring.stream_spec(self._stream, self._digest)

    def _read(self) -> Catalog:
        """Take what the catalog says of the pipeline, or that it is gone or out of force.

        Raises:
            PenstockError, OSError: nobody can tell that now; what was known stays.
        """
        catalog = wiring.catalog()
        try:
            pipeline = catalog.pipeline(self.pipeline)
        except UnknownPipelineError as unknown:
            self._is_gone = is_gone(wiring.settings(), catalog, self.pipeline)
            self._digest = None  # nobody may start it as it was
            self._stay(unknown)
        else:
            self._stream, self._digest = pipeline.log, pipeline.log_digest
            self._runs = [step.id for step in pipeline.specs]
            self._is_gone, self._astray = False, ""
        return catalog

    def _stay(self, wrong: Exception) -> None:
        """Look at the host that it is linked to, until more is known."""
        if str(wrong) != self._astray:
            known = self._digest is not None
            said = "goes on as it is" if known else "nothing of it can be started now"
            self.log.warning("stream %s: %s: %s", self.pipeline, said, wrong)
        self._astray, folder = str(wrong), wiring.settings().streams
        logs = control.names(folder) if self._digest is None else ()
        mine = (log for log in logs if self.pipeline in linked(StreamPaths(folder, log)))
        self._stream = next(mine, self._stream)

    @property
    def _paths(self) -> StreamPaths:
        """Files of the stream host of the log that the pipeline stands on."""
        return wiring.stream_paths(self._stream)

    def _wanted(self) -> bool:
        return not self._unwanted.is_set()

    def _is_outdated(self, now: StreamStatus, meant: StreamSpec) -> bool:
        """Not while there is no valid file of it: then nothing better is known."""
        return self._digest is not None and now.identity != meant.identity

    def _tell(self, now: StreamStatus) -> None:
        """Write a line into the task's log when something changed."""
        silent = now.state == "silent"  # its error tells the seconds, which are new at every look
        error = now.wrong or now.error
        said = (now.state, now.said.get("incarnation"), now.reason, silent or error)
        if said == self._told:
            return
        self._told = said
        text = "stream %s: %s incarnation=%s driver=%s reason=%s error=%s"
        level = self.log.warning if now.troubled or now.wrong else self.log.info
        level(
            text, self.pipeline, now.state, now.said.get("incarnation"),
            now.said.get("driver_pid"), now.reason, error,
        )  # fmt: skip

    def _tell_stage(self, now: StreamStatus) -> None:
        """Write a line when its start has come farther, or does not."""
        if self._digest is None:  # nothing of it can start
            return
        found = stage_of(self._paths, self.pipeline, self._runs, now)
        if found == self._stage:
            return
        (stage, wrong), self._stage = found, found
        number = f"{[*Stage].index(stage) + 1} of {len(Stage)}"
        said = f"stage {stage.value} ({number}): {MEANS[stage]}"
        if wrong:
            self.log.warning("stream %s: %s; not farther: %s", self.pipeline, said, wrong)
        else:
            self.log.info("stream %s: %s", self.pipeline, said)


def _report(now: StreamStatus) -> dict[str, Any]:
    """The stream's end, as an XCom."""
    return {
        "state": now.state,
        "reason": now.reason,
        "error": now.error,
        "restarts": now.said.get("restarts", 0),
        "driver": now.driver,
    }
