"""What happens to a topology under fire: files come, go and change, streams stop, processes die."""

import contextlib
import io
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import yaml
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.kept import approve, build, catalog_in_force, keep, take_back
from penstock.config.settings import Settings, child_environment
from penstock.control.job import OUTCOME
from penstock.core.errors import PenstockError
from penstock.core.floor import file_of, floor_of
from penstock.core.request import Job, JobRequest
from penstock.core.version import FORMER, NEXT, pipeline_of, version_of, which_of
from penstock.runtime.streams import control, links
from penstock.runtime.streams.outlook import owed_by
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import marked
from penstock.runtime.streams.spec import StreamSpec, environment_of
from penstock.runtime.terminal.removal import remove_pipeline
from tests.soak.faults import role_of
from tests.soak.logs import Log

NAMES = ("ants", "bees", "cats", "dogs", "eels")
BROKEN = "steps: ["
TRIES = 5
CHANGES = {"add": 4, "remove": 2, "edit": 4, "rescale": 4, "rename": 2, "break": 2,
           "stop or start": 3, "slack": 2, "kill driver": 2, "kill JVM": 2, "kill worker": 2,
           "kill supervisor": 1, "job": 3, "build": 3, "prove": 3, "switch": 2, "take back": 1,
           "drop": 1}  # fmt: skip
"""What happens, and how often beside the others."""
PARALLELISM = (None, 1, 2, 3, "auto")
OVERDUE = "No answer waits "
"""How expectations begin that fail where corrections were killed, and none came for long."""
Steps = dict[str, dict[str, Any]]


def _age(file: Path) -> float:
    return file.stat().st_mtime


@dataclass
class World:
    """Files, and who is to run.

    Attributes:
        home: PENSTOCK_HOME of all processes.
        logs: with their records.
        draw: what is random.
        steps: of each pipeline that stands on a log, as its file says, or last said.
        log_of: on which.
        floors: pipelines with a step over the answers of their first one.
        running: files whose pipelines are to be linked.
        sent: records in files, by log.
        wrong: what must not be.
    """

    home: Path
    logs: list[Log]
    draw: random.Random
    steps: dict[str, Steps] = field(default_factory=dict)
    log_of: dict[str, Log] = field(default_factory=dict)
    floors: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    sent: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    due: list[tuple[Job, str]] = field(default_factory=list)
    jobs: "dict[subprocess.Popen[bytes], str]" = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Of this home."""
        return Settings(home=self.home, pipelines=self.home / "pipelines", approve=True)

    @cached_property
    def stay(self) -> list[str]:
        """Pipelines that do: those whose logs they are, and those over their answers."""
        return [name for log in self.logs for name in (log.name, log.over) if name]

    def source(self, log: Log) -> Path:
        """Where its files come."""
        return self.home / "source" / log.name

    def begin(self) -> None:
        """The pipelines that stay."""
        self.settings.pipelines.mkdir(parents=True)
        for log in self.logs:
            self.source(log).mkdir(parents=True)
            step = log.step | {
                "window": {"size": log.windows[0]},
                "slack": {"fixed": log.slacks[0]},
            }
            self.write(log.name, {"source": {"files": str(self.source(log)), "format": "parquet"},
                                  "columns": log.columns, "event_time": "at",
                                  "steps": {"own": step}})  # fmt: skip
            if log.over:
                self.write(log.over, {"source": {"pipeline": log.name, "step": "own"},
                                      "columns": {log.key: "string", "n": "long"},
                                      "steps": {"top": log.top}})  # fmt: skip
        self.running |= {*self.stay}

    def write(self, name: str, content: dict[str, Any] | str) -> None:
        """Replace a file as an editor does."""
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        new = self.settings.pipelines / f".{name}.new"
        new.write_text(text)
        new.replace(self.settings.pipelines / f"{name}.yaml")

    def say(self, name: str) -> None:
        """Write the file of a pipeline that stands on a log."""
        log, steps = self.log_of[name], {**self.steps[name]}
        if name in self.floors:
            steps["top"] = {"from": min(self.steps[name])} | log.top
        self.write(name, {"source": {"pipeline": log.name}, "steps": steps})

    def unlink(self, name: str) -> None:
        """End the streams of a file."""
        for step in self.steps.get(name, ()):
            links.unlink(self.settings.streams, floor_of(name, step), "user")
        links.unlink(self.settings.streams, name, "user")

    def some_step(self, log: Log) -> dict[str, Any]:
        """Few enough that several pipelines mean the same."""
        where, parallelism = self.draw.choice(log.conditions), self.draw.choice(PARALLELISM)
        return log.step | ({"where": where} if where else {}) | {
            "window": {"size": self.draw.choice(log.windows)},
            "slack": {"fixed": self.draw.choice(log.slacks)},
        } | ({"parallelism": parallelism} if parallelism else {})  # fmt: skip

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
        name, log = self.draw.choice(free), self.draw.choice(self.logs)
        count = self.draw.choice((1, 1, 2))
        self.log_of[name] = log
        self.steps[name] = {f"s{n}": self.some_step(log) for n in range(count)}
        self.floors -= {name}
        self.floors |= {name} if log.wide and self.draw.random() < 0.8 else set()
        self.say(name)
        self.running.add(name)
        return True

    def _remove(self) -> bool:
        """Its stream ends, its file goes; what it wrote goes as well, or stays for a while."""
        if not (name := self._one()):
            return False
        self.running.discard(name)
        self.unlink(name)
        (self.settings.pipelines / f"{name}.yaml").unlink()
        steps = self.steps.pop(name)
        if self.draw.random() < 0.6:  # ``penstock remove``; whoever it says still runs stays
            for each in (*(floor_of(name, step) for step in steps), name):
                with contextlib.suppress(PenstockError):
                    remove_pipeline(self.settings, each, Console(file=io.StringIO()), sure=True)
        return True

    def _edit(self) -> bool:
        """What it means is in force at once, or waits."""
        if not (name := self._one()):
            return False
        step = self.draw.choice(sorted(self.steps[name]))
        self.steps[name][step] = self.some_step(self.log_of[name])
        self.say(name)
        if self.draw.random() < 0.5:
            self.approve(name)
        return True

    def approve(self, name: str) -> None:
        """Whatever waits of a file is in force."""
        for each in Catalog.read(self.settings.pipelines).pipelines:
            if file_of(each.name) == name:
                approve(self.settings, each.name, each.digest)

    def _build(self) -> bool:
        """An edit that waits runs beside what is in force."""
        found = {each.name: each.digest for each in Catalog.read(self.settings.pipelines).pipelines}
        held = sorted(catalog_in_force(self.settings).held & found.keys())
        if not held:
            return False
        name = self.draw.choice(held)
        return build(self.settings, name, found[name]) is not None

    def _versions(self, which: str) -> list[str]:
        names = (each.name for each in catalog_in_force(self.settings).versions)
        return sorted(pipeline_of(name) for name in names if which_of(name) == which)

    def _prove(self) -> bool:
        """A correction and an audit of a version, if nothing else runs."""
        if not (built := self._versions(NEXT)) or self.due:
            return False
        name = version_of(self.draw.choice(built), NEXT)
        self.due += [(Job.CORRECT, name), (Job.AUDIT, name)]
        return True

    def _switch(self) -> bool:
        """Readers switch to a version that is proved."""
        owed = owed_by(self.settings, catalog_in_force(self.settings))
        if not (ready := sorted(pipeline_of(name) for name, why in owed.items() if not why)):
            return False
        self.approve(self.draw.choice(ready))
        return True

    def _take_back(self) -> bool:
        """What was in force is so again."""
        if not (stand_by := self._versions(FORMER)):
            return False
        with contextlib.suppress(PenstockError):  # its file is broken
            take_back(self.settings, self.draw.choice(stand_by))
        return True

    def _drop(self) -> bool:
        """A version goes."""
        names = sorted(each.name for each in catalog_in_force(self.settings).versions)
        if not names:
            return False
        with contextlib.suppress(PenstockError):  # the host is being started
            remove_pipeline(
                self.settings, self.draw.choice(names), Console(file=io.StringIO()), sure=True
            )
        return True

    def _some_of(self, name: str) -> dict[str, Any]:
        return self.steps[name][self.draw.choice(sorted(self.steps[name]))]

    def _slack(self) -> bool:
        if not (name := self._one()):
            return False
        self._some_of(name)["slack"] = {"fixed": self.draw.choice(self.log_of[name].slacks)}
        self.say(name)
        return True

    def _rescale(self) -> bool:
        if not (name := self._one()):
            return False
        step, parallelism = self._some_of(name), self.draw.choice(PARALLELISM)
        step.pop("parallelism", None)
        step |= {"parallelism": parallelism} if parallelism else {}
        self.say(name)
        return True

    def _rename(self) -> bool:
        """A step has another name."""
        if not (name := self._one()):
            return False
        step = self.draw.choice(sorted(self.steps[name]))
        self.unlink(name)  # of a floor above it the name is another one, too
        self.steps[name][f"s{self.draw.randint(10, 99)}"] = self.steps[name].pop(step)
        self.say(name)
        return True

    def _break(self) -> bool:
        """Or mend."""
        if not (name := self._one()):
            return False
        file = self.settings.pipelines / f"{name}.yaml"
        if file.read_text() == BROKEN:
            self.say(name)
        else:
            self.write(name, BROKEN)
        return True

    def _stop_or_start(self) -> bool:
        name = self.draw.choice((*(log.name for log in self.logs), *sorted(self.steps)))
        if name in self.running:
            self.running.discard(name)
            self.unlink(name)
        else:
            self.running.add(name)
        return True

    def _kill(self, which: str) -> bool:
        names = control.names(self.settings.streams)
        marks = [StreamPaths(self.settings.streams, name).mark for name in names]
        alive = (pid for mark in marks for pid in marked(mark) if psutil.pid_exists(pid))
        found = list[psutil.Process]()
        for pid in alive:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                found += [process] if role_of(process) == which else []
        with contextlib.suppress(psutil.Error):
            if found:
                self.draw.choice(found).send_signal(signal.SIGKILL)
        return bool(found)

    def _job(self) -> bool:
        """A correction or an audit, and perhaps it is killed."""
        if self.jobs:
            if self.draw.random() < 0.3:
                next(iter(self.jobs)).kill()
            return True
        known = sorted(p.name for p in catalog_in_force(self.settings).every)
        job = self.draw.choice((Job.CORRECT, Job.CORRECT, Job.AUDIT))
        self.due.append((job, self.draw.choice(known)))
        return True

    def see_to_jobs(self) -> None:
        """What ended is judged, what is due begins: one after the other."""
        for process, said in [*self.jobs.items()]:
            if (code := process.poll()) is not None:
                del self.jobs[process]
                if code == 10 and (why := self._red(said)):
                    self.wrong.append(f"{said} was red: {why}")
        if self.due and not self.jobs:
            job, name = self.due.pop(0)
            self.jobs[self._begun(job, name)] = f"{job} of {name}"

    def _red(self, said: str) -> list[str]:
        """Why a job was; that nobody corrected for long, since those who should were killed, is no
        fault."""
        job, _, name = said.partition(" of ")
        log = max((self.settings.logs / "jobs").glob(f"{job}-*-{name}.log"), key=_age)
        last = log.read_text().rpartition(OUTCOME)[2]
        return [why for why in json.loads(last)["failed"] if not why.startswith(OVERDUE)]

    def _begun(self, job: Job, name: str) -> "subprocess.Popen[bytes]":
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

    def runs(self, job: Job, name: str) -> None:
        """A job, until it is done."""
        for _ in range(TRIES):
            if (code := self._begun(job, name).wait()) == 0:
                return
        self.wrong.append(f"{job} of {name} ends with {code}")

    def see_to_streams(self) -> None:
        """As the triggers and the parsing of DAGs do."""
        catalog = catalog_in_force(self.settings)
        keep(self.settings, catalog)
        for pipeline in catalog.pipelines:
            if file_of(pipeline.name) not in self.running:
                continue
            paths = StreamPaths(self.settings.streams, pipeline.log)
            meant = StreamSpec.of(self.settings, pipeline.log, pipeline.log_digest)
            now, file = control.status(paths), file_of(pipeline.name)
            wanted = lambda file=file: file in self.running  # noqa: E731
            if now.state != "stopping" and links.link(paths, pipeline.name, wanted):
                with contextlib.suppress(PenstockError):
                    control.ensure_supervisor(paths, meant, wanted)

    def feed(self) -> None:
        """A file for each log."""
        for log in self.logs:
            first, folder = self.sent[log.name], self.source(log)
            rows = log.some(first, self.draw.randint(1, 600))
            hidden = folder / f".{first:09}"
            pq.write_table(rows, hidden)
            hidden.rename(folder / f"{first:09}.parquet")
            self.sent[log.name] += rows.num_rows
