"""A kept definition that cannot be read for a moment is no definition that is gone."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.__main__ import main
from penstock.config.kept import (
    approve,
    catalog_in_force,
    keep,
    kept_file,
    put_out,
    read_files,
    take_back,
)
from penstock.config.settings import Settings
from penstock.runtime.streams.linked import LinkedPipelines
from penstock.runtime.streams.links import link
from penstock.runtime.streams.paths import StreamPaths
from tests.unit.config.test_held_edits import (
    GUEST,
    LOG,
    MINUTES,
    OTHER,
    pasts,
    run_all,
    settings_of,
)


@contextmanager
def unreadable(*files: Path) -> Iterator[None]:
    """As if a process had too many open files just then."""
    really = Path.read_text

    def read_text(self: Path, *args: str, **kwargs: str) -> str:
        if self in files:
            raise OSError(errno.EMFILE, "Too many open files", str(self))
        return really(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "read_text", read_text)
        yield


def test_an_edit_that_waits_is_not_followed_for_it(tmp_path: Path) -> None:
    """Whoever reads fails and tries again; nothing takes the pipeline for a new one."""
    settings = settings_of(tmp_path)
    before = pasts(run_all(settings, gates=LOG))
    (settings.pipelines / "gates.yaml").write_text(OTHER)
    with unreadable(kept_file(settings, "gates")), pytest.raises(OSError, match="Too many"):
        keep(settings, catalog_in_force(settings))

    found = catalog_in_force(settings)

    assert found.held == {"gates"}
    assert pasts(found) == before


def test_nor_what_was_taken_back(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    before = pasts(run_all(settings, gates=LOG, trucks=MINUTES))
    run_all(settings, gates=LOG.replace("PT10S", "PT20S"))
    approve(settings, "gates", read_files(settings).pipeline("gates").digest)
    run_all(settings, vans=MINUTES.replace("PT10S", "PT20S"))
    take_back(settings, "gates")
    with unreadable(kept_file(settings, "gates@next")), pytest.raises(OSError, match="Too many"):
        keep(settings, catalog_in_force(settings))

    found = catalog_in_force(settings)

    assert found.held == {"gates"}
    assert pasts(found)["gates.minute"] == before["gates.minute"]


def test_a_host_does_not_take_its_guest_for_gone(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, waits=False)
    catalog = run_all(settings, gates=LOG, trucks=GUEST)
    for name in ("gates", "trucks"):
        link(StreamPaths(settings.streams, "gates"), name)
    linked = LinkedPipelines(settings, catalog.pipeline("gates"))
    assert [each.name for each in linked()] == ["gates", "trucks"]
    (settings.pipelines / "other.yaml").write_text(LOG)  # so it looks again
    with unreadable(settings.pipelines / "trucks.yaml", kept_file(settings, "trucks")):
        linked()
    assert [each.name for each in linked()] == ["gates", "trucks"]


def validate(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("PENSTOCK_HOME", str(settings.home))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(settings.pipelines))
    return main(["validate"])


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_never_can_be_read_is_its_own_pipelines_affair(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    waits: bool,
) -> None:
    settings = settings_of(tmp_path, waits=waits)
    run_all(settings, gates=LOG, other=OTHER)
    kept_file(settings, "other").unlink()
    kept_file(settings, "other").mkdir()
    (settings.pipelines / "other.yaml").write_text("a typo")
    found = catalog_in_force(settings)
    assert [each.name for each in found.pipelines] == ["gates"]
    assert not put_out(settings, found)
    assert validate(settings, monkeypatch) == 1
    said = f"other.yaml:1  file  what it last said cannot be read: {kept_file(settings, 'other')}: "
    assert f"{said}Is a directory. See to both files" in capsys.readouterr().err


def test_a_command_that_cannot_read_one_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of(tmp_path, waits=False)
    run_all(settings, gates=LOG, trucks=GUEST)
    (settings.pipelines / "gates.yaml").unlink()
    with unreadable(log := kept_file(settings, "gates")):
        assert validate(settings, monkeypatch) == 1
    assert f"{log}: Too many open files. See to that" in capsys.readouterr().err


def test_a_copy_that_goes_while_it_is_asked_for_is_gone(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    run_all(settings, gates=LOG)
    (settings.pipelines / "gates.yaml").write_text("a typo")
    kept_file(settings, "gates").unlink()
    assert catalog_in_force(settings).standing_in == frozenset()
