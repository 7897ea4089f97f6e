import fcntl
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import StreamSpec
from penstock.runtime.streams.wish import Wish, write_wish

World = Any
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def used(corrected: World) -> World:
    """With reports and stream files, and another pipeline's beside them."""
    settings = corrected.settings
    for name in ("doors", "doors@next", ".gx/doors", ".gx/doors@next", "d"):
        (settings.docs / name).mkdir(parents=True)
    settings.streams.mkdir()
    for name in ("doors.supervisor.lock", "doors.driver.json", "doors2.driver.json"):
        (settings.streams / name).touch()
    (settings.home / "lake" / "doors2").mkdir()
    return corrected


def left(world: World) -> set[str]:
    home: Path = world.settings.home
    folders = (home / "lake", home / "docs", home / "docs" / ".gx", home / "streams")
    return {path.name for folder in folders for path in folder.iterdir()} - {".gx"}


def test_all_it_has_written_goes_and_nothing_else(used: World, run: Run) -> None:
    status, said, _ = run("remove", "doors", "--yes")

    assert status == 0
    assert left(used) == {"doors2", "d", "doors2.driver.json"}
    assert (used.settings.home / "doors" / "one.jsonl").exists()  # its source
    assert f"delete {used.settings.pipelines / 'doors.yaml'}" in said


@pytest.mark.parametrize(("typed", "status"), [("doors\n", 0), ("yes\n", 1), ("", 1)])
def test_it_asks_for_the_name(
    used: World, run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, status: int
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))

    assert run("remove", "doors")[0] == status
    assert ("doors" in left(used)) == bool(status)


@pytest.mark.parametrize("lock", ["doors.supervisor.lock", "doors.driver.lock"])
def test_it_refuses_while_the_stream_runs(used: World, run: Run, lock: str) -> None:
    with (used.settings.streams / lock).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, _, complained = run("remove", "doors", "--yes")

    assert status == 1
    assert "Pause the DAG stream__doors" in complained
    assert "doors" in left(used)


def test_it_refuses_while_the_stream_is_wanted_of_a_stream_runner(used: World, run: Run) -> None:
    paths = StreamPaths(used.settings.streams, "doors")
    write_wish(paths, Wish.of(StreamSpec(("true",), ".", "log")))
    status, _, complained = run("remove", "doors", "--yes")

    assert status == 1
    assert "its stream is wanted" in complained
    paths.wish.unlink()
    assert run("remove", "doors", "--yes")[0] == 0


def test_nothing_there_is_no_error(world: World, run: Run) -> None:
    status, said, _ = run("remove", "doors", "--yes")

    assert status == 0
    assert "Nothing to remove" in said


def test_a_pipeline_whose_file_is_gone_can_be_removed(used: World, run: Run) -> None:
    (used.settings.pipelines / "doors.yaml").unlink()

    status, said, _ = run("remove", "doors", "--yes")

    assert status == 0
    assert "Its file stays" not in said
    assert "doors" not in left(used)


@pytest.mark.parametrize("name", ["dors", "..", "../doors", ".", "*"])
def test_a_name_that_is_no_pipeline(used: World, run: Run, name: str) -> None:
    status, _, complained = run("remove", name, "--yes")

    assert status == 1
    assert f"no pipeline is called {name}" in complained
    assert "doors" in left(used)
