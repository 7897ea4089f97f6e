"""What is run for a stream, and how patiently. Standard library only."""

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.control.nodes import conf_environment
from penstock.core.request import Job, JobRequest

if TYPE_CHECKING:
    from penstock.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Patience of a supervisor, in seconds unless said otherwise.

    The defaults suit two cores at load 30, where all takes 15 times as long: the first heartbeat
    follows 2 s of imports, and a heartbeat may wait for a disk.

    Attributes:
        tick: between two looks.
        start: until the first heartbeat.
        stale: without a heartbeat until the driver counts as hung and is killed.
        stop: for a graceful stop, then the driver is killed.
        healthy: a driver that had nothing to seal and lived longer resets the count of restarts
            in a row; one that sealed something always does.
        backoff: before the first restart in a row; doubles with each.
        backoff_most: longest wait before a restart.
        restarts: most restarts in a row (a number), then the supervisor gives up.
    """

    tick: float = 0.5
    start: float = 600.0
    stale: float = 120.0
    stop: float = 90.0
    healthy: float = 60.0
    backoff: float = 2.0
    backoff_most: float = 60.0
    restarts: int = 6


@dataclass(frozen=True)
class StreamSpec:
    """The driver's command line and surroundings.

    Attributes:
        argv: command line; two specs with different ones are different streams' states.
        folder: working folder.
        log: file of the driver's output; rotated.
        environment: variables on top of the inherited ones; no secrets, the spec is a file.
        limits: the supervisor's patience.
    """

    argv: tuple[str, ...]
    folder: str
    log: str
    environment: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of(cls, settings: "Settings", pipeline: str, digest: str | None) -> Self:
        """The spec of a pipeline's stream host.

        Its run id is a constant: a host outlives the runs of the DAG that watches it.
        """
        request = JobRequest(
            job=Job.STREAM, run_id=f"stream__{pipeline}", pipeline=pipeline, digest=digest
        )
        script = settings.root / "spark_jobs" / "stream.py"
        return cls(
            argv=(sys.executable, str(script), *request.to_argv()),
            folder=str(settings.root),
            log=str(settings.logs / "streams" / f"{pipeline}.log"),
            environment=environment_of(settings),
        )

    @property
    def identity(self) -> str:
        """Equal for specs that run the same thing; a host of another identity is replaced."""
        meant = json.dumps([self.argv, self.folder, sorted(self.environment.items())])
        return hashlib.sha256(meant.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The inverse of ``to_json``."""
        return cls(
            **{
                **content,
                "argv": tuple(content["argv"]),
                "limits": Limits(**content["limits"]),
            }
        )


def environment_of(settings: "Settings") -> dict[str, str]:
    """Variables by which a child process has the same settings and the same Python."""
    settled = {f"PENSTOCK_{n.upper()}": str(getattr(settings, n)) for n in settings.model_dump()}
    folder = str(Path(__file__).resolve().parents[3])
    here = {"PYTHONPATH": folder, "PYSPARK_PYTHON": sys.executable}
    return settled | here | conf_environment(settings.spark_master, settings.home)
