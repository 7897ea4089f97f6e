"""docker-compose.yaml says what it should; no Docker engine is needed for that."""

import subprocess
from typing import Any

import pytest
import yaml

from penstock.config.settings import ROOT
from tests.compose.services import compose_command

FILE = ROOT / "docker-compose.yaml"
PASSING = {"init", "penstock"}
"""Services that end by themselves."""


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(FILE.read_text())["services"]


def test_compose_takes_the_file() -> None:
    command = compose_command()
    if command is None:
        pytest.skip("Compose is not here. Install it (Debian: apt-get install docker-compose)")
    asked = [*command, "-f", str(FILE), "config", "-q"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_service_runs_without_rights_and_within_limits(
    services: dict[str, dict[str, Any]],
) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {"mem_limit", "cpus", "pids_limit"} <= service.keys(), name
        assert not service.get("privileged"), name


def test_every_service_that_stays_is_asked_how_it_is(services: dict[str, dict[str, Any]]) -> None:
    asked = {name for name, service in services.items() if "healthcheck" in service}
    assert asked == services.keys() - PASSING


def test_nothing_is_published_but_the_user_interface_on_this_machine(
    services: dict[str, dict[str, Any]],
) -> None:
    published = {name: s["ports"] for name, s in services.items() if "ports" in s}
    assert published.keys() == {"api-server"}
    assert published["api-server"][0].startswith("${PENSTOCK_PUBLISH:-127.0.0.1}:")


def test_only_airflow_sees_its_secrets_and_its_database(
    services: dict[str, dict[str, Any]],
) -> None:
    def seeing(volume: str) -> set[str]:
        mounts = {name: service.get("volumes", []) for name, service in services.items()}
        return {n for n, each in mounts.items() if any(m.startswith(f"{volume}:") for m in each)}

    airflow = {"init", "api-server", "scheduler", "dag-processor", "triggerer", "penstock"}
    assert seeing("airflow") == airflow
    assert seeing("sockets") == airflow | {"postgres"}
    assert seeing("postgres") == {"postgres"}


def test_the_database_stops_after_those_that_use_it(services: dict[str, dict[str, Any]]) -> None:
    """Compose stops a service before those that it depends on."""
    for name in ("init", "api-server", "scheduler", "dag-processor", "triggerer"):
        assert "postgres" in services[name]["depends_on"], name


def test_what_goes_into_the_image_is_named() -> None:
    """Data, secrets and whatever else lies in a checkout stay out."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    taken = {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / each).exists() for each in taken)
    assert not taken & {".", ".penstock", ".venv", ".git"}
