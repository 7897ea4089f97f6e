"""One seed's life: its records, what an undisturbed life made of them, and whether another agrees.

The undisturbed life is a process of its own that keeps copies of the lake between its jobs, from
which the rows of the matrix start.
"""

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from penstock.config.settings import Settings
from penstock.kinds.custom.spec import CustomSpec
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.lookup.spec import LookupSpec
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.history.balance import balance
from penstock.lake.history.generation import generations
from penstock.lake.history.position import SHED as SHED_ROW
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.taken import taken
from penstock.lake.history.view import late_at
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.runtime.streams.processes import MARK
from tests import custom, joins
from tests import reference as ref
from tests.answers import assert_same, blocks_of, late_by_pair, rows_by_pair, shed_by_pair
from tests.crash.jobs import BACKUPS, COMPARISONS, NEXT, SHED
from tests.crash.points import Reached, read_trace
from tests.custom import FUSSY, write_code
from tests.joins import LIVED
from tests.lakes import Lake
from tests.lookups import check_settled, check_stream
from tests.side import CODES, LIMITED, LOAD, LimitsFile, judging
from tests.spark.conftest import Scene, make_scene
from tests.steps import HOURLY, LAST, SINCE
from tests.streams import disordered, write_files

JOBS = Path(__file__).with_name("jobs.py")
HISTORY, LIVE = 500, 1_300
JOURNEY = ("preload", "keep:loaded", "limit", "keep:begun", "propose", "keep:preloaded",
           "decide", "stream",
           "keep:answered", "correct", "keep:corrected", "audit", "maintain",
           "failure", "backup", "restore")  # fmt: skip
STARTS = {"preload": "", "limit": "loaded", "propose": "begun", "decide": "preloaded",
          "ingest": "preloaded", "launch": "preloaded", "stream": "preloaded",
          "correct": "answered", "audit": "corrected", "maintain": "corrected",
          "backup": "corrected", "restore": "corrected"}  # fmt: skip
"""The copy of the lake a job starts from."""
STEERED = {
    "slack": {"quantile": {"measure_after": "PT30M", "recent": "PT3H"}},
    "quality": {"epsilon": 0.1, "delta": 0.4, "records": 50},
}
"""A controller of slack is part of what must come out the same after every kill."""
ARCHIVED = {"after": "archive", "archive": "archive"}
"""Of the live source: below each home, which has its own copy of the files."""
SEALED = ("generation", "micro_batch")
DEADLINE = 600.0
"""Seconds; a busy machine is no failure."""


@dataclass
class Life:
    """One seed in its folder."""

    seed: int
    folder: Path

    @cached_property
    def blocks(self) -> int:
        """Most blocks a micro-batch takes."""
        return random.Random(self.seed).choice([2, 3, 4])  # noqa: S311

    @cached_property
    def ended(self) -> datetime:
        """When it was lived."""
        return datetime.fromtimestamp((self.folder / "lived").stat().st_mtime, UTC)

    @cached_property
    def scene(self) -> Scene:
        """History and live files, cut by the seed."""
        draw = random.Random(self.seed)  # noqa: S311
        rows = disordered(HISTORY + LIVE, seed=self.seed, apart=15.0, late_share=0.08)
        for row in rows[7::50]:
            row["site"] = None
        for name, part in (("history", rows[:HISTORY]), ("live", rows[HISTORY:])):
            if not (self.folder / name).exists():
                write_files(self.folder / name, part, draw.randint(60, 130))
        history = {"files": str(self.folder / "history"), "format": "parquet"}
        live = {"files": "live", "format": "parquet", "mode": "bounded", **ARCHIVED}
        steps = {"hourly": HOURLY | STEERED, "since": SINCE, "last": LAST, "moved": LIMITED,
                 "own": FUSSY, "pairs": dict(LIVED.config)}  # fmt: skip
        write_code(self.folder / "home")
        return make_scene(
            self.folder / "home", history=history, source=live, steps=steps, load=LOAD
        )

    def at(self, job: str, home: Path) -> Scene:
        """The scene in another place, as it is when a job starts."""
        scene = replace(self.scene, home=home)
        write_code(home)
        kept = STARTS[job]
        self._supply(home, taken=kept in {"answered", "corrected"})
        self.limits(home, changed=kept not in {"", "loaded"})
        if kept:
            shutil.copytree(self.scene.home / kept, home / "lake")
        if job == "restore":
            shutil.copytree(self.scene.home / BACKUPS, home / BACKUPS)
        if job == "audit":
            (home / COMPARISONS).write_text(json.dumps(self.comparisons))
        return scene

    def _supply(self, home: Path, *, taken: bool = False) -> None:
        """The live files, for a door that archives them; none where they were taken already."""
        (home / "archive").mkdir()
        if taken:
            (home / "live").mkdir()
        else:
            shutil.copytree(self.folder / "live", home / "live")

    def limits(self, home: Path, *, changed: bool) -> LimitsFile:
        """The limits of the look-up's side data, as a job finds them, and those that come next."""
        file = LimitsFile(home, CODES, random.Random(self.seed))  # noqa: S311
        first, other = file.change(), file.change()
        shutil.copy(file.path, home / NEXT)
        file.write(other if changed else first)
        return file

    def command(self, *jobs: str) -> list[str]:
        return [sys.executable, str(JOBS), str(self.blocks), *jobs]

    def undisturbed(self) -> None:
        """Live once, tracing every point; an interrupted life begins again."""
        lived = self.folder / "lived"
        if lived.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.scene.home.mkdir(parents=True, exist_ok=True)
        self._supply(self.scene.home)
        self.limits(self.scene.home, changed=False)
        self._live(self.scene, *JOURNEY)
        self._live(self.at("launch", self.folder / "launched"), "launch")
        lived.touch()

    def _live(self, scene: Scene, *jobs: str) -> None:
        scene.home.mkdir(parents=True, exist_ok=True)
        trace = str(self.folder / f"{jobs[0]}.trace")
        done = subprocess.run(
            self.command(*jobs), cwd=Settings().root, capture_output=True, text=True,
            env=environment(scene, PENSTOCK_CRASH_TRACE=trace), timeout=DEADLINE, check=False,
            start_new_session=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4_000:]

    @cached_property
    def comparisons(self) -> list[dict[str, Any]]:
        """What the undisturbed audit compared."""
        rows = read_table(Table(self.scene.lake("hourly").tables.audits()), ["comparisons"])
        told = {"everything": True, "footing": None, "covered": "all"}  # is not kept with them
        return [json.loads(text) | told for text in rows["comparisons"].to_pylist()]

    @cached_property
    def trace(self) -> list[Reached]:
        """All points of the undisturbed life; a job's begin with ``# job``."""
        return [*read_trace(self.folder / "preload.trace"),
                *read_trace(self.folder / "launch.trace")]  # fmt: skip

    @cached_property
    def counts(self) -> dict[str, Counter[str]]:
        """How often each job reached each point."""
        found: dict[str, Counter[str]] = {}
        job = ""
        for each in self.trace:
            if each.point == "# ingest":  # the supervised driver's, among the supervisor's
                continue
            if each.point.startswith("# "):
                job = each.point[2:]
            else:
                found.setdefault(job, Counter())[each.point] += 1
        found["ingest"] = found["launch"]
        return found

    @cached_property
    def log(self) -> list[ref.Block]:
        lake = self.scene.lake("hourly")
        return blocks_of(lake.tables, lake.pipeline)

    @cached_property
    def truth(self) -> dict[str, ref.Answers]:
        """What the oracle of windows says of the undisturbed log."""
        found = {}
        for name, lake in self.scene.lakes.items():
            if lake.step.by_key:
                continue
            start = generations(lake.tables, lake.step)[-1]
            epoch = next(g for g in generations(lake.tables, lake.step) if g.number == start.epoch)
            sheds = lake.sheds()
            found[name] = ref.run(lake.epoch_oracle(), self.log, epoch.block, None, sheds)
            assert sum(a.n_records for a in found[name].late.values()) > 20
            assert (len(found[name].shed) > 20) == (name in SHED)
            assert found[name].preloaded
        return found

    def check(self, scene: Scene) -> None:
        """The end of a life is the undisturbed one's, and the oracle's."""
        first = scene.lake("hourly")
        assert blocks_of(first.tables, first.pipeline) == self.log, "another log"
        for name, lake in scene.lakes.items():
            if isinstance(lake.step, LookupSpec):
                with judging(self.limits(scene.home, changed=True).in_force(lake.tables)):
                    check_alarms(lake)
            elif isinstance(lake.step, CustomSpec):
                check_changes(lake)
            elif isinstance(lake.step, JoinSpec):
                check_pairs(lake)
            else:
                check_step(lake, self.truth[name])
        folders = scene.home / "live", scene.home / "archive"
        there = sorted(path.name for folder in folders for path in folder.rglob("*.parquet"))
        every = sorted(path.name for path in (self.folder / "live").iterdir())
        assert there in ([], every), "a file was lost, or stands twice"


def check_step(lake: Lake, truth: ref.Answers) -> None:
    """Law 0, law 1, law 2, and nothing under one transaction twice."""
    step, tables = lake.step, lake.tables
    at = position(tables, step)
    assert at is not None
    timely = rows_by_pair(step, timely_answers(tables, step), "through_seq")
    assert_same(truth.timely, timely)
    rows = late_at(tables, step, at, layout_of(step).fields)
    is_shed = pc.equal(rows["reason"], SHED_ROW)
    assert_same(truth.late, late_by_pair(step, rows.filter(pc.invert(is_shed))))
    assert shed_by_pair(step, rows.filter(is_shed)) == truth.shed
    in_force = rows_by_pair(step, answers_in_force(tables, step), "through_seq")
    assert_same(truth.corrected, in_force, position=False)
    found = balance(tables, step)
    assert found is not None
    assert found.pairs == truth.pairs
    assert found.open == truth.open_pairs == 0
    names = ["window_start", *step.key_names]
    once(tables.late(step, []), (*names, *SEALED, "reason"))
    once(tables.answers(step), (*names, *SEALED, "reason"))
    once_sealed(lake)


def check_alarms(lake: Lake) -> None:
    """The same laws, of a look-up."""
    check_stream(lake, unit=1)
    check_settled(lake, unit=1)
    found = position(lake.tables, lake.step)
    assert found is not None
    assert sum(last.late for last in found.lasts) > 20
    once(lake.tables.answers(lake.step), ("new_seq", "old_seq", *SEALED, "reason"))
    once_sealed(lake)


def check_pairs(lake: Lake) -> None:
    """The same laws, of a join."""
    assert joins.check_stream(lake, joins.LIVED) > 100
    joins.check_settled(lake, joins.LIVED)
    found = position(lake.tables, lake.step)
    assert found is not None
    assert sum(last.late - last.shed for last in found.lasts) > 20
    assert sum(last.shed for last in found.lasts) > 100
    once(lake.tables.answers(lake.step), ("left_seq", "right_seq", *SEALED, "reason"))
    once_sealed(lake)


def check_changes(lake: Lake) -> None:
    """The same laws, of user code that fails on some records."""
    custom.check_timely(lake)
    custom.check_settled(lake)
    custom.check_left_out(lake)
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert found.excluded > 20
    assert found.pairs == len(taken(lake.tables, lake.step, 0, found.received))
    once(lake.tables.answers(lake.step), (*lake.step.identity_names, *SEALED, "reason"))
    once(lake.tables.excluded(lake.step), ("arrival_seq", *SEALED))
    once_sealed(lake)


def once_sealed(lake: Lake) -> None:
    """No micro-batch and no plan stands twice."""
    once(lake.tables.control(lake.step), SEALED)
    once(lake.tables.corrections(), ("step", "epoch", "plan", "state"))


def once(spec: Any, names: tuple[str, ...]) -> None:
    rows = read_table(Table(spec), list(names)).to_pylist()
    doubled = [r for r, n in Counter(tuple(row.values()) for row in rows).items() if n > 1]
    assert not doubled, (spec.uri, doubled[:3])


def settings_of(scene: Scene) -> Settings:
    return Settings(home=scene.home, pipelines=scene.home / "pipelines")


def environment(scene: Scene, **more: str) -> dict[str, str]:
    """Of a process that works in a scene."""
    own = {MARK: mark_of(scene), "PENSTOCK_SYNC": "true"}
    return scene.environment(**own, **more)


def mark_of(scene: Scene) -> str:
    """What the harness' own processes carry, other than those of a supervised stream."""
    return f"crash {scene.home}"
