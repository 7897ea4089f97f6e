"""A watched stream: its trigger, and a driver that only beats."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import StreamSpec
from penstock_airflow import wiring
from penstock_airflow.triggers import StreamTrigger

RUNS = """
import sys
from pathlib import Path
from penstock.config.settings import Settings
from penstock.core.request import JobRequest
from penstock.runtime.streams.heart import Heart
from penstock.runtime.streams.paths import StreamPaths
request = JobRequest.from_argv(sys.argv[1:])
with Heart(StreamPaths(Settings().streams, request.pipeline), period=0.1) as heart:
    heart.beat(digest=request.digest)
    heart.works(sealed=1)
    while not heart.wait(1):
        pass
"""


def trigger(pipeline: str = "flights", **arguments: Any) -> StreamTrigger:
    return StreamTrigger(pipeline=pipeline, poll_seconds=0.1, **arguments)


async def first(watch: StreamTrigger) -> TriggerEvent:
    return await asyncio.wait_for(anext(aiter(watch.run())), 40)


async def until(ask: Callable[[], Any]) -> Any:
    async with asyncio.timeout(40):
        while not (answer := ask()):  # noqa: ASYNC110  processes raise no event
            await asyncio.sleep(0.05)
    return answer


def status() -> control.StreamStatus:
    return control.status(wiring.stream_paths("flights"))


class Host:
    """Stands for the stream hosts of all logs: what is asked of them happens at once.

    Attributes:
        runs: the spec that runs, by log.
        done: what was started and stopped, in order.
        ends: how a host that does not run has ended, by log, as in "stopped by user".
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = dict[str, StreamSpec]()
        self.done = list[str]()
        self.ends = dict[str, str]()
        monkeypatch.setattr("penstock_airflow.triggers.control.status", self._status)
        monkeypatch.setattr("penstock_airflow.triggers.control.ensure_supervisor", self._ensure)
        for module in ("penstock_airflow.triggers.control", "penstock.runtime.streams.links"):
            monkeypatch.setattr(f"{module}.request_stop", self._stop)

    def _status(self, paths: StreamPaths) -> control.StreamStatus:
        if (spec := self.runs.get(paths.name)) is None:
            state, _, reason = self.ends.get(paths.name, "absent").partition(" by ")
            return control.StreamStatus(state, alive=False, reason=reason or None)
        return control.StreamStatus("running", alive=True, identity=spec.identity)

    def _ensure(self, paths: StreamPaths, spec: StreamSpec, wanted: Callable[[], bool]) -> bool:
        if paths.name in self.runs or not wanted():
            return False
        self.done.append(f"start {paths.name}")
        self.runs[paths.name] = spec
        paths.supervisor_lock.touch()
        return True

    def _stop(self, paths: StreamPaths, reason: str) -> None:
        if self.runs.pop(paths.name, None) is not None:
            self.done.append(f"stop {paths.name}: {reason}")
