"""Small lakes of which much is frozen, and what is told of them."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.balance import balance
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.merged import in_force_at
from penstock.lake.history.merging import merge
from penstock.lake.history.position import position
from penstock.lake.history.reads import READ, note
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.verdict import IS_FROZEN
from penstock.lake.proof import scope
from penstock.lake.proof.freezing import Freezer
from penstock.lake.serve.fetch import fetched
from penstock.lake.storage import replace as replacing
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark import chunks
from tests.doubles import Death, Killed, RisingClock
from tests.forgery import audited
from tests.lakes import Lake, make_lake
from tests.spark.conftest import python_path
from tests.steps import CASES
from tests.streams import BEGIN, disordered, write_jsonl

FILES, EACH = 8, 80


@contextmanager
def small() -> Iterator[None]:
    """Much happens to few records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 16)
        patch.setattr(chunks, "PAIRS_A_CHUNK", 64)
        patch.setattr(scope, "LEAST", 90)
        yield


def maintained(lake: Lake) -> str:
    """One run of maintenance."""
    said = Freezer(lake.tables, lake.pipeline, lake.clock).work()
    merge(lake.tables, lake.pipeline)
    maintain_pipeline(lake.tables, lake.pipeline)
    return said


def maintained_by_a_mortal(lake: Lake, draw: random.Random, death: Death) -> None:
    """Maintenance that may die of each commit."""

    def dies(*_: str) -> None:
        if draw.random() < 0.15:
            raise Killed

    death.share = 0.1
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(replacing, "reached", dies)
        maintained(lake)
    death.share = 0.0


def arrived(spark: SparkSession | None, home: Path, keep: str | None = None) -> Lake:
    """A lake to which files came, corrected after each; with Spark also audited and maintained."""
    lake = make_lake(home, CASES["sites"], keep=keep)
    lake.query()
    rows = disordered(FILES * EACH, seed=4, apart=4.0, late_share=0.2, late_by=300.0)
    for row in rows[7::40]:
        row["site"] = None
    for number in range(FILES):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[EACH * number : EACH * (number + 1)])
        lake.ingest()
        lake.query(blocks=3).run()
        lake.correct()
        if spark is not None and number in {3, 5, 7}:
            found = audited(spark, lake, lake.clock.now(), kept=True)
            assert (found.red, found.said) == (set(), ())
            maintained(lake)
    return lake


def rows_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    specs = {
        "events": lake.tables.events(lake.pipeline.types),
        "control": lake.tables.control(lake.step),
        "late": lake.tables.late(lake.step, []),
        "blocks": lake.tables.blocks(),
        "answers": lake.tables.answers(lake.step),
        "quarantine": lake.tables.quarantine(),
    }
    return list(read_table(Table(specs[name])).to_pylist())


def come(lake: Lake, name: str, minutes: float, *old: dict[str, Any]) -> None:
    """Records from so long after the beginning on, and old ones, are there and taken in."""
    begin = BEGIN + timedelta(minutes=minutes)
    rows = disordered(EACH, seed=len(name), apart=1.0, late_share=0.0, begin=begin)
    write_jsonl(lake.home / "live" / f"{name}.jsonl", [*rows, *old])
    lake.ingest()


def due_lake(spark: SparkSession, home: Path) -> Lake:
    """A lake of which the next run of maintenance freezes the greater part."""
    with small():
        lake = arrived(None, home, "PT8M")
        assert maintained(lake) == "", "nothing was audited"
        audited(spark, lake, lake.clock.now(), kept=True)
        assert maintained(lake) == "", "all of it is young"
        come(lake, "later", 120)
        lake.query(blocks=3).run()
        asked = maintained(lake)
        assert asked.endswith(" will be frozen")
        assert maintained(lake) == f"{asked}: once the stream takes in more"
        old = disordered(2, seed=1)
        come(lake, "later still", 125, *old)
        refused = [r for r in rows_of(lake, "quarantine") if r["reason"] == IS_FROZEN]
        assert len(refused) == len(old)
        lake.query(blocks=3).run()
        said = maintained(lake)
        assert said.startswith(f"{asked}: once s has passed an audit of the first ")
        found = audited(spark, lake, lake.clock.now(), kept=True)
        assert (found.red, found.said) == (set(), ())
        note(lake.tables.merges(), lake.step, READ, 1, 60.0)  # a merge will pay, too
        return lake


MAINTAIN = """
import sys
from pathlib import Path
from tests.lakes import make_lake
from tests.spark.freezing import maintained
from tests.steps import CASES
maintained(make_lake(Path(sys.argv[1]), CASES["sites"], keep="PT8M"))
"""


def maintained_apart(home: Path, trace: Path, **more: str) -> int:
    """Maintain a lake in a process of its own, noting the points it reaches; its exit code."""
    environment = os.environ | {"PENSTOCK_CRASH_TRACE": str(trace), "PYTHONPATH": python_path()}
    done = subprocess.run(
        [sys.executable, "-c", MAINTAIN, str(home)], env=environment | more, check=False,
        start_new_session=True,
    )  # fmt: skip
    return done.returncode


def copied(lake: Lake, home: Path) -> Lake:
    shutil.copytree(lake.home / "lake", home / "lake")
    return replace(lake, home=home, clock=RisingClock())


def told(lake: Lake) -> Any:
    """All rows of the tables of which something goes, the answers, and those that are merged."""
    tables = ("events", "blocks", "late", "control", "answers")
    rows = {name: sorted(map(repr, rows_of(lake, name))) for name in tables}
    at = position(lake.tables, lake.step)
    assert at is not None
    asked = in_force_at(lake.tables, lake.step, at)
    read = sorted(map(repr, fetched(asked).to_pylist())), set(asked.parts)
    return rows, lake.in_force(), read, balance(lake.tables, lake.step)
