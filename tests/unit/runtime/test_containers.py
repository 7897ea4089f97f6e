"""What containers become, and what their first start makes."""

import json
import stat
from pathlib import Path
from urllib.parse import unquote

import pytest
from rich.console import Console

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.containers import programs
from penstock.runtime.containers.__main__ import main
from penstock.runtime.containers.first_start import ensure_spark_secret
from penstock.runtime.embedded.lifecycle import down, password, up
from penstock.runtime.streams.paths import take_lock

AIRFLOW = "http://api-server:9090"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", port=9090, airflow_url=AIRFLOW)


def test_airflows_secrets_are_in_its_environment_and_not_on_its_command_line(
    settings: Settings,
) -> None:
    program = programs.airflow(settings, "scheduler", "--skip-serve-logs")
    assert program.command[1:] == ("-m", "airflow", "scheduler", "--skip-serve-logs")
    keys = json.loads((settings.airflow_home / "keys.json").read_text())
    assert program.environment["AIRFLOW__API_AUTH__JWT_SECRET"] == keys["jwt"]
    assert not [word for word in program.command if word in keys.values()]


def test_airflow_is_reached_at_its_service_and_shown_where_it_is_published(
    settings: Settings,
) -> None:
    environment = programs.airflow(settings, "api-server").environment
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == f"{AIRFLOW}/execution/"
    assert environment["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:9090"
    assert "api-server" in environment["NO_PROXY"].split(",")
    where = unquote(environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    assert where.endswith(f"?host={settings.home}/sockets")


def test_sparks_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "spark" / "spark-defaults.conf"
    ensure_spark_secret(file)
    made = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = dict(line.split() for line in made.splitlines())
    assert lines["spark.authenticate"] == "true"
    assert len(lines["spark.authenticate.secret"]) == 64
    assert lines["spark.executor.logs.rolling.strategy"] == "size"
    ensure_spark_secret(file)
    assert file.read_text() == made
    ensure_spark_secret(tmp_path / "another" / "spark-defaults.conf")
    assert (tmp_path / "another" / "spark-defaults.conf").read_text() != made


def test_a_second_container_does_not_start_postgresql_on_the_same_data(settings: Settings) -> None:
    settings.home.mkdir()
    assert take_lock(settings.home / "postgres.lock") is not None
    with pytest.raises(TransientError, match="another container runs PostgreSQL"):
        programs.postgres(settings)


def test_an_unknown_role_is_one_line_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nothing"]) == 2
    said = capsys.readouterr().err
    assert "stream-runner" in said
    assert "spark-worker" in said


@pytest.mark.parametrize("act", [up, down])
def test_embedded_mode_leaves_another_airflow_alone(settings: Settings, act: object) -> None:
    with pytest.raises(ConfigError, match="docker compose"):
        act(settings, Console())  # type: ignore[operator]
    assert not settings.home.exists()


def test_a_password_that_is_not_there_is_one_message(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="holds no password of admin"):
        password(settings, "admin")
