import subprocess
import sys
from pathlib import Path

import pytest

from penstock.__main__ import main
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.runtime.airflow_environment import project_environment


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path / "pipelines"))


def test_the_pipelines_of_the_project_are_valid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PENSTOCK_PIPELINES")
    assert main(["validate"]) == 0
    assert "flights" in capsys.readouterr().out


def test_validate_tells_the_problems_of_all_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "one.yaml").write_text("nonsense: 1\n")
    (tmp_path / "pipelines" / "two.yaml").write_text("- [\n")
    assert main(["validate"]) == 1
    said = capsys.readouterr().err
    assert "one.yaml:1" in said
    assert "two.yaml:" in said


def test_a_folder_that_is_missing_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 1
    assert capsys.readouterr().err.startswith("penstock: ")


def test_a_wrong_setting_is_one_message_with_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_PORT", "high")
    assert main(["status"]) == 1
    assert "PENSTOCK_PORT" in capsys.readouterr().err


def test_what_never_ran_can_be_stopped_and_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down"]) == 0
    assert "Nothing runs" in capsys.readouterr().out
    assert main(["status"]) == 1
    assert "make up" in capsys.readouterr().out
    assert not (tmp_path / "home").exists()


def test_a_user_error_is_never_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("no [room] here")

    monkeypatch.setattr("penstock.runtime.embedded.up", refuse)
    assert main(["up"]) == 1
    assert capsys.readouterr().err == "penstock: no [room] here\n"


def test_listing_the_commands_loads_no_engine() -> None:
    program = (
        "import sys; from penstock.__main__ import parser; print(parser().format_help());"
        " sys.exit(bool({'airflow', 'pyspark', 'great_expectations', 'httpx'} & set(sys.modules)))"
    )
    environment = project_environment(Settings())
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert done.returncode == 0
