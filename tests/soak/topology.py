"""Random changes of a topology for minutes, under load and kills; ends with the balance.

    python -m tests.soak.topology --minutes 10 [--seed 7] [--home FOLDER] [--zeek FILE]

The log of the demo's flights, one of Zeek's beside it if there is a file, and pipelines that stand
on these: they are added and removed, edited (at once, or by a version that is proved beside them),
rescaled, renamed, broken and mended, started and stopped, while records come as they came and
processes are killed. At the end all that is left is corrected and audited; DuckDB computes every
answer again from the files; the register must say what runs. Real processes, no Airflow. Exit
status 0: nothing was lost, doubled or wrong.
"""

import argparse
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from penstock.config.answers import OverAnswers
from penstock.config.kept import catalog_in_force
from penstock.config.settings import Settings
from penstock.core.request import Job
from penstock.lake.history.position import position
from penstock.lake.log.blocks import newest_seq, next_block
from penstock.lake.over.taken import taken_at
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import kill_marked
from tests.soak.changes import CHANGES, World
from tests.soak.judged import Judge
from tests.soak.logs import flights, zeek

SECONDS = {"least": 3.0, "most": 12.0}
DRAIN_SECONDS = 600.0


def drained(world: World) -> bool:
    """All that runs has answered all records."""
    for pipeline in catalog_in_force(world.settings).every:
        tables = Tables(world.settings.lake_uri, pipeline.log)
        if newest_seq(tables) + 1 < world.sent[pipeline.log]:
            return False
        last = next_block(tables)
        if any((at := position(tables, step)) is None or at.sealed.block < last
               for step in pipeline.specs):  # fmt: skip
            return False
    return True


def taken(settings: Settings, pipeline: OverAnswers) -> bool:
    """All that the step has answered is in the log of a pipeline over it, and answered there."""
    tables, above = Tables(settings.lake_uri, pipeline.log), pipeline.over
    at = position(Tables(settings.lake_uri, pipeline.other.log), above)
    last = next_block(tables)
    known = taken_at(tables, last)
    steps = [position(tables, step) for step in pipeline.specs]
    return (
        at is not None
        and (known.seq, known.done) == (at.sealed.seq, at.done)
        and all(each is not None and each.sealed.block == last for each in steps)
    )


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
        world.see_to_jobs()
        if time.monotonic() > due:
            what = world.draw.choices([*CHANGES], [*CHANGES.values()])[0]
            if world.change(what):
                world.done[what] += 1
                print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)
            due = time.monotonic() + world.draw.uniform(SECONDS["least"], SECONDS["most"])
        if time.monotonic() - said > 60:
            said += 60
            print(f"sent {dict(world.sent)} changes {world.done.total()} running"
                  f" {sorted(world.running)} wrong {world.wrong}", flush=True)  # fmt: skip
        time.sleep(0.5)
    for process in world.jobs:
        process.wait()
    for name in sorted(world.steps):
        world.say(name)
        world.approve(name)
    world.running |= {*world.stay, *world.steps}
    if not until(lambda: drained(world), DRAIN_SECONDS, world.see_to_streams):
        world.wrong.append(f"not drained within {DRAIN_SECONDS:.0f} s")
    time.sleep(5)  # of the register: a host looks once a second
    judge(world)


def judge(world: World) -> None:
    """Everything that is left answers the files, and the register says what runs."""
    known = catalog_in_force(world.settings)
    if known.errors:
        world.wrong.append(f"files are wrong: {known.errors}")
    over = [each for each in known.every if isinstance(each, OverAnswers)]
    lowest = [each for each in known.every if not isinstance(each, OverAnswers)]
    for job, some in ((Job.CORRECT, lowest), (Job.CORRECT, lowest), (Job.CORRECT, over),
                      (Job.CORRECT, over), (Job.AUDIT, lowest), (Job.AUDIT, over)):  # fmt: skip
        if some is over and not until(lambda: all(taken(world.settings, each) for each in over),
                                      DRAIN_SECONDS, world.see_to_streams):  # fmt: skip
            world.wrong.append("what is over answers does not get all of them")
        for pipeline in some:
            world.runs(job, pipeline.name)
    print(f"{len(over)} over answers, in {len({each.log for each in over})} logs", flush=True)
    for log in world.logs:
        found = Judge(world.settings, log, world.source(log), world.sent[log.name])
        world.wrong += found.wrong([*known.every], world.running)
        print(f"{log.name}: {found.answers:,} answers compared", flush=True)


def main() -> int:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, help="drawn and printed if not given")
    parser.add_argument("--home", type=Path, help="where to work; kept afterwards")
    parser.add_argument("--zeek", type=Path, help="Parquet: event_time, sip, rtt, as they arrived")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    home = (arguments.home or Path(tempfile.mkdtemp(prefix="penstock-topology-"))).absolute()
    print(f"seed {seed}, {arguments.minutes:g} minutes, in {home}", flush=True)
    logs = [flights(), *([zeek(arguments.zeek)] if arguments.zeek else [])]
    world = World(home, logs, random.Random(seed))  # noqa: S311  reproducible
    try:
        run(world, arguments.minutes)
    finally:
        for name in control.names(world.settings.streams):
            kill_marked(StreamPaths(world.settings.streams, name).mark, set())
    print(f"\nsent {dict(world.sent)}; {dict(sorted(world.done.items()))}")
    print("\n".join(["wrong:", *world.wrong]) if world.wrong else "nothing wrong")
    return int(bool(world.wrong))


if __name__ == "__main__":
    sys.exit(main())
