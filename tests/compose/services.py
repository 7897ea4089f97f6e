"""The services of docker-compose.yaml, as a person starts, breaks and asks them."""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.config.settings import ROOT, Settings
from tests.e2e.running import Embedded, Rest, free_port

IMAGE = "penstock:0.1.0"
SLOW = 1_200.0
"""Seconds; only a failure takes so long: all of it starts and runs on one machine."""
OWNER = 1000
"""The user in the image."""


def compose_command() -> list[str] | None:
    """How Compose is called here; None: it is not installed."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    docker = docker_command()
    asked = [str(docker), "compose", "version"]
    if docker and subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        return [docker, "compose"]
    return None


def docker_command() -> str | None:
    """Docker's own command: another of that name may stand before it on the path."""
    own = Path("/usr/bin/docker")
    return str(own) if own.exists() else shutil.which("docker")


def docker(*words: str, seconds: float = 120) -> str:
    """What Docker says."""
    done = subprocess.run([docker_command() or "docker", *words], capture_output=True, text=True,
                          timeout=seconds, check=False)  # fmt: skip
    assert done.returncode == 0, (
        f"docker {' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout


@dataclass(frozen=True)
class Services:
    """One project of Compose with a home folder, pipeline files and a port of its own.

    The home folder is one of this machine, so that the tests can look into it.

    Attributes:
        folder: of all that; ``cluster.yaml`` is the file of its cluster.
        port: of the user interface.
    """

    folder: Path
    port: int

    @property
    def project(self) -> str:
        return f"penstock-test-{self.port}"

    @property
    def seen(self) -> Embedded:
        """The home folder, its pipeline and tables."""
        return Embedded(
            Settings(
                home=self.folder / "home",
                pipelines=self.folder / "pipelines",
                cluster=self.folder / "cluster.yaml",
                port=self.port,
            )
        )

    @classmethod
    def made(cls, cluster: str = "pool: standalone") -> Self:
        """With the pipeline ``rides``; nothing runs yet."""
        folder = Path(tempfile.mkdtemp(prefix="penstock-compose-"))
        folder.chmod(0o755)
        for name in ("home", "pipelines"):
            (folder / name).mkdir()
        shutil.chown(folder / "home", OWNER)
        shutil.copy(ROOT / "tests/e2e/rides.yaml", folder / "pipelines")
        (folder / "cluster.yaml").write_text(cluster)
        return cls(folder, free_port())

    @property
    def environment(self) -> dict[str, str]:
        """By which Compose, and the command on this host, know the project."""
        return {
            "COMPOSE_PROJECT_NAME": self.project,
            "PENSTOCK_PORT": str(self.port),
            "PENSTOCK_PIPELINES": str(self.folder / "pipelines"),
            "PENSTOCK_HOME": str(self.folder / "home"),
            "PENSTOCK_CLUSTER": str(self.folder / "cluster.yaml"),
        }

    def end(self) -> None:
        """Leave nothing."""
        self.compose("down", "-v", "--remove-orphans")
        shutil.rmtree(self.folder, ignore_errors=True)

    def compose(self, *words: str, seconds: float = 600) -> str:
        """What Compose says."""
        done = subprocess.run(
            [*(compose_command() or []), *words], env=os.environ | self.environment, cwd=ROOT,
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"{' '.join(words)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
        return done.stdout

    def containers(self, service: str = "") -> list[str]:
        """Ids of a service's containers, or of all, also of those that have ended."""
        labels = ["--filter", f"label=com.docker.compose.project={self.project}"]
        if service:
            labels += ["--filter", f"label=com.docker.compose.service={service}"]
        return docker("ps", "-aq", *labels).split()

    def states(self) -> dict[str, str]:
        """Health of each service, the worst of its containers'; of what has none, its state."""
        found: dict[str, set[str]] = {}
        for one in json.loads(docker("inspect", *self.containers())):
            service = one["Config"]["Labels"]["com.docker.compose.service"]
            state = one["State"].get("Health", one["State"])["Status"]
            found.setdefault(service, set()).add(state)
        return {service: min(states - {"healthy"}, default="healthy")
                for service, states in found.items()}  # fmt: skip

    def unhealthy(self) -> dict[str, str]:
        """Services that are not as they should be."""
        return {name: state for name, state in self.states().items()
                if state != ("exited" if name == "init" else "healthy")}  # fmt: skip

    def inside(self, service: str, *words: str) -> str:
        """Run a command in a service's first container."""
        return docker("exec", self.containers(service)[0], *words)

    def rest(self) -> Rest:
        """Airflow, with the password of the first start."""
        file = "/var/lib/penstock/airflow/passwords.json"
        password = json.loads(self.inside("api-server", "cat", file))["admin"]
        logs = self.seen.settings.logs / "airflow"
        rest = Rest(f"http://127.0.0.1:{self.port}", ("admin", password), logs)
        rest.patience = SLOW
        return rest
