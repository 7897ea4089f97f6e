"""Docker and Compose by their command lines, and what they say of a project's containers."""

import getpass
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.cluster.executors import PROGRAM, Executor

SECONDS = 120
"""For a command; a start of a container takes seconds."""
ONE_OFF, NUMBER, PROJECT, SERVICE = (
    f"com.docker.compose.{name}" for name in ("oneoff", "container-number", "project", "service")
)


@dataclass(frozen=True, slots=True)
class Container:
    """One of the project's.

    Attributes:
        id: Docker's.
        labels: of it.
        address: in the project's network; empty: it does not run.
        status: created, running, restarting, exited, ...
        restarts: so often Docker has started it again.
        mounts: folder of the host by folder in the container.
    """

    id: str
    labels: dict[str, str]
    address: str
    status: str
    restarts: int
    mounts: dict[str, str]

    @classmethod
    def of(cls, told: dict[str, Any]) -> Self:
        """Of what ``docker inspect`` says."""
        networks = told["NetworkSettings"]["Networks"].values()
        return cls(
            id=told["Id"],
            labels=told["Config"]["Labels"],
            address=next((n["IPAddress"] for n in networks if n["IPAddress"]), ""),
            status=told["State"]["Status"],
            restarts=told["RestartCount"],
            mounts={each["Destination"]: each.get("Source", "") for each in told["Mounts"]},
        )

    @property
    def service(self) -> str:
        """Of the compose file."""
        return self.labels[SERVICE]

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return self.status == "running"


class Docker:
    """The command lines, in the folder of the compose file.

    Args:
        folder: of docker-compose.yaml.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compose: tuple[str, ...] = ()

    def find(self) -> None:
        """Find Compose, and see that Docker answers.

        Raises:
            ConfigError: they are not installed.
            TransientError: Docker does not answer.
        """
        missing = "Docker with Compose is not installed here. Install it (docker compose, or"
        if shutil.which("docker") is None:
            raise ConfigError(
                f"{missing} docker-compose). A pool of containers is kept from the host, not from"
                " within one of them"
            )
        try:
            self.ask("compose", "version")
            self._compose = ("docker", "compose")
        except TransientError:
            if shutil.which("docker-compose") is None:
                raise ConfigError(f"{missing} docker-compose)") from None
            self._compose = ("docker-compose",)
        try:
            self.ask("version", "--format", "{{.Server.Version}}")
        except TransientError as silent:
            raise TransientError(
                f"{silent}. Start Docker, or let {getpass.getuser()} use it (group docker)"
            ) from silent

    def compose(self, *words: str) -> str:
        """What Compose says.

        Raises:
            TransientError: it fails.
        """
        return self._said((*self._compose, *words))

    def ask(self, *words: str) -> str:
        """What Docker says.

        Raises:
            TransientError: it fails.
        """
        return self._said(("docker", *words))

    def containers(self, *ids: str) -> list[Container]:
        """Those with these ids.

        Raises:
            TransientError: Docker does not answer, or one of them has gone meanwhile.
        """
        return [Container.of(each) for each in json.loads(self.ask("inspect", *ids))] if ids else []

    def project(self, name: str) -> list[Container]:
        """All containers of a project, also those that do not run.

        Raises:
            TransientError: as ``containers``.
        """
        return self.containers(
            *self.ask("ps", "-aq", "--filter", f"label={PROJECT}={name}").split()
        )

    def executors(self, container: str) -> list[Executor]:
        """Those that run in a container, by the host's numbers.

        Raises:
            TransientError: Docker does not answer, or the container does not run.
        """
        told = self.ask("top", container, "-eo", "pid,caught,args")
        rows = (line.split(None, 2) for line in told.splitlines() if PROGRAM in line)
        return [Executor.of(int(pid), caught) for pid, caught, _ in rows]

    def _said(self, words: tuple[str, ...]) -> str:
        try:
            done = subprocess.run(
                words, cwd=self._folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise TransientError(f"{' '.join(words[:2])} does not answer: {failed}") from failed
        if done.returncode:
            said = " ".join(done.stderr.split())[-500:]
            raise TransientError(f"{' '.join(words[:2])} failed: {said}")
        return done.stdout


def is_same_folder(one: Path, other: str) -> bool:
    """Whether two names of this host mean one folder; no: it cannot be seen."""
    try:
        return one.samefile(other)
    except OSError:
        return False
