import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.__main__ import main
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.runtime.embedded.airflow_environment import project_environment


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path / "pipelines"))


def test_the_pipelines_of_the_project_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PENSTOCK_PIPELINES")
    for folder in ("live", "history"):  # make demo makes them
        (tmp_path / "home" / "demo" / "flights" / folder).mkdir(parents=True)
    (tmp_path / "home" / "demo" / "flights" / "nonstop.parquet").touch()
    assert main(["validate"]) == 0
    assert "flights" in capsys.readouterr().out


PIPELINE = """
source: {files: %s, format: jsonl}
%s
columns: {site: string}
event_time: t
steps: {s: {keys: [site], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT1S}}}
"""


@pytest.mark.parametrize(("source", "history", "line", "said"), [
    ("not/there", "", 2, r"source.files  the folder .*/home/not/there is not there. Name a folder"),
    ("a_file", "", 2, "source.files  the folder .*/a_file is a file. Name a folder"),
    ("here", "history: {files: here/old, format: jsonl}", 3, "lie in each other.*Put history and"),
    ("here", "history: {files: linked, format: jsonl}", 3, "lie in each other"),
    ("s3://bucket/live", "", 2, "s3:// cannot be read yet. Name a folder of this machine"),
    ("hdfs://name/live", "", 2, "hdfs:// cannot be read yet"),
])  # fmt: skip
def test_validate_says_where_a_source_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
    source: str, history: str, line: int, said: str,
) -> None:  # fmt: skip
    home = tmp_path / "home"
    (home / "here" / "old").mkdir(parents=True)
    (home / "a_file").touch()
    (home / "linked").symlink_to(home / "here")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.yaml").write_text(PIPELINE % (source, history))
    assert main(["validate"]) == 1
    complained = capsys.readouterr().err
    assert re.search(rf"p.yaml:{line}  .*{said}", complained), complained


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

    monkeypatch.setattr("penstock.runtime.embedded.lifecycle.up", refuse)
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
