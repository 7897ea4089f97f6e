"""Topologies that change while they run: what that costs the others, and what sharing saves.

    python benchmarks/topology.py [--rate 8000] [--few 5] [--many 25] [--changes 12]

One log, live files of a quarter of a second, and pipelines that stand on it with a step each; every
run is a process of its own.

- start: from the moment pipelines are linked until each of their steps has sealed; then the median
  micro-batch, and memory of all processes (PSS);
- others: steps come, go, get another definition and other tasks, one change every few seconds; how
  long records of a step that stays wait for their answer (from the file to the commit that seals
  them), after a change and else; and the same beside a step that fails at each of its micro-batches
  and is tried again every second;
- commits: of the control plane (registry, decisions, register, rescalings) when one step comes to
  some, when it gets other tasks, and when some come at once;
- shared: processor time of all processes for a log that is sealed, for one pipeline, for nine and
  ten that mean the same, and for ten that do not.
"""

import argparse
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import latency
import measuring
import numpy as np
import psutil
from steps import memory

from penstock.config.guest import Guest
from penstock.config.pipeline import Pipeline
from penstock.config.shares import Shares, shared
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.core.errors import TerminalError
from penstock.lake.history.registry import Registry
from penstock.spark import running as running_module
from penstock.spark.query import LogQuery
from penstock.spark.sink import StepSink
from penstock.spark.stream_host import StreamHost

CONTROL = ("registry", "decisions", "pipelines", "steps", "tasks", "shares", "rescalings")
PAUSE, AFTER, WARM = 4.0, 2.0, 12.0
"""Seconds from change to change, after one in which waits count as its, and to warm up."""
LEVELS = (2, 4, 8, 16, 32, 64)


class Told(latency.Alone):
    """What steps have sealed."""

    def __init__(self) -> None:
        super().__init__()
        self.sealed: dict[str, int] = {}

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        """Count micro-batches of steps."""
        if step is not None and "micro_batch" in figures:
            self.sealed[step] = self.sealed.get(step, 0) + 1

    def forget(self, step: str) -> None:
        """It has gone."""
        self.sealed.pop(step, None)


def guest_of(pipeline: Pipeline, name: str, seconds: int, **more: Any) -> Pipeline:
    """A pipeline on its log, with a step of windows of so many seconds."""
    step = {"keys": ["key"], "window": {"size": f"PT{seconds}S"}, "slack": {"fixed": "PT1S"},
            "measures": {"n": "count(*)", "total": "sum(value)"}}  # fmt: skip
    content = {"name": name, "path": pipeline.path.with_name(f"{name}.yaml"),
               "steps": {"live": step | more}, "source": {"pipeline": pipeline.name}}  # fmt: skip
    found = Guest.model_validate(content)
    found.link(pipeline)
    return found


class Log:
    """A log with a step of its own, and a host of it."""

    def __init__(self, spark: Any, home: Path) -> None:
        self.home, self.pulse = home, Told()
        (home / "source").mkdir(parents=True)
        self.pipeline, self.tables = measuring.pipeline_in(home, latency.PIPELINE)
        self.linked: list[Pipeline] = [self.pipeline]
        self.host = StreamHost(spark, self.tables, self.pipeline, home, SystemClock(), self.pulse,
                               linked=lambda: [*self.linked])  # fmt: skip
        self.thread = threading.Thread(target=self.host.run)

    def link(self, *guests: Pipeline) -> float:
        """Let these run, too; seconds until each has sealed."""
        before = {each.name for each in guests}
        kept = [each for each in self.linked if each.name not in before]
        shared([*kept, *guests], Shares())
        began, self.linked = time.monotonic(), [*kept, *guests]
        waits = {step.id for each in guests for step in each.specs}
        for run in waits:
            self.pulse.sealed.pop(run, None)
        while not waits <= self.pulse.sealed.keys():
            if not self.thread.is_alive():
                raise SystemExit("the host ended")
            time.sleep(0.02)
        return time.monotonic() - began

    def rescale(self, guest: Pipeline, tasks: int) -> float:
        """Let the step of a pipeline that is linked run in so many tasks; seconds until it does."""
        rest = [each for each in self.linked if each.name != guest.name]
        began, self.linked = time.monotonic(), [*rest, guest]
        (step,) = guest.specs
        while (run := self.host.hosted.steps[step.id]).shards != tasks or run.moves:
            time.sleep(0.02)
        return time.monotonic() - began

    def commits(self) -> int:
        """Of the control plane, so far."""
        logs = (Path(self.tables.uri(name), "_delta_log") for name in CONTROL)
        return sum(len([*each.glob("*.json")]) for each in logs)

    def waited(self, each: int) -> list[tuple[float, float]]:
        """When each file was there, and how long its records waited for their answer."""
        control = latency.rows_of(self.tables.control(self.pipeline.specs[0]).uri, "through_seq")
        seals = sorted((row["through_seq"], when) for when, row in control)
        found, files = [], sorted((self.home / "source").glob("*.parquet"))
        for number, file in enumerate(files):
            there, last = file.stat().st_mtime, (number + 1) * each - 1
            if done := [when for through, when in seals if through >= last]:
                found.append((there, min(done) - there))
        return found


@contextmanager
def running(home: Path, rate: int) -> Iterator[Log]:
    """A log into which records come until its host is stopped."""
    with measuring.session("topology") as spark:
        log = Log(spark, home)
        feeder = multiprocessing.get_context("spawn").Process(
            target=latency.feed, args=(home / "source", rate, 3_600.0), daemon=True
        )
        feeder.start()
        log.thread.start()
        try:
            while log.pulse.sealed.get("live", 0) < WARM:
                time.sleep(0.05)
            yield log
        finally:
            log.pulse.stop.set()
            log.thread.join()
            feeder.terminate()


def started(home: Path, rate: int, steps: int) -> dict[str, float]:
    """Some pipelines that are linked at once."""
    with running(home, rate) as log:
        took = log.link(*(guest_of(log.pipeline, f"g{n}", n + 2) for n in range(steps)))
        time.sleep(20)
        streaming = log.host.hosted.queries["together"].streaming
        spans = [p["durationMs"]["triggerExecution"] for p in streaming.recentProgress[-20:]
                 if p["numInputRows"]]  # fmt: skip
        return {"start": took, "batch": statistics.median(spans) / 1e3, "memory": memory() / 2**30}


def changed(home: Path, rate: int, steps: int, changes: int) -> dict[str, float]:
    """Steps come, go and are edited, beside some that stay."""
    with running(home, rate) as log:
        log.link(*(guest_of(log.pipeline, f"g{n}", n + 2) for n in range(steps)))
        time.sleep(WARM)
        begin, at = time.time(), list[float]()
        for number in range(changes):
            at.append(time.time())
            if number % 5 == 0:
                log.link(guest_of(log.pipeline, "comes", 60))
            elif number % 5 == 1:
                log.link(guest_of(log.pipeline, "comes", 90))
            elif number % 5 < 4:
                tasks = 2 * (number % 5) - 3  # one, then three
                log.rescale(guest_of(log.pipeline, "comes", 90, parallelism=tasks), tasks)
            else:
                log.linked = [each for each in log.linked if each.name != "comes"]
            time.sleep(PAUSE)
        time.sleep(PAUSE)
        end = time.time()
        waits = [w for w in log.waited(int(rate * latency.EVERY)) if begin - WARM / 2 < w[0] < end]
    return compared(waits, at)


def failing(home: Path, rate: int, steps: int, seconds: float) -> dict[str, float]:
    """A step fails at each of its micro-batches, beside some that stay."""
    write, at = StepSink.write, list[float]()

    def fails(self: StepSink, *arguments: Any) -> dict[str, Any]:
        if self.step.id != "bad.live":
            return write(self, *arguments)
        at.append(time.time())
        raise TerminalError("its table is damaged")

    running_module.PAUSE_SECONDS = running_module.LONGEST_SECONDS = 1.0
    StepSink.write = fails  # type: ignore[method-assign]
    with running(home, rate) as log:
        log.link(*(guest_of(log.pipeline, f"g{n}", n + 2) for n in range(steps)))
        time.sleep(2 * WARM)
        begin = time.time()
        bad = guest_of(log.pipeline, "bad", 90)
        log.linked = [*log.linked, bad]
        time.sleep(seconds)
        end = time.time()
        waits = log.waited(int(rate * latency.EVERY))
    mine = [w for w in waits if begin - WARM < w[0] < end]
    return compared(mine, [begin + n * AFTER for n in range(int(seconds / AFTER))]) | {
        "failures": len(at)
    }


def compared(waits: Sequence[tuple[float, float]], at: Sequence[float]) -> dict[str, float]:
    """Waits after some instants, beside the others."""
    near = [wait for there, wait in waits if any(-0.5 < there - when < AFTER for when in at)]
    far = [wait for there, wait in waits
           if all(not -0.5 < there - when < AFTER for when in at)]  # fmt: skip
    usual = float(np.quantile(far, 0.95))
    return {
        "usual": statistics.median(far), "usual p95": usual, "usual max": max(far),
        "near": statistics.median(near), "near p95": float(np.quantile(near, 0.95)),
        "near max": max(near), "late": sum(w > 1.5 * usual for w in near) / len(near),
        "late usual": sum(w > 1.5 * usual for w in far) / len(far),
    }  # fmt: skip


def committed(home: Path, rate: int) -> dict[str, list[int]]:
    """Commits of the control plane: one step comes to some, is rescaled; some come at once."""
    one, other, all_at_once = list[int](), list[int](), list[int]()
    with running(home, rate) as log:
        for level in LEVELS:
            before = log.commits()
            log.link(*(guest_of(log.pipeline, f"at{level}n{n}", 2 + n) for n in range(level)))
            time.sleep(2)
            all_at_once.append(log.commits() - before)
            before = log.commits()
            log.link(guest_of(log.pipeline, "one", 600 + level))
            time.sleep(2)
            one.append(log.commits() - before)
            before = log.commits()
            log.rescale(guest_of(log.pipeline, "one", 600 + level, parallelism=1), 1)
            time.sleep(2)
            other.append(log.commits() - before)
            log.linked = [log.pipeline]
            while len(log.pulse.sealed) > 1:
                time.sleep(0.1)
            time.sleep(2)
    return {"one": one, "rescaled": other, "all": all_at_once}


def burnt(home: Path, records: int, pipelines: int, *, equal: bool) -> dict[str, float]:
    """Processor seconds of all processes for a sealed log, after the first micro-batch."""
    pipeline, tables = measuring.pipeline_in(home, latency.PIPELINE)
    guests = [guest_of(pipeline, f"g{n}", 7 if equal else 7 + n) for n in range(pipelines)]
    shared([pipeline, *guests], Shares())
    steps = {step.id: step for each in guests for step in each.specs}
    registry = Registry(tables, SystemClock(), pipeline)
    for step in steps.values():
        registry.begin_epoch(step, "benchmark")
    (home / "source").mkdir()
    latency.some(home / "source", records)
    measuring.ingest(tables, pipeline, home)
    with measuring.session("topology") as spark:
        query = LogQuery(spark, tables, pipeline, "together", SystemClock(), lambda *_: None,
                         lambda step, cause: sys.exit(f"{step}: {cause}"),
                         Bounds.fixed(100_000))  # fmt: skip
        streaming = query.start([*steps.values()])
        while query.done < 0:
            time.sleep(0.05)
        before = processor_seconds()
        streaming.processAllAvailable()
        spent = processor_seconds() - before
    return {"cpu": spent, "runs": len(steps)}


def processor_seconds() -> float:
    """Of this process and its children, so far."""
    own = psutil.Process()
    return sum(sum(p.cpu_times()[:2]) for p in [own, *own.children(recursive=True)])


RUNS = {
    "started": started, "changed": changed, "failing": failing, "committed": committed,
    "burnt": burnt,
}  # fmt: skip


def others(found: dict[str, float], beside: str) -> str:
    """A table of how long records of a step that stays wait."""
    return measuring.markdown(
        ["a step that stays", "median, s", "p95, s", "most, s", "over 1.5 x usual p95"],
        [["usually", *(f"{found[f'usual{each}']:.2f}" for each in ("", " p95", " max")),
          f"{found['late usual']:.1%}"],
         [beside, *(f"{found[f'near{each}']:.2f}" for each in ("", " p95", " max")),
          f"{found['late']:.1%}"]])  # fmt: skip


def main() -> None:
    """Measure, and print Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=8_000)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--few", type=int, default=5)
    parser.add_argument("--many", type=int, default=25)
    parser.add_argument("--changes", type=int, default=12)
    parser.add_argument("--only", nargs="*", default=[*RUNS])
    args = measuring.asked(parser, RUNS)
    apart = partial(measuring.apart, __file__)
    print(f"{args.rate:,} records/s; {measuring.machine()}\n")
    if "started" in args.only:
        rows = [(steps, apart("started", rate=args.rate, steps=steps))
                for steps in (args.few, args.many)]  # fmt: skip
        print(measuring.markdown(
            ["steps", "linked to sealed, s", "micro-batch, s", "memory, GB"],
            [[f"{n}", f"{r['start']:.1f}", f"{r['batch']:.2f}", f"{r['memory']:.2f}"]
             for n, r in rows]))  # fmt: skip
    if "changed" in args.only:
        found = apart("changed", rate=args.rate, steps=args.few, changes=args.changes)
        print(others(found, "after a change"))
    if "failing" in args.only:
        found = apart("failing", rate=args.rate, steps=args.few, seconds=60.0)
        print(others(found, f"beside one that fails, {found['failures']} times"))
    if "committed" in args.only:
        found = apart("committed", rate=args.rate)
        rows = zip(LEVELS, found["one"], found["rescaled"], found["all"], strict=True)
        head = ["steps", "commits when one more comes", "when it is rescaled",
                "when all come at once"]  # fmt: skip
        print(measuring.markdown(head, [[*map(str, row)] for row in rows]))
    if "burnt" in args.only:
        cases = {"one pipeline": (1, True), "nine that mean the same": (9, True),
                 "ten that mean the same": (10, True), "ten that do not": (10, False)}  # fmt: skip
        rows = [(name, apart("burnt", records=args.records, pipelines=n, equal=equal))
                for name, (n, equal) in cases.items()]  # fmt: skip
        head = ["", "runs", f"processor seconds, {args.records:,} records"]
        table = [[name, r["runs"], f"{r['cpu']:.1f}"] for name, r in rows]
        print(measuring.markdown(head, table))


if __name__ == "__main__":
    main()
