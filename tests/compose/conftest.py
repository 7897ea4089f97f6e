"""The services, up and healthy; or why they cannot be."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from penstock.config.settings import ROOT
from tests.compose.services import (
    IMAGE,
    OWNER,
    SLOW,
    Services,
    compose_command,
    docker,
    docker_command,
)
from tests.e2e.rides import RideFiles
from tests.e2e.running import Rest, eventually

REMEDY = (
    "no Docker with Compose answers here. Install it and start it (Debian: apt-get install"
    " docker.io docker-compose), and be root or user 1000: the tests look into the home folder"
)


def answers() -> bool:
    command = docker_command()
    if command is None or compose_command() is None or os.geteuid() not in {0, OWNER}:
        return False
    asked = [command, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def image() -> str:
    """The image of this checkout; built with the host's network, which needs no forwarding."""
    if not answers():
        pytest.skip(REMEDY)
    docker("build", "--network", "host", "-t", IMAGE, str(ROOT), seconds=1800)
    return IMAGE


@pytest.fixture(scope="session")
def services(image: str, request: pytest.FixtureRequest) -> Iterator[Services]:
    services = Services.made()
    failed_before = request.session.testsfailed
    try:
        services.compose("up", "-d", seconds=SLOW)
        assert eventually(lambda: not services.unhealthy(), SLOW), services.states()
        yield services
    finally:
        if request.session.testsfailed > failed_before:
            print(services.compose("logs", "--tail", "20"))
        services.end()


@pytest.fixture(scope="session")
def rides(services: Services) -> RideFiles:
    files = RideFiles(services.seen.settings.home)
    files.write_history()
    return files


@pytest.fixture
def airflow(services: Services) -> Rest:
    return services.rest()
