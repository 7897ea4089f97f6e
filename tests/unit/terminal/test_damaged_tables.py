"""Damaged tables of the lake are named: which table, which file, what to do."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.core.errors import TransientError
from penstock.lake.history.maintain import maintain_pipeline, specs_of
from penstock.lake.ingest.door import Door
from penstock.lake.storage import damage
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import DamagedTableError, TableAwayError
from penstock.lake.storage.read import read_table

World = Any
Run = Callable[..., tuple[int, str, str]]
Damage = Callable[[Path], str]

SELECTS = {
    "events": "SELECT count(seconds) FROM events WHERE seconds >= 0",
    "quarantine": "SELECT reason FROM quarantine",
    "answers": "SELECT * FROM per_door",
}


def entry(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def cut_entry(root: Path) -> str:
    path = entry(root, 1)
    path.write_bytes(path.read_bytes()[:90])
    after(root)
    return path.name


def empty_entry(root: Path) -> str:
    entry(root, 1).write_bytes(b"")
    after(root)
    return entry(root, 1).name


def missing_entry(root: Path) -> str:
    after(root)
    entry(root, 1).unlink()
    return entry(root, 1).name


def after(root: Path) -> None:
    """One more entry: a damaged newest one would be taken for a power loss's."""
    newest = max((root / "_delta_log").glob("*.json"))
    entry(root, int(newest.stem) + 1).write_text('{"commitInfo":{"timestamp":1}}\n')


def data(root: Path) -> Path:
    after(root)
    return sorted(root.rglob("*.parquet"))[0]


def empty_data(root: Path) -> str:
    path = data(root)
    path.write_bytes(b"")
    return path.name


def cut_data(root: Path) -> str:
    path = data(root)
    path.write_bytes(path.read_bytes()[:-9])
    return path.name


def garbled_data(root: Path) -> str:
    path = data(root)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * (len(content) - 12) + content[-8:])
    return path.name


def missing_data(root: Path) -> str:
    path = data(root)
    path.unlink()
    return path.name


def cut_checkpoint(root: Path) -> str:
    DeltaTable(str(root)).create_checkpoint()
    [path] = (root / "_delta_log").glob("*.checkpoint*.parquet")
    content = path.read_bytes()
    path.write_bytes(b"PAR1" + b"\xff" * (len(content) - 12) + content[-8:])
    for old in (root / "_delta_log").glob("*.json"):
        old.unlink()
    return path.name


DAMAGES = [cut_entry, empty_entry, missing_entry, empty_data, cut_data, garbled_data,
           missing_data, cut_checkpoint]  # fmt: skip
TABLES = ["answers", "blocks", "control", "corrections", "events", "late", "plans", "quarantine",
          "registry"]  # fmt: skip


def some_of(one: str, tables: list[str]) -> list[Any]:
    """Every damage of one table and of each table some; the rest runs in make test-all."""
    return [
        pytest.param(
            table, spoil,
            marks=() if table == one or (i - j) % len(DAMAGES) == 0 else pytest.mark.all,
        )
        for i, table in enumerate(tables) for j, spoil in enumerate(DAMAGES)
    ]  # fmt: skip


def root_of(world: World, table: str) -> Path:
    specs = specs_of(world.tables, world.pipeline)
    name = table if table in specs else f"{table}/per_door"
    return Path(specs[name].uri)


@pytest.mark.parametrize(("table", "spoil"), some_of("events", TABLES))
def test_whoever_reads_it_says_table_file_and_remedy(
    corrected: World, table: str, spoil: Damage
) -> None:
    root = root_of(corrected, table)
    file = spoil(root)
    specs = specs_of(corrected.tables, corrected.pipeline)
    spec = next(s for s in specs.values() if s.uri == str(root))

    with pytest.raises(DamagedTableError) as wrong:
        read_table(Table(spec))

    said = str(wrong.value)
    assert str(root) in said
    assert file in said
    assert "Put the file back from a copy" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("table", "spoil"), some_of("answers", ["answers", "blocks", "control", "events", "registry"])
)
def test_commands_name_it_without_a_traceback(
    corrected: World, run: Run, tmp_path: Path, table: str, spoil: Damage
) -> None:
    root = root_of(corrected, table)
    file = spoil(root)
    commands = [
        *([] if table == "blocks" else [("query", "doors", SELECTS.get(table, "FROM per_door"))]),
        *([] if table == "events" else [("show", "doors")]),
        *([] if table in {"events", "blocks"} else [("export", "doors", str(tmp_path))]),
    ]
    for command in commands:
        status, _, said = run(*command)

        assert status == 1, command
        assert f"{root} is damaged" in said.replace("\n", ""), (command, said)
        assert file in said
        assert "Put the file back from a copy" in said
        assert "Traceback" not in said
    assert run("status")[0] == 1  # embedded mode does not run; the lake is not in its way


@pytest.mark.parametrize("spoil", [empty_data, cut_entry])
def test_the_door_and_maintenance_name_it(corrected: World, spoil: Damage) -> None:
    spoil(root_of(corrected, "events"))
    doors = corrected.settings.home / "doors"
    shutil.copy(doors / "one.jsonl", doors / "two.jsonl")

    with pytest.raises(DamagedTableError, match="events"):
        maintain_pipeline(corrected.tables, corrected.pipeline)
    spoil(root_of(corrected, "blocks"))
    with pytest.raises(DamagedTableError, match="blocks"):
        Door(corrected.tables, corrected.pipeline, corrected.settings.home, FixedClock()).work()


class FixedClock:
    def now(self) -> datetime:
        return datetime(2024, 5, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    "failure",
    [
        OSError(24, "Too many open files"),
        OSError(5, "Input/output error"),
        OSError("Kernel error -> Generic error\n Too many open files (os error 24)"),
    ],
)
def test_what_the_system_fails_at_is_tried_again(corrected: World, failure: OSError) -> None:
    spec = corrected.tables.events(corrected.pipeline.types)

    with pytest.raises(TableAwayError, match="cannot be read now") as away, damage.told(spec.uri):
        raise failure

    assert isinstance(away.value, TransientError)


def test_a_folder_that_is_away_as_a_whole_is_no_damage(corrected: World) -> None:
    table = Table(corrected.tables.events(corrected.pipeline.types))
    table.refresh()
    root = Path(table.spec.uri)
    root.rename(root.with_name("away"))

    with pytest.raises(TableAwayError):
        read_table(table)
