"""Random changes of a topology for minutes, under load and kills; ends with the balance.

    python -m tests.soak.topology --minutes 10 [--seed 7] [--home FOLDER]

One log with a step of its own, another one of that step's answers, and pipelines that stand on the
first: they are added and removed, edited, renamed, broken and mended, started and stopped, while
records come, late ones among them, and processes are killed. At the end all that is left is
corrected and audited; DuckDB computes every answer again from the files; the register must say what
runs. Real processes, no Airflow. Exit status 0: nothing was lost, doubled or wrong.
"""

import argparse
import contextlib
import io
import json
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psutil
import yaml
from rich.console import Console

from penstock.config.kept import catalog_in_force, keep
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings, child_environment
from penstock.core.errors import PenstockError
from penstock.core.request import Job, JobRequest
from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.blocks import newest_seq, next_block
from penstock.lake.log.register import SPECS
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams import control, links
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import kill_marked, marked
from penstock.runtime.streams.spec import StreamSpec, environment_of
from penstock.runtime.terminal.removal import remove_pipeline
from tests.soak.faults import role_of

LOG, OVER = "gates", "rush"
NAMES = ("ants", "bees", "cats", "dogs", "eels")
SECONDS = {"least": 3.0, "most": 12.0}
BEGIN = 1_767_225_600
STEP = {"keys": ["gate"], "measures": {"n": "count(*)", "most": "max(weight)"}}
BROKEN = "steps: ["
DRAIN_SECONDS, TRIES = 420.0, 5
CHANGES = {"add": 4, "remove": 2, "edit": 4, "rename": 2, "break": 2, "stop or start": 3,
           "slack": 2, "kill driver": 2, "kill JVM": 2, "kill worker": 2, "kill supervisor": 1,
           "job": 3}  # fmt: skip
"""What happens, and how often beside the others."""
Steps = dict[str, dict[str, Any]]


@dataclass
class World:
    """Files, and who is to run.

    Attributes:
        home: PENSTOCK_HOME of all processes.
        draw: what is random.
        steps: of each pipeline that stands on the log, as its file says, or last said.
        running: pipelines that are to be linked.
        sent: records in files.
        wrong: what must not be.
    """

    home: Path
    draw: random.Random
    steps: dict[str, Steps] = field(default_factory=dict)
    running: set[str] = field(default_factory=lambda: {LOG, OVER})
    sent: int = 0
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    jobs: "dict[subprocess.Popen[bytes], str]" = field(default_factory=dict)
    changing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def settings(self) -> Settings:
        """Of this home."""
        return Settings(home=self.home, pipelines=self.home / "pipelines")

    @property
    def source(self) -> Path:
        """Where files come."""
        return self.home / "source"

    def begin(self) -> None:
        """The two pipelines that stay."""
        for folder in (self.source, self.settings.pipelines):
            folder.mkdir(parents=True)
        step = STEP | {"window": {"size": "PT1M"}, "slack": {"fixed": "PT10S"}}
        self.write(LOG, {"source": {"files": str(self.source), "format": "jsonl"},
                         "columns": {"gate": "string", "weight": "double"}, "event_time": "at",
                         "steps": {"minute": step}})  # fmt: skip
        top = {"keys": ["gate"], "window": {"size": "PT10M"}, "measures": {"most": "max(n)"}}
        self.write(OVER, {"source": {"pipeline": LOG, "step": "minute"},
                          "columns": {"gate": "string", "n": "long"},
                          "steps": {"top": top}})  # fmt: skip

    def write(self, name: str, content: dict[str, Any] | str) -> None:
        """Replace a file as an editor does."""
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        new = self.settings.pipelines / f".{name}.new"
        new.write_text(text)
        new.replace(self.settings.pipelines / f"{name}.yaml")

    def say(self, name: str) -> None:
        """Write the file of a pipeline that stands on the log."""
        self.write(name, {"source": {"pipeline": LOG}, "steps": self.steps[name]})

    def some_step(self) -> dict[str, Any]:
        """Few enough that several pipelines mean the same."""
        where = self.draw.choice((None, "weight > 3.5"))
        return STEP | ({"where": where} if where else {}) | {
            "window": {"size": self.draw.choice(("PT1M", "PT5M"))},
            "slack": {"fixed": self.draw.choice(("PT10S", "PT30S"))},
        }  # fmt: skip

    # ---- what happens ---------------------------------------------------------------------------

    def change(self, what: str) -> bool:
        """Let something happen; whether it could."""
        if what.startswith("kill"):
            return self._kill(what.partition(" ")[2])
        return bool(getattr(self, f"_{what.replace(' ', '_')}")())

    def _one(self) -> str:
        return self.draw.choice(sorted(self.steps)) if self.steps else ""

    def _add(self) -> bool:
        if not (free := sorted({*NAMES} - self.steps.keys())):
            return False
        name = self.draw.choice(free)
        count = self.draw.choice((1, 1, 2))
        self.steps[name] = {f"s{n}": self.some_step() for n in range(count)}
        self.say(name)
        self.running.add(name)
        return True

    def _remove(self) -> bool:
        """Its stream ends, its file goes; what it wrote goes as well, or stays for a while."""
        if not (name := self._one()):
            return False
        self.running.discard(name)
        links.unlink(self.settings.streams, name, "user")
        (self.settings.pipelines / f"{name}.yaml").unlink()
        del self.steps[name]
        if self.draw.random() < 0.6:
            self.forget(name)
        return True

    def forget(self, name: str) -> None:
        """``penstock remove``; whoever it says still runs stays."""
        with contextlib.suppress(PenstockError):
            remove_pipeline(self.settings, name, Console(file=io.StringIO()), sure=True)

    def _edit(self) -> bool:
        if not (name := self._one()):
            return False
        self.steps[name][self.draw.choice(sorted(self.steps[name]))] = self.some_step()
        self.say(name)
        return True

    def _slack(self) -> bool:
        if not (name := self._one()):
            return False
        step = self.steps[name][self.draw.choice(sorted(self.steps[name]))]
        step["slack"] = {"fixed": self.draw.choice(("PT5S", "PT10S", "PT30S"))}
        self.say(name)
        return True

    def _rename(self) -> bool:
        """A step has another name."""
        if not (name := self._one()):
            return False
        step = self.draw.choice(sorted(self.steps[name]))
        self.steps[name][f"s{self.draw.randint(10, 99)}"] = self.steps[name].pop(step)
        self.say(name)
        return True

    def _break(self) -> bool:
        """Or mend."""
        if not (name := self._one()):
            return False
        if self.broken(name):
            self.say(name)
        else:
            self.write(name, BROKEN)
        return True

    def broken(self, name: str) -> bool:
        """Whether a file has problems."""
        return (self.settings.pipelines / f"{name}.yaml").read_text() == BROKEN

    def _stop_or_start(self) -> bool:
        name = self.draw.choice((LOG, *sorted(self.steps)))
        if name in self.running:
            self.running.discard(name)
            links.unlink(self.settings.streams, name, "user")
        else:
            self.running.add(name)
        return True

    def _kill(self, which: str) -> bool:
        marks = [StreamPaths(self.settings.streams, name).mark for name in (LOG, OVER)]
        every = [p for mark in marks for p in (psutil.Process(n) for n in _alive(mark))]
        found = [p for p in every if role_of(p) == which]
        with contextlib.suppress(psutil.Error):
            if found:
                self.draw.choice(found).send_signal(signal.SIGKILL)
        return bool(found)

    def _job(self) -> bool:
        """A correction or an audit, and perhaps it is killed."""
        for process, said in [*self.jobs.items()]:
            if (code := process.poll()) is not None:
                del self.jobs[process]
                if code == 10:
                    self.wrong.append(f"{said} was red")
        if len(self.jobs) >= 1:
            process = next(iter(self.jobs))
            if self.draw.random() < 0.3:
                process.kill()
            return True
        known = sorted(p.name for p in catalog_in_force(self.settings).pipelines)
        name, job = self.draw.choice(known), self.draw.choice((Job.CORRECT, Job.CORRECT, Job.AUDIT))
        self.jobs[self.begun(job, name)] = f"{job} of {name}"
        return True

    def begun(self, job: Job, name: str) -> "subprocess.Popen[bytes]":
        """A job as a process."""
        run = f"{job.value}-{time.monotonic_ns()}"
        script = self.settings.root / "spark_jobs" / f"{job.value}.py"
        logs = self.settings.logs / "jobs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{run}-{name}.log").open("wb") as out:
            return subprocess.Popen(
                [sys.executable, str(script), *JobRequest(job, run, name).to_argv()],
                env=child_environment(**environment_of(self.settings)),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    # ---- what Airflow does ----------------------------------------------------------------------

    def see_to_streams(self) -> None:
        """As the triggers and the parsing of DAGs do."""
        catalog = catalog_in_force(self.settings)
        keep(self.settings, catalog)
        for pipeline in catalog.pipelines:
            if pipeline.name not in self.running:
                continue
            paths = StreamPaths(self.settings.streams, pipeline.log)
            meant = StreamSpec.of(self.settings, pipeline.log, pipeline.log_digest)
            now, wanted = control.status(paths), lambda name=pipeline.name: name in self.running
            if now.state != "stopping" and links.link(paths, pipeline.name, wanted):
                with contextlib.suppress(PenstockError):
                    control.ensure_supervisor(paths, meant, wanted)

    def feed(self) -> None:
        """A file; some of its records are minutes late."""
        rows, number = [], self.sent
        for _ in range(self.draw.randint(1, 600)):
            at = BEGIN + self.sent / 25
            late = self.draw.uniform(20, 900) if self.draw.random() < 0.05 else self.draw.random()
            rows.append({"gate": self.draw.choice("abcd"), "weight": self.draw.randint(5, 90) / 10,
                         "at": _text(at - late)})  # fmt: skip
            self.sent += 1
        hidden = self.source / f".{number:09}"
        hidden.write_text("\n".join(map(json.dumps, rows)) + "\n")
        hidden.rename(self.source / f"{number:09}.jsonl")

    # ---- the end --------------------------------------------------------------------------------

    def judge(self) -> None:
        """Everything that is left answers the files, and the register says what runs."""
        known = catalog_in_force(self.settings)
        if known.errors:
            self.wrong.append(f"files are wrong: {known.errors}")
        self._register(known.pipelines)
        for job in (Job.CORRECT, Job.CORRECT, Job.AUDIT):
            for pipeline in sorted(known.pipelines, key=lambda each: each.name == OVER):
                self._runs(job, pipeline.name)
        db = duckdb.connect()
        db.execute("set timezone = 'UTC'")
        db.execute(
            'create table record as select gate, weight, epoch_us("at"::timestamptz) as us'
            " from read_json(?, columns = {gate: 'varchar', weight: 'double', 'at': 'varchar'})",
            [str(self.source / "*.jsonl")],
        )
        for pipeline in known.pipelines:
            if pipeline.name != OVER:
                self._compare(db, pipeline)
        self._compare_over(db, known.pipeline(OVER))

    def _runs(self, job: Job, name: str) -> None:
        for _ in range(TRIES):
            if (code := self.begun(job, name).wait()) == 0:
                return
        self.wrong.append(f"{job} of {name} ends with {code}")

    def _register(self, pipelines: "tuple[Pipeline, ...]") -> None:
        tables = Tables(self.settings.lake_uri, LOG)
        mine = [each for each in pipelines if each.log == LOG and each.name in self.running]
        wanted = {
            "pipelines": {(each.name,) for each in mine},
            "steps": {(step.id, "runs") for each in mine for step in each.specs},
            "shares": {(each.name, step.name, step.id) for each in mine for step in each.specs},
        }
        columns = {"pipelines": ("pipeline",), "steps": ("run", "state"),
                   "shares": ("pipeline", "step", "run")}  # fmt: skip
        for spec in (of(tables) for of in SPECS):
            if spec.name in wanted:
                rows = read_table(Table(spec), columns[spec.name]).to_pylist()
                said = {tuple(row[name] for name in columns[spec.name]) for row in rows}
                if said != wanted[spec.name]:
                    self.wrong.append(f"register: {spec.name} says {said}, {wanted[spec.name]} is")

    def _compare(self, db: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
        tables = Tables(self.settings.lake_uri, LOG)
        for step in pipeline.specs:
            said = pipeline.steps[step.name]
            at, found = position(tables, step), balance(tables, step)
            if at is None or found is None:
                self.wrong.append(f"{pipeline.name}.{step.name} has sealed nothing")
                continue
            db.execute(f"""create or replace table truth as
                select gate, us // {step.window.size} * {step.window.size} as w, count(*) as n,
                    max(weight) as most from record where {said.where or "true"} group by all""")
            (pairs,) = db.execute("select sum(n) from truth").fetchall()[0]
            if not self.sent == found.received == found.accepted or found.pairs != pairs:
                self.wrong.append(f"{pipeline.name}.{step.name}: {found}, {self.sent} and {pairs}")
            rows = answers_in_force(tables, step)
            db.register("answer", rows)
            bad = db.execute(f"""
                select * from (from truth where w + {step.window.size} <= ?) as t
                full join (select *, epoch_us(window_start) as w from answer) as g using (gate, w)
                where t.n is distinct from g.n or t.most is distinct from g.most""",
                [at.sealed.state.watermark]).fetchall()  # fmt: skip
            self.done[f"answers of {pipeline.name}.{step.name}"] = rows.num_rows
            if bad:
                self.wrong.append(f"{pipeline.name}.{step.name}: {len(bad)} wrong: {bad[0]}")

    def _compare_over(self, db: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
        tables, (step,) = Tables(self.settings.lake_uri, OVER), pipeline.specs
        at = position(tables, step)
        rows = answers_in_force(tables, step)
        db.register("answer", rows)
        size, minute = step.window.size, 60_000_000
        bad = db.execute(f"""
            with minutes as (select gate, us // {minute} * {minute} + {minute} as e, count(*) as n
                from record group by all),
            truth as (select gate, (e - 1) // {size} * {size} as w, max(n) as most
                from minutes group by all)
            select * from (from truth where w + {size} <= ?) as t
            full join (select *, epoch_us(window_start) as w from answer) as g using (gate, w)
            where t.most is distinct from g.most""",
            [0 if at is None else at.sealed.state.watermark]).fetchall()  # fmt: skip
        self.done[f"answers of {OVER}"] = rows.num_rows
        if bad or not rows.num_rows:
            self.wrong.append(f"{OVER}: {rows.num_rows} answers, {len(bad)} wrong: {bad[:1]}")


def _text(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e6):06}Z"


def _alive(mark: str) -> list[int]:
    return [pid for pid in marked(mark) if psutil.pid_exists(pid)]


def drained(world: World) -> bool:
    """All that runs has answered all records."""
    for pipeline in catalog_in_force(world.settings).pipelines:
        tables = Tables(world.settings.lake_uri, pipeline.log)
        if pipeline.log == LOG and newest_seq(tables) + 1 < world.sent:
            return False
        last = next_block(tables)
        if any((at := position(tables, step)) is None or at.sealed.block < last
               for step in pipeline.specs):  # fmt: skip
            return False
    return True


def until(ask: Callable[[], bool], seconds: float, meanwhile: Callable[[], None]) -> bool:
    """Wait for something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        meanwhile()
        if ask():
            return True
        time.sleep(1)
    return False


def run(world: World, minutes: float) -> None:
    """Changes, then the end."""
    world.begin()
    end, due = time.monotonic() + 60 * minutes, time.monotonic() + 45
    said = time.monotonic()
    while time.monotonic() < end:
        world.feed()
        world.see_to_streams()
        if time.monotonic() > due:
            what = world.draw.choices([*CHANGES], [*CHANGES.values()])[0]
            if world.change(what):
                world.done[what] += 1
                print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
            due = time.monotonic() + world.draw.uniform(SECONDS["least"], SECONDS["most"])
        if time.monotonic() - said > 60:
            said += 60
            print(f"sent {world.sent:,} changes {sum(world.done.values())} running"
                  f" {sorted(world.running)} wrong {world.wrong}", flush=True)  # fmt: skip
        time.sleep(0.5)
    for process in world.jobs:
        process.wait()
    for name in sorted(world.steps):
        world.say(name)
    world.running |= {LOG, OVER, *world.steps}
    if not until(lambda: drained(world), DRAIN_SECONDS, world.see_to_streams):
        world.wrong.append(f"not drained within {DRAIN_SECONDS:.0f} s")
    time.sleep(5)  # of the register: a host looks once a second
    world.judge()


def main() -> int:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, help="drawn and printed if not given")
    parser.add_argument("--home", type=Path, help="where to work; kept afterwards")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    home = (arguments.home or Path(tempfile.mkdtemp(prefix="penstock-topology-"))).absolute()
    print(f"seed {seed}, {arguments.minutes:g} minutes, in {home}", flush=True)
    world = World(home, random.Random(seed))  # noqa: S311  reproducible
    try:
        run(world, arguments.minutes)
    finally:
        for name in (LOG, OVER):
            kill_marked(StreamPaths(world.settings.streams, name).mark, set())
    print(f"\nsent {world.sent:,}; {dict(sorted(world.done.items()))}")
    print("\n".join(["wrong:", *world.wrong]) if world.wrong else "nothing wrong")
    return int(bool(world.wrong))


if __name__ == "__main__":
    sys.exit(main())
