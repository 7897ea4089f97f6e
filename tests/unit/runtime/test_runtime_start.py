import os
import socket
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.runtime.embedded import checks
from penstock.runtime.embedded.airflow_environment import airflow_environment
from penstock.runtime.embedded.lifecycle import anchored
from penstock.runtime.embedded.postgres import Postgres


def java(folder: Path, says: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17"),
        ('openjdk version "21" 2023-09-19', "21"),
        ('openjdk version "25-ea" 2025-09-16', "25"),
    ],
)
def test_a_java_that_is_new_enough_is_taken(
    says: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, says)))
    assert checks.check_java() == version


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', "what?"])
def test_a_java_that_is_too_old_or_unknown_is_refused_with_the_remedy(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, says)))
    with pytest.raises(ConfigError, match="Install Java 17"):
        checks.check_java()


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no java on the PATH"):
        checks.check_java()


def test_a_busy_port_names_who_has_it() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"pid {os.getpid()}.*PENSTOCK_PORT={port + 1}"):
            checks.check_port(port)
    checks.check_port(port)


def test_a_home_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        checks.check_home(tmp_path / "file" / "home")


def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(ConfigError, match="MB are free"):
        checks.check_home(tmp_path)


def test_jars_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{empty}  a.jar\n")
    with pytest.raises(ConfigError, match="is missing"):
        checks.check_jars(sums, tmp_path)
    (tmp_path / "a.jar").write_bytes(b"x")
    with pytest.raises(ConfigError, match="is damaged"):
        checks.check_jars(sums, tmp_path)
    (tmp_path / "a.jar").write_bytes(b"")
    checks.check_jars(sums, tmp_path)


def test_a_deep_folder_gets_a_short_socket_path(tmp_path: Path) -> None:
    near = Path("/home/me/penstock/.penstock/postgres")
    assert Postgres(near).socket_folder == near
    deep = tmp_path / ("d" * 120) / "postgres"
    short = Postgres(deep).socket_folder
    assert short != deep
    assert len(os.fsencode(short / ".s.PGSQL.5432")) <= 100
    assert Postgres(deep).socket_folder == short


def test_airflow_is_told_its_folders_its_port_and_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "a leaked one")
    monkeypatch.setenv("AIRFLOW_HOME", "a leaked one")
    monkeypatch.setenv("NO_PROXY", "intranet")
    settings = Settings(home=tmp_path, port=4711, spark_master="spark://far:7077")
    told = airflow_environment(settings, "postgresql://")
    assert told["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert told["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert told["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:4711/execution/"
    assert '"spark://far:7077"' in told["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert told["PENSTOCK_HOME"] == str(tmp_path)
    assert told["NO_PROXY"] == "intranet,127.0.0.1,localhost"


def test_relative_paths_hold_in_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert anchored(Settings(home=Path("here"))).home == tmp_path / "here"
