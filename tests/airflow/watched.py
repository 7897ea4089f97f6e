"""A watched stream: its trigger, and a driver that only beats."""

import asyncio
from collections.abc import Callable
from typing import Any

from airflow.triggers.base import TriggerEvent

from penstock.runtime.streams import control
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
