"""Random faults and random disorder under a pipeline for minutes; ends with the balance.

    python -m tests.soak --minutes 2 [--seed 7] [--into docs/soak]

Real processes, no Airflow. Exit status 0: nothing was lost, doubled or wrong, no audit was red,
and what must stay bounded did.
"""

import argparse
import bisect
import json
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from penstock.core.request import Job
from penstock.lake.history.position import position
from penstock.lake.log.blocks import read_summaries
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.runtime.streams.processes import kill_marked
from tests.soak.faults import Faults
from tests.soak.feeder import Feeder
from tests.soak.gauges import Gauges, Sample
from tests.soak.keeper import Jobs, Keeper, tree
from tests.soak.report import Told, draw, page, unbounded
from tests.soak.scene import IDLE_SECONDS, Scene, slowness
from tests.soak.truth import Balance, Truth, judged

DRAIN_SECONDS = 600.0
STUCK_SECONDS = 360.0


class Soak:
    """One run."""

    def __init__(self, home: Path, minutes: float, seed: int) -> None:
        self.scene, self.minutes, self.seed = Scene(home), minutes, seed
        self.feeder = Feeder(self.scene, seed)
        self.jobs = Jobs(self.scene, seed, min(1.0, max(0.25, minutes / 20)))
        self.keeper = Keeper(self.scene)
        self.gauges = Gauges(self.scene, self.feeder)
        self.faults = Faults(self.scene, self.keeper, self.jobs, seed, minutes)
        self.wrong: list[str] = []
        self.began = 0.0

    def run(self) -> Told:
        """Everything, to the verdict."""
        self.scene.write_yaml()
        self.feeder.write_history()
        self._expect(self.jobs.run(Job.PRELOAD), "the history was not preloaded")
        self.began, self.gauges.began = time.time(), time.monotonic()
        for thread in (self.keeper, self.feeder, self.gauges, self.jobs, self.faults):
            thread.start()
        self._watch()
        print("drain, correct, audit, maintain, compare")
        self.faults.end()
        self.feeder.end()
        self.jobs.end()
        most = slowness() * DRAIN_SECONDS
        self._expect(self._drained(most), f"not drained within {most:.0f} s")
        for job in (Job.CORRECT, Job.AUDIT, Job.MAINTAIN, Job.CORRECT, Job.AUDIT):
            self._expect(self.jobs.run(job), f"the last {job} failed")
        self.gauges.end()
        self.line(self.gauges.take())
        self._expect(self.keeper.end(), "the stream did not stop when it was asked to")
        self._expect(not tree(self.scene), "processes of the stream were left")
        truth = Truth(self.feeder.truth, self.feeder.refused)
        return self._told(judged(self.scene, self.feeder.sent, truth))

    def clear(self) -> None:
        """End whatever still runs: nothing after a run that ended by itself."""
        self.keeper.leave()
        kill_marked(self.scene.paths.mark, set())
        self.jobs.abandon()

    def _watch(self) -> None:
        """Until the time is over or something is wrong; says how it goes."""
        every = 60.0 if self.minutes >= 10 else 15.0
        until, said = time.monotonic() + 60 * self.minutes, time.monotonic()
        while time.monotonic() < until and not self._broken():
            time.sleep(0.5)
            if time.monotonic() - said >= every and self.gauges.samples:
                said += every
                self.line(self.gauges.samples[-1])

    def _broken(self) -> list[str]:
        """A red audit, a stream that stands, or a part of the soak itself that failed."""
        for part in (self.keeper, self.feeder, self.gauges, self.faults):
            if part.failed is not None:
                raise part.failed
        hit = max((f.ended for f in self.faults.done if f.stream), default=0.0)
        most = slowness() * STUCK_SECONDS
        if time.time() - max(hit, self.gauges.moved) > most:
            self._expect(False, f"records wait, but nothing was sealed for {most:.0f} s")
        return [*self.jobs.wrong, *self.wrong]

    def line(self, now: Sample) -> None:
        """One line of progress."""
        done = self.jobs.done
        print(
            f"{now.seconds / 60:5.1f} min  sent {now.sent:,}  sealed {now.sealed:,}"
            f"  kept {now.kept:,}  late pairs {now.late:,}  quarantined {now.quarantined:,}"
            f"  faults {len(self.faults.done)}  audits green {done['audit']}"
            f"  corrected {done['correct']}  maintained {done['maintain']}"
            f"  memory {now.memory_mib:,.0f} MiB  files {now.live_files:,} live"
            f" {now.dead_files:,} dead {now.log_files:,} log {now.spark_files:,} Spark"
            f"  state {now.state_pairs:,} pairs {now.state_mib:.1f} MiB",
            flush=True,
        )

    def _drained(self, most: float) -> bool:
        """Everything sealed, and the silence after it."""
        until = time.monotonic() + most + IDLE_SECONDS
        while time.monotonic() < until:
            blocks = read_summaries(self.scene.tables)
            at = [position(self.scene.tables, step) for step in self.scene.pipeline.specs]
            if (
                blocks[-1].last_seq + 1 == self.feeder.sent
                and blocks[-1].kind.value == "idle"
                and all(a is not None and a.sealed.block > blocks[-1].number for a in at)
            ):
                return True
            time.sleep(0.5)
        return False

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    def _recoveries(self) -> list[float]:
        """Seconds from a fault of the stream to the next seal of every step.

        Not where the next fault came first.
        """
        found = []
        hits = [f for f in self.faults.done if f.stream]
        seals = []
        for step in self.scene.pipeline.specs:
            rows = read_table(Table(self.scene.tables.control(step)), ["published_at"])
            seals.append(sorted(t.timestamp() for t in rows["published_at"].to_pylist()))
        for number, fault in enumerate(hits):
            at = bisect.bisect_left(self.feeder.written, fault.ended)
            if at == len(self.feeder.written):
                continue
            since = max(fault.ended, self.feeder.written[at])
            nexts = [bisect.bisect_left(times, since) for times in seals]
            if all(i < len(times) for i, times in zip(nexts, seals, strict=True)):
                slowest = max(times[i] for i, times in zip(nexts, seals, strict=True))
                if number + 1 == len(hits) or slowest < hits[number + 1].began:
                    found.append(slowest - since)
        return found

    def _told(self, balance: Balance) -> Told:
        samples = self.gauges.samples
        wrong = [*self.wrong, *self.jobs.wrong, *balance.wrong]
        wrong += unbounded(samples)
        return Told(
            self.seed, self.minutes, balance, samples, self.faults.done, self.jobs.done,
            self.jobs.again, self.keeper.errors, self._recoveries(), wrong,
        )  # fmt: skip


def main() -> int:
    """Run, print, write what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, help="drawn and printed if not given")
    parser.add_argument("--into", type=Path, help="folder for soak.md and soak.svg")
    parser.add_argument("--home", type=Path, help="where to work; kept afterwards")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    home = arguments.home or Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    home = home.absolute()
    print(f"seed {seed}, {arguments.minutes:g} minutes, in {home}", flush=True)
    soak = Soak(home, arguments.minutes, seed)
    try:
        told = soak.run()
    finally:
        soak.clear()
    into = arguments.into or home
    into.mkdir(parents=True, exist_ok=True)
    (into / "soak.md").write_text(page(told), encoding="utf-8")
    draw(told, soak.began, into / "soak.svg")
    (home / "samples.json").write_text(json.dumps([s.to_json() for s in told.samples]))
    print(f"\n{page(told)}\nseed {seed}; report in {into}")
    if not told.wrong and arguments.home is None and arguments.into is not None:
        shutil.rmtree(home)
    return int(bool(told.wrong))


if __name__ == "__main__":
    sys.exit(main())
