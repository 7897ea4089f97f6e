"""What Penstock writes is for its owner: home closed, files made private, one user let through."""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.runtime.embedded import privacy, report
from penstock.runtime.embedded.airflow_environment import airflow_environment, passwords_file
from penstock.runtime.embedded.checks import check_home

OTHER, THIRD = 54321, 54322


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def passes(folder: Path, uid: int) -> bool:
    """Whether a user gets at a folder within; only root can ask for another one."""
    asked = subprocess.run(
        ("stat", folder / "within"),
        user=uid, group=uid, extra_groups=[], check=False, capture_output=True, cwd="/",
    )  # fmt: skip
    return not asked.returncode


def test_the_home_is_for_its_owner_also_one_that_was_open(tmp_path: Path) -> None:
    for home in (tmp_path / "new", tmp_path / "old"):
        if home.name == "old":
            home.mkdir(mode=0o755)
        check_home(home)
        assert mode(home) == 0o700


@pytest.fixture
def closed() -> Iterator[Path]:
    """Not below pytest's folder: each start of pytest closes that one again."""
    with TemporaryDirectory() as made:
        (Path(made) / "within").mkdir()
        yield Path(made)


def test_one_user_is_let_through_a_folder_and_nobody_else(closed: Path) -> None:
    folder = closed

    for _ in range(2):  # the second start changes nothing
        privacy.let_through(folder, OTHER)
        privacy.close(folder)

        assert mode(folder) & 0o007 == 0
        listed = os.getxattr(folder, "system.posix_acl_access")
        assert listed.count(OTHER.to_bytes(4, "little")) == 1
        assert (b"\x02\x00\x01\x00" + OTHER.to_bytes(4, "little")) in listed, "search, not read"
        if os.geteuid() == 0:
            assert passes(folder, OTHER)
            assert not passes(folder, THIRD)


def test_an_open_folder_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    privacy.let_through(tmp_path, OTHER)

    assert mode(tmp_path) == 0o755
    with pytest.raises(OSError, match="No data"):
        os.getxattr(tmp_path, "system.posix_acl_access")


def test_without_access_lists_the_remedies_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "setxattr", refuse)

    with pytest.raises(ConfigError, match="as a user of its own, or put it where everybody may"):
        privacy.let_through(tmp_path, OTHER)
    assert mode(tmp_path) == 0o700


def test_what_a_job_writes_is_for_its_owner(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from penstock.control.job import run_job\n"
        "def work(request, settings):\n"
        "    folder = Path(sys.argv[1]) / 'table'\n"
        "    folder.mkdir()\n"
        "    (folder / 'part').write_text('')\n"
        "    return {}\n"
        "sys.exit(run_job(work, ['--job', 'maintain', '--run-id', 'x']))\n"
    )
    job = (sys.executable, "-c", code, str(tmp_path))
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(job, check=True, umask=0o022, capture_output=True, env=os.environ | path)

    assert mode(tmp_path / "table") == 0o700
    assert mode(tmp_path / "table" / "part") == 0o600


def test_passwords_are_shown_once(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    airflow_environment(settings, "postgresql://")
    file = passwords_file(settings)
    shown = []
    for first in (True, False):
        console = Console(record=True, width=200, file=StringIO())
        report.show_entrance(settings, "http://127.0.0.1:8080", console, first=first)
        shown.append(console.export_text())

    words = [word for word in file.read_text().split('"') if len(word) == 14]
    assert len(words) == 2
    assert all(word in shown[0] and word not in shown[1] for word in words)
    assert all(str(file) in text for text in shown)
