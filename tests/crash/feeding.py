"""A feed as a process to be killed: a history, what is timely, and revisions.

``python -m tests.crash.feeding HOME`` takes all that the step below has said.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.config.settings import Settings
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import chains
from tests.chains import Over
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

ROWS, EACH = some_rows(160, 6), 80
WHEN = {"ingest_time", "sealed_at", "arrived_at"}
"""Columns that tell when something was done."""


def below(home: Path) -> Lake:
    """The lake of the step whose answers are taken."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    return make_lake(home, (chains.BASE, CASES["sites"][1]), source=source)


def fed_once(home: Path) -> Lake:
    """A lake over which a log was begun, and below which more was answered, and corrected."""
    lake = below(home)
    lake.query()
    for number in (0, 1):
        write_jsonl(home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])
        lake.ingest()
        lake.query().run()
        if not number:
            chains.first(lake).query()
            assert chains.first(lake).feed().work() >= 0, "its history"
    assert lake.correct() > 0
    return lake


def fed_apart(home: Path, trace: Path, **more: str) -> int:
    """Feed in a process of its own, noting the points it reaches; its exit code."""
    root = Settings().root
    path = os.pathsep.join(str(folder) for folder in (root / "include", root))
    environment = os.environ | {"PENSTOCK_CRASH_TRACE": str(trace), "PYTHONPATH": path, **more}
    command = [sys.executable, "-m", "tests.crash.feeding", str(home)]
    return subprocess.run(
        command, env=environment, cwd=root, start_new_session=True, check=False
    ).returncode


def copied(home: Path, to: Path) -> Over:
    """The same in another place."""
    shutil.copytree(home / "lake", to / "lake")
    return chains.first(below(to))


def told(one: Over) -> dict[str, list[str]]:
    """All rows of the log, without when they were written."""
    tables = one.tables
    specs = {"events": tables.events(one.pipeline.types), "blocks": tables.blocks(),
             "plans": tables.plans(), "decisions": tables.decisions()}  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {
        name: read_table(Table(spec)).to_pylist() for name, spec in specs.items()
    }
    return {
        name: sorted(str({n: v for n, v in row.items() if n not in WHEN | {"decided_at"}})
                     for row in some)
        for name, some in rows.items()
    }  # fmt: skip


if __name__ == "__main__":
    chains.first(below(Path(sys.argv[1]))).feed().catch_up()
