"""What would change if files were followed: steps that start, share a run, are rebuilt, or end.

The register is what the tables say: which definition each run had last, and since when. Source: EMR
(the topology that is wanted beside the one that runs); the estimates are ours.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from penstock.config.catalog import Catalog
from penstock.config.kept import PutOut, catalog_of_files, put_out, read_files
from penstock.config.links import stands_on
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import Shares, shared, shares_of
from penstock.config.versions import fits
from penstock.control.spoken import spoken
from penstock.core.parallelism import UNSAID, joint
from penstock.core.slack import SlackSpec
from penstock.core.step import StepSpec
from penstock.core.version import FORMER, NEXT, pipeline_of, version_of, which_of
from penstock.core.window import micros
from penstock.lake.history.generation import generations
from penstock.lake.history.position import BACKFILL, DONE, PLANNED, position, start_of
from penstock.lake.history.registry import OVER
from penstock.lake.history.standing import ever_run
from penstock.lake.log.blocks import decisions_of, newest_seq
from penstock.lake.log.freezes import frozen
from penstock.lake.log.proposed import declared
from penstock.lake.log.register import steps_spec
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import logs_in
from penstock.lake.storage.tables import Tables

NOBODY: Mapping[str, PutOut] = {}


class What(StrEnum):
    """What becomes of a step."""

    STARTS = "starts"
    SHARES = "shares"
    REBUILT = "is rebuilt"
    WAITS = "waits otherwise"
    RESCALED = "is rescaled"
    ENDS = "ends"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one step.

    Attributes:
        log: on which it runs.
        pipeline: whose it is; empty: no file has it any more.
        step: its name there.
        run: what answers for it.
        what: what becomes of it.
        because: in words.
        records: of the past, that corrections will read for it.
        seconds: how long that takes at the rate of former ones; none: there is none to go by.
    """

    log: str
    pipeline: str
    step: str
    run: str
    what: What
    because: str
    records: int = 0
    seconds: float | None = None

    @property
    def name(self) -> str:
        """Of pipeline and step; empty: no file has it any more."""
        return f"{self.pipeline}.{self.step}" if self.pipeline else ""

    @property
    def about(self) -> str:
        """How long it takes, in words; empty: nothing is read."""
        if self.seconds is None:
            return "not known yet" if self.records else ""
        return spoken(timedelta(seconds=round(self.seconds) or 1))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What files ask for, beside what there is.

    Attributes:
        changes: what becomes of each step.
        held: pipelines whose edit waits for approval, with the digest of what it says; those
            that others stand on first.
    """

    changes: tuple[Change, ...]
    held: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings, in_force: Catalog, running: Collection[str]) -> "Outlook":
        """Of the files, beside the catalog in force; one with problems asks for what it last said.

        Args:
            settings: where they are.
            in_force: the catalog in force.
            running: pipelines whose stream runs: their edits are built beside them.
        """
        valid, known = read_files(settings).pipelines, shares_of(settings)
        read = [each for each in valid if each.name not in in_force.standing_in]
        wanted = [one for each in read for one in _asked(each, in_force, running)]
        out = put_out(settings, catalog_of_files(settings, in_force))
        there = {each.name for each in read} | out.keys()
        wanted += [each for each in in_force.pipelines if each.name not in there]
        wanted += [each for each in in_force.versions
                   if which_of(each.name) == FORMER
                   and pipeline_of(each.name) not in out]  # fmt: skip
        shared(wanted, known)
        first = sorted(read, key=lambda each: (len(stands_on(each)), each.name))
        held = {each.name: each.digest for each in first if each.name in in_force.held}
        changes = planned(settings.lake_uri, wanted, known, out)
        return cls(tuple(_explained(each, in_force) for each in changes), held)


def _asked(file: Pipeline, in_force: Catalog, running: Collection[str]) -> Sequence[Pipeline]:
    """What a file asks for: what it says, or, where that is built first, both."""
    if file.name not in in_force.held or file.name not in running:
        return [file]
    now = in_force.pipeline(file.name)
    return [now, file.beside(now, version_of(now.name, NEXT))] if fits(file, now) else [file]


def _explained(change: Change, in_force: Catalog) -> Change:
    """With why a step stays although its file cannot be followed."""
    if change.what is What.STAYS and change.pipeline in in_force.standing_in:
        return replace(change, because=change.because or in_force.why_former(change.pipeline))
    return change


def planned(
    lake: str, pipelines: Sequence[Pipeline], known: Shares, out: Mapping[str, PutOut] = NOBODY
) -> list[Change]:
    """What becomes of each step, log by log.

    Args:
        lake: URI of the lake.
        pipelines: all that files say; they know their runs.
        known: which run each step has so far, and on which log its pipeline stands.
        out: pipelines that others put out of force.
    """
    by_log: dict[str, list[Pipeline]] = {log: [] for log in logs_in(lake)}
    for pipeline in pipelines:
        by_log.setdefault(pipeline.log, []).append(pipeline)
    return [change for log, some in sorted(by_log.items())
            for change in _OfLog(Tables(lake, log), known, out).changes(some)]  # fmt: skip


class _OfLog:
    """The changes of one log."""

    def __init__(self, tables: Tables, known: Shares, out: Mapping[str, PutOut]) -> None:
        self.tables, self.log, self.out = tables, tables.pipeline, out
        self.known = {(s.pipeline, s.step): s.run for s in known.runs if s.log == self.log}
        here = {each.pipeline for each in known.logs if each.log == self.log}
        self.moved = {each.pipeline for each in known.logs} - here
        self.newest, self.frozen = newest_seq(tables), frozen(tables).seq
        self.rate = _rate(tables)
        self.decisions = Table(tables.decisions())
        runs = read_table(Table(steps_spec(tables)), ["run", "tasks"]).to_pylist()
        self.tasks: dict[str, int] = {row["run"]: row["tasks"] for row in runs}

    def changes(self, pipelines: Sequence[Pipeline]) -> list[Change]:
        found, first = list[Change](), dict[str, str]()
        asked: dict[str, int] = {}
        for step in (step for pipeline in pipelines for step in pipeline.specs):
            asked[step.id] = joint(step.parallelism, asked.get(step.id, UNSAID))
        for pipeline in sorted(pipelines, key=lambda each: (each.name != self.log, each.name)):
            for step in pipeline.specs:
                mate, tasks = first.get(step.id, ""), asked[step.id]
                found.append(self._of(pipeline.name, step, mate, tasks))
                first.setdefault(step.id, f"{pipeline.name}.{step.name}")
        return [*found, *self._ends(first.keys())]

    def _of(self, pipeline: str, step: StepSpec, mate: str, asked: int) -> Change:
        said = (self.log, pipeline, step.name, step.id)
        if mate and self.known.get((pipeline, step.name)) == step.id:
            return Change(*said, What.STAYS, f"has the run of {mate}")
        if mate:
            return Change(*said, What.SHARES, f"means what {mate} means: nothing is read for it")
        past = generations(self.tables, step)
        if not past and pipeline_of(pipeline) in self.moved:
            because = f"what it takes the answers of is another step: it begins anew in {self.log}"
            return self._reads(said, What.REBUILT, because)
        if not past or past[-1].fingerprint == OVER:
            because = "was removed before" if past else "has never run"
            stream = f"with stream__{pipeline_of(pipeline)}"
            if which_of(pipeline):
                because = f"is built beside {pipeline_of(pipeline)}, which answers meanwhile"
            return self._reads(said, What.STARTS, f"{because}; {stream}")
        if past[-1].fingerprint != step.fingerprint:
            return self._reads(said, What.REBUILT, "means something else than before")
        return self._goes_on(said, step, asked)

    def _goes_on(self, said: tuple[str, str, str, str], step: StepSpec, asked: int) -> Change:
        """Of a step that means what it meant."""
        former = declared(decisions_of(self.decisions, step.id))
        if former is not None and former != step.slack:
            return Change(*said, What.WAITS, _waits(former, step.slack))
        if asked > 0 and 0 < (tasks := self.tasks.get(step.id, 0)) != asked:
            return Change(*said, What.RESCALED, f"from {tasks} tasks to {asked}")
        at = position(self.tables, step) or start_of(self.tables, step)
        if at is None or not at.owes:
            return Change(*said, What.STAYS, "")
        owed = at.epoch.seq - self.frozen
        because = f"past not answered yet: {owed:,} records, for correct__{pipeline_of(said[1])}"
        return self._reads(said, What.STAYS, because, owed)

    def _reads(
        self, said: tuple[str, str, str, str], what: What, because: str, owed: int | None = None
    ) -> Change:
        """With how much it reads: all there is, unless another figure is known."""
        records = self.newest - self.frozen if owed is None else owed
        seconds = records / self.rate if records and self.rate else None
        return Change(*said, what, because, records, seconds)

    def _ends(self, wanted: Collection[str]) -> list[Change]:
        """Steps that others put out of force, and runs that no file asks for."""
        ever = ever_run(self.tables)
        out = [Change(self.log, name, step, run, What.ENDS, _put_out(one))
               for name, one in self.out.items() for step in one.pipeline.steps
               if (run := self.known.get((name, step))) is not None and run in ever]  # fmt: skip
        told = {change.run for change in out} | {*wanted}
        gone = "no file asks for it any more; what it answered stays until it is removed"
        return out + [Change(self.log, "", run, run, What.ENDS, gone)
                      for run in ever if run not in told]  # fmt: skip


def _put_out(one: PutOut) -> str:
    file = one.pipeline.path.name
    return (
        f"{file} has problems, and {one.why}; what it answered stays, and it goes on once it fits"
    )


def _waits(former: SlackSpec, now: SlackSpec) -> str:
    changed = former.policy != now.policy
    than = f"in place of {former.policy.value}" if changed else "with other figures"
    return f"slack {now.policy.value} {than}"


def _rate(tables: Tables) -> float | None:
    """Records a second of the newest correction that answered a whole past; none: there is none."""
    rows = read_table(Table(tables.corrections())).to_pylist()
    began = {(r["step"], r["epoch"], r["plan"]): r for r in rows
             if r["state"] == PLANNED and r["reason"] == BACKFILL
             and r["window_from_us"] is None}  # fmt: skip
    ended = [r for r in rows if r["state"] == DONE and (r["step"], r["epoch"], r["plan"]) in began]
    for row in sorted(ended, key=lambda r: r["recorded_at"], reverse=True):
        plan = began[row["step"], row["epoch"], row["plan"]]
        seconds = (micros(row["recorded_at"]) - micros(plan["recorded_at"])) / 1e6
        if seconds > 0 and plan["through_seq"] > plan["after_seq"]:
            return (plan["through_seq"] - max(plan["after_seq"], -1)) / seconds
    return None
