"""Backup and restore: what is copied, what a kill leaves, what is refused; no JVM."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.core.errors import ConfigError
from penstock.lake.backup import copying, manifest, restore, save
from penstock.lake.backup.manifest import DamagedBackupError
from penstock.lake.backup.restore import NotRestoredError, restore_backup
from penstock.lake.backup.save import NotTakenError, Taken, take_backup
from penstock.lake.history import maintain
from penstock.lake.history.maintain import maintain_pipeline, specs_of
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import DamagedTableError
from penstock.lake.storage.read import read_table
from tests.doubles import FixedClock, Killed, dies_at
from tests.lakes import Lake, arrive, fed

Content = dict[str, dict[str, str]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Answered and corrected; files are still to come."""
    lake = fed(tmp_path / "home")
    more(lake)
    (lake.home / "pipelines").mkdir()
    (lake.home / "pipelines" / "p.yaml").write_text("a pipeline")
    return lake


def more(lake: Lake) -> None:
    arrive(lake)
    lake.ingest()
    lake.query().run()
    lake.correct()


def back_up(lake: Lake, folder: Path) -> Taken:
    return take_backup(lake.home / "lake", folder, lake.home / "pipelines", FixedClock())


def content(root: Path) -> Content:
    """The data files of every table below a folder, with what is in them."""
    found = {}
    for log in sorted(root.glob("**/_delta_log")):
        actions = pa.table(DeltaTable(str(log.parent)).get_add_actions())
        files = [log.parent / path for path in sorted(actions["path"].to_pylist())]
        sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        found[str(log.parent.relative_to(root))] = sums
    return found


def restored(folder: Path, home: Path) -> Content:
    restore_backup(folder, home / "lake", FixedClock())
    return content(home / "lake")


@contextmanager
def killed_at(moment: int) -> Iterator[Counter[str]]:
    """Dies at a point of its code, counted from one; the points that were reached."""
    death, seen = dies_at(moment), Counter[str]()

    def reached(*point: str) -> None:
        seen[" ".join(point)] += 1
        death()

    with pytest.MonkeyPatch.context() as patch:
        for module in (copying, manifest, restore, save):
            patch.setattr(module, "reached", reached)
        yield seen


def points_of(act: Callable[[], Any]) -> tuple[int, set[str]]:
    with killed_at(0) as seen:
        act()
    return seen.total(), {*seen}


def test_a_restored_lake_holds_what_was_there_at_the_same_versions(
    lake: Lake, tmp_path: Path
) -> None:
    was = content(lake.home / "lake")
    taken = back_up(lake, tmp_path / "backup")
    more(lake)

    assert restored(tmp_path / "backup", tmp_path / "other") == was
    for table in taken.manifest.tables:
        there = DeltaTable(str(tmp_path / "other" / "lake" / table.path))
        assert there.version() == table.version
    assert not (tmp_path / "other" / "lake" / "p" / "checkpoints").exists()
    assert not list((tmp_path / "other").glob("lake.*"))


def test_pipeline_files_are_kept_and_what_an_editor_left_among_them_is_not(
    lake: Lake, tmp_path: Path
) -> None:
    (lake.home / "pipelines" / "q.yml").write_text("another one")
    (lake.home / "pipelines" / ".#p.yaml").symlink_to("user@host.1234:99")

    taken = back_up(lake, tmp_path / "backup")

    assert sorted(file.path for file in taken.manifest.pipelines) == ["p.yaml", "q.yml"]


def test_the_second_time_only_new_files_are_copied(lake: Lake, tmp_path: Path) -> None:
    first = back_up(lake, tmp_path / "backup")
    again = back_up(lake, tmp_path / "backup")
    assert (first.files > 6, again.files, again.size) == (True, 0, 0)
    assert [t.files for t in again.manifest.tables] == [t.files for t in first.manifest.tables]

    before = {file for files in content(lake.home / "lake").values() for file in files}
    more(lake)
    new = {file for files in content(lake.home / "lake").values() for file in files} - before
    third = back_up(lake, tmp_path / "backup")
    sizes = [path.stat().st_size for path in (lake.home / "lake").rglob("*") if path.name in new]
    assert (third.files, third.size) == (len(new), sum(sizes))
    assert restored(tmp_path / "backup", tmp_path / "other") == content(lake.home / "lake")


def test_what_no_backup_needs_any_more_goes_when_the_new_one_is_there(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"
    back_up(lake, folder)
    monkeypatch.setattr(maintain, "FEW_FILES", 2)
    more(lake)
    maintain_pipeline(lake.tables, lake.pipeline)
    taken = back_up(lake, folder)

    needed = {taken.manifest.place(folder, path) for path, _ in taken.manifest.files()}
    mine = folder / f"at-{taken.manifest.number}"
    there = {path for path in folder.rglob("*") if path.is_file()}
    assert there == {*needed, folder / "manifest.json", mine / "pipelines" / "p.yaml"}
    assert restored(folder, tmp_path / "other") == content(lake.home / "lake")


def an_hour_passes(lake: Lake) -> None:
    """What a checkpoint sums up is cleaned away from the logs."""
    for log in (lake.home / "lake").glob("p/*/_delta_log"):
        entries = sorted(log.glob("*.json"))
        for entry in entries[:-1]:
            entry.unlink()


@pytest.mark.parametrize("beside", ["compaction", "vacuum", "removal"])
def test_maintenance_beside_it_breaks_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    more(lake)
    monkeypatch.setattr(maintain, "FEW_FILES", 2)
    if beside != "compaction":
        monkeypatch.setattr(maintain, "KEEP_HOURS", 0)
    copy, seen = save.copied, list[str]()

    def busy(source: Path, target: Path, path: str, *rest: Any) -> Any:
        if source.suffix == ".parquet" and not seen:
            seen.append(path)
            maintain_pipeline(lake.tables, lake.pipeline)
            if beside == "removal":
                an_hour_passes(lake)
        return copy(source, target, path, *rest)

    monkeypatch.setattr(save, "copied", busy)
    back_up(lake, tmp_path / "backup")

    assert seen
    found = restored(tmp_path / "backup", tmp_path / "other")
    if beside != "compaction":
        assert found == content(lake.home / "lake")
    for spec in specs_of(lake.tables, lake.pipeline).values():
        there = spec.uri.replace(str(lake.home), str(tmp_path / "other"))
        other = replace(spec, uri=there)
        assert read_table(Table(other)).num_rows == read_table(Table(spec)).num_rows


def test_a_backup_killed_anywhere_leaves_the_former_or_the_new_one(
    lake: Lake, tmp_path: Path
) -> None:
    folder, kept = tmp_path / "backup", tmp_path / "kept"
    back_up(lake, folder)
    former = content(lake.home / "lake")
    more(lake)
    new = content(lake.home / "lake")
    shutil.copytree(folder, kept)
    moments, points = points_of(lambda: back_up(lake, kept))
    assert {"before copied", "before manifest", "after manifest", "after tidied"} <= points
    found = []
    for moment in {*range(1, moments, 60), *range(moments - 4, moments + 1)}:
        mine = tmp_path / f"killed-{moment}"
        shutil.copytree(folder, mine)
        with killed_at(moment), pytest.raises(Killed):
            back_up(lake, mine)
        found.append(restored(mine, tmp_path / f"restored-{moment}"))
        assert found[-1] in (former, new), moment
        back_up(lake, mine)
        assert restored(mine, tmp_path / f"again-{moment}") == new
    assert former in found
    assert new in found


def test_a_first_backup_that_was_killed_is_none_and_what_it_copied_serves_the_next(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    moments, _ = points_of(lambda: back_up(lake, tmp_path / "whole"))
    with killed_at(moments - 3), pytest.raises(Killed):
        back_up(lake, folder)
    with pytest.raises(ConfigError, match="holds no backup"):
        restore_backup(folder, tmp_path / "other" / "lake", FixedClock())
    assert not (tmp_path / "other").exists()
    assert back_up(lake, folder).files == 0
    assert restored(folder, tmp_path / "other") == content(lake.home / "lake")


@pytest.mark.parametrize("there", ["nothing", "a lake"])
def test_a_restore_killed_anywhere_leaves_the_former_or_the_restored_lake(
    lake: Lake, tmp_path: Path, there: str
) -> None:
    folder, home = tmp_path / "backup", tmp_path / "other"
    back_up(lake, folder)
    new = content(lake.home / "lake")
    more(lake)
    former = content(lake.home / "lake") if there == "a lake" else {}

    def put() -> None:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        if former:
            shutil.copytree(lake.home / "lake", home / "lake")

    def act() -> None:
        restore_backup(folder, home / "lake", FixedClock(), replace=True)

    put()
    moments, points = points_of(act)
    assert {"before restored", "after restored"} <= points
    found = []
    for moment in {*range(1, moments, 90), *range(moments - 4, moments + 1)}:
        put()
        with killed_at(moment), pytest.raises(Killed):
            act()
        found.append(content(home / "lake") if (home / "lake").exists() else {})
        assert found[-1] in (former, new), moment
        act()
        assert content(home / "lake") == new
        assert not (home / "lake.restoring").exists()
        if former:  # it is never deleted
            assert former in [content(path) for path in home.glob("lake.replaced-*")]
    assert former in found
    assert new in found


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "missing": Path.unlink,
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 9),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["data", "log", "manifest"])
def test_a_damaged_backup_is_refused_by_the_name_of_its_file_and_mended_by_the_next(
    lake: Lake, tmp_path: Path, damage: str, which: str
) -> None:
    folder, other = tmp_path / "backup", tmp_path / "other" / "lake"
    taken = back_up(lake, folder)
    patterns = {"data": "data/p/events/**/*.parquet", "log": "at-*/logs/p/plans/**/*.json",
                "manifest": "manifest.json"}  # fmt: skip
    file = sorted(folder.glob(patterns[which]))[0]
    if (damage, which) == ("longer", "manifest"):
        file.write_text(json.dumps({"content": {"format": 1}, "sha256": "0"}))
    else:
        DAMAGES[damage](file)
    shutil.copytree(lake.home / "lake", other)
    before = content(other)

    wrong = ConfigError if (damage, which) == ("missing", "manifest") else DamagedBackupError
    with pytest.raises(wrong) as said:
        restore_backup(folder, other, FixedClock(), replace=True)

    assert file.name in str(said.value)
    assert content(other) == before
    assert [path.name for path in other.parent.iterdir()] == ["lake"]
    file.unlink(missing_ok=True)
    again = back_up(lake, folder)
    assert again.files == {"data": 1, "log": 0, "manifest": 0}[which], taken.files
    restore_backup(folder, other, FixedClock(), replace=True)
    assert content(other) == content(lake.home / "lake")


def test_with_a_damaged_manifest_everything_is_copied_anew(lake: Lake, tmp_path: Path) -> None:
    first = back_up(lake, tmp_path / "backup")
    flip(tmp_path / "backup" / "manifest.json")
    assert back_up(lake, tmp_path / "backup").files == first.files


def test_a_damaged_lake_is_not_backed_up_and_the_former_backup_is_whole(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    back_up(lake, folder)
    was = content(lake.home / "lake")
    more(lake)
    newest = max((lake.home / "lake" / "p" / "events").rglob("*.parquet"), key=os.path.getmtime)
    content_of = newest.read_bytes()
    for spoil in (lambda: newest.write_bytes(content_of[:-9]), newest.unlink):
        spoil()
        after = lake.tables.events({}).uri + "/_delta_log"
        last = max(Path(after).glob("*.json"))
        Path(after, f"{int(last.stem) + 1:020d}.json").write_text('{"commitInfo":{}}\n')
        with pytest.raises(DamagedTableError, match=newest.name):
            back_up(lake, folder)
    assert restored(folder, tmp_path / "other") == was


def test_a_folder_that_is_none_for_backups_is_refused_and_left_alone(
    lake: Lake, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    refused = [
        (mine, "letter.txt"),
        (lake.home / "lake", "in the lake"),
        (lake.home / "lake" / "p" / "b", "in the lake"),
        (lake.home, "no backup"),
        (mine / "letter.txt", "no folder"),
        (mine / "letter.txt" / "b", "cannot be made"),
        (tmp_path / "[a]", "path holds"),
    ]
    for folder, said in refused:
        with pytest.raises(ConfigError, match=said):
            back_up(lake, folder)
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]
    for nothing in (lake.home / "live", tmp_path / "none"):
        with pytest.raises(ConfigError, match="nothing to back up"):
            take_backup(nothing, tmp_path / "b", tmp_path, FixedClock())


def test_what_cannot_be_tidied_up_ends_no_backup(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"
    back_up(lake, folder)

    def busy(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(save.shutil, "rmtree", busy)
        assert back_up(lake, folder).manifest.number == 2
    assert (folder / "at-1").exists()
    back_up(lake, folder)
    assert not (folder / "at-1").exists()


def test_a_lake_is_replaced_only_where_that_was_asked_for(lake: Lake, tmp_path: Path) -> None:
    back_up(lake, tmp_path / "backup")
    was = content(lake.home / "lake")
    more(lake)
    newer = content(lake.home / "lake")
    with pytest.raises(ConfigError, match="--replace"):
        restore_backup(tmp_path / "backup", lake.home / "lake", FixedClock())
    assert content(lake.home / "lake") == newer

    done = restore_backup(tmp_path / "backup", lake.home / "lake", FixedClock(), replace=True)

    assert content(lake.home / "lake") == was
    assert done.former is not None
    assert content(done.former) == newer


def test_a_full_disk_ends_neither_the_former_backup_nor_the_lake(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backup"
    back_up(lake, folder)
    was = content(lake.home / "lake")
    more(lake)
    newer = content(lake.home / "lake")
    fsync, calls = os.fsync, []

    def full(at: int) -> None:
        calls.append(at)
        if len(calls) % 7 == 0:
            raise OSError(28, "No space left on device")
        fsync(at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(NotTakenError, match="No space left"):
            back_up(lake, folder)
        with pytest.raises(NotRestoredError, match="No space left"):
            restore_backup(folder, lake.home / "lake", FixedClock(), replace=True)
    assert content(lake.home / "lake") == newer
    assert [path.name for path in lake.home.glob("lake*")] == ["lake"]
    assert restored(folder, tmp_path / "other") == was
