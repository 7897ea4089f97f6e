"""A disk loses the state of all steps alike: a failed start counts for each of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.generation import _failures
from penstock.lake.tables import local
from penstock.spark.stream_host import StreamFailedError, StreamHost
from tests.doubles import RecordingPulse, RisingClock
from tests.spark.conftest import make_scene


@dataclass
class Query:
    """A streaming query as its handle tells of it; it fails when asked so often."""

    fails_after: int | None
    message: str = "Initializing sources"
    asked: int = 0
    lastProgress: dict[str, Any] | None = None  # noqa: N815  Spark's name
    error: Exception = field(default_factory=lambda: ValueError("state is lost"))

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        self.asked += 1
        return not self._failed

    @property
    def _failed(self) -> bool:
        return self.fails_after is not None and self.asked >= self.fails_after

    def exception(self) -> Exception | None:
        return self.error if self._failed else None

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self.message, "isTriggerActive": False}


@pytest.fixture
def host(tmp_path: Path) -> StreamHost:
    scene = make_scene(tmp_path)
    scene.begin()
    lake = scene.lake("hourly")
    pulse = RecordingPulse(lambda _: False)
    return StreamHost(None, lake.tables, lake.pipeline, tmp_path, RisingClock(), pulse)  # type: ignore[arg-type]


def counts(host: StreamHost) -> dict[str, int]:
    return {
        step.name: _failures(str(local(host.tables.checkpoint(step, 0))), None)
        for step in host.pipeline.specs
    }


def test_a_step_that_fails_a_moment_later_is_counted_too(host: StreamHost) -> None:
    host.queries = {"hourly": Query(0), "since": Query(5)}  # type: ignore[dict-item]
    with pytest.raises(StreamFailedError, match="its query ended"):
        host._check()
    assert counts(host) == {"hourly": 1, "since": 1}


@pytest.mark.parametrize(
    "sound", [Query(None, "Waiting for data to arrive"), Query(None, lastProgress={"batchId": 0})]
)
def test_a_step_that_runs_is_not(host: StreamHost, sound: Query) -> None:
    host.queries = {"hourly": Query(0), "since": sound}  # type: ignore[dict-item]
    with pytest.raises(StreamFailedError):
        host._check()
    assert counts(host) == {"hourly": 1, "since": 0}
