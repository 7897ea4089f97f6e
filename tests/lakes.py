"""Small lakes for the tests: real Delta tables in a temporary folder, one pipeline, no JVM."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from penstock.columns import watermark
from penstock.config.pipeline import Pipeline
from penstock.core.controller import Controller
from penstock.core.controllers import under
from penstock.core.place import path_of
from penstock.core.slack import SlackChange, WatermarkState, spec_at
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.history.balance import balance_at
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.correction import Planner, touched
from penstock.lake.history.generation import generations
from penstock.lake.history.plans import CorrectionPlan, plans
from penstock.lake.history.position import BACKFILL, Position, position, rows_of
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import late_at
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log import proposed
from penstock.lake.log.blocks import LIVE, slack_changes
from penstock.lake.proof.observed import classes
from penstock.lake.proof.recount import recount
from penstock.lake.proof.retrace import Plans, Stretch, Trace, read_plans, retrace
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.corrector import Corrector
from tests import reference as ref
from tests.answers import assert_same, blocks_of, late_by_pair, rows_by_pair, shed_by_pair
from tests.arriving import arrivals
from tests.doubles import RisingClock
from tests.local import LocalPrefix, LocalQuery
from tests.steps import CASES, make_pipeline
from tests.streams import disordered, write_jsonl


@dataclass
class Lake:
    """A pipeline with its tables, and one step of it."""

    home: Path
    pipeline: Pipeline
    oracle: ref.Step
    config: dict[str, Any]
    name: str = "s"
    clock: RisingClock = field(default_factory=RisingClock)
    audits: int = 0

    @property
    def tables(self) -> Tables:
        return Tables(str(self.home / "lake"), self.pipeline.log)

    @property
    def step(self) -> StepSpec:
        return self.pipeline.spec(self.name)

    def door(self) -> Door:
        return Door(self.tables, self.pipeline, self.home, self.clock)

    def ingest(self, origin: str = LIVE) -> int:
        return run_through(self.door(), origin, None, None)

    def query(self, **options: Any) -> LocalQuery:
        return LocalQuery(self.tables, self.pipeline, self.query_name, self.clock, **options)

    @property
    def query_name(self) -> str:
        """Of the query that runs the step."""
        return self.pipeline.query_of(self.name)

    @property
    def checkpoint(self) -> Path:
        """Spark's, of the step's query: the newest."""
        return path_of(newest_checkpoint(self.tables, self.query_name).uri)

    def planner(self, run_id: str = "r") -> Planner:
        return Planner(self.tables, self.step, self.clock, run_id)

    def corrector(self) -> Corrector:
        prefix = LocalPrefix(self.tables, self.pipeline, self.step)
        return Corrector(prefix, self.tables, self.step, self.clock)

    def edit(self, **changes: Any) -> None:
        """Edit the step in the pipeline file."""
        steps = self.config["steps"]
        steps = steps | {self.name: steps[self.name] | changes}
        self.config = self.config | {"steps": steps}
        self.pipeline = make_pipeline(self.home, **self.config)

    def correct(self, *span: Any, recheck: bool = False) -> int:
        """Plan and correct; returns the answers appended."""
        planner = self.planner()
        due = planner.due(*span, recheck=recheck)
        return sum(self.corrector().run(planner, plan).answers for plan in due)

    def in_force(self) -> dict[ref.Pair, dict[str, Any]]:
        """The answers in force, without what tells how they came about."""
        rows = rows_by_pair(self.step, answers_in_force(self.tables, self.step), "through_seq")
        names = [*(v.name for v in self.step.values), "n_records"]
        return {pair: {name: row[name] for name in names} for pair, row in rows.items()}

    def epoch_oracle(self) -> ref.Step:
        """The oracle's step with the slack that was decided, block by block."""
        found = slack_changes(self.tables, self.step.id)
        if any(c.spec.tuning is not None for c in found):
            several = len(self.step.streams) > 1
            slack = tuple((steered_apart if several else steered_slack)(self, found))
        else:
            slack = tuple(ref.Slack(c.spec.policy.value, c.spec.span, c.block) for c in found)
        return ref.Step(
            self.oracle.keys, self.oracle.window, self.oracle.measures, slack, self.oracle.where
        )

    def sheds(self) -> list[tuple[int, int]]:
        """What was decided to shed, as positions and ratios."""
        rows = read_table(Table(self.tables.decisions()))
        own = rows.filter(pc.equal(rows["step"], f"shed {self.step.id}"))
        mine = own.sort_by("block").to_pylist()
        said = [row["value"].split("@") for row in mine if row["what"] == "shed"]
        return [(int(seq), int(ratio)) for ratio, seq in said]

    def shed(self, ratio: int) -> None:
        """Ask for another ratio, as a host that is behind does."""
        proposed.shed(self.tables, f"shed {self.step.id}", ratio, "a test", self.clock)

    def check(self) -> None:
        """Every law at the newest sealed position."""
        blocks = blocks_of(self.tables, self.pipeline, streams=self.step.streams)
        at = position(self.tables, self.step)
        if at is not None:
            self.check_at(at, blocks)

    def check_at(self, at: Position, blocks: list[ref.Block]) -> None:
        """Timely answers and late rows are the log's; what is not pending is exact."""
        step, tables = self.step, self.tables
        spec, oracle = at.epoch.slack, self.epoch_oracle()
        steered = any(slack.policy == "steered" for slack in oracle.slack)
        begun = None if steered or spec is None else ref.Slack(spec.policy.value, spec.span)
        expected = ref.run(oracle, blocks[: at.sealed.block], at.epoch.block, begun, self.sheds())
        assert at.sealed.state.watermark == expected.watermarks[-1]
        timely = rows_by_pair(step, timely_answers(tables, step), "through_seq")
        assert_same(expected.timely, timely)
        rows = late_at(tables, step, at, layout_of(step).fields)
        shed = pc.equal(rows["reason"], "shed")
        assert_same(expected.late, late_by_pair(step, rows.filter(pc.invert(shed))))
        assert shed_by_pair(step, rows.filter(shed)) == expected.shed
        assert at.sealed.open_pairs == expected.open_pairs
        kept = balance_at(tables, step, at)
        assert kept.on_time == sum(a.n_records for a in expected.timely.values())
        assert kept.late == sum(a.n_records for a in expected.late.values())
        assert kept.shed == sum(count for count, _ in expected.shed.values())
        assert list(classes(tables, step, at).values()) == expected.classes
        settled = expected.corrected.keys() - self.pending(at)
        planned, done = plans(tables, step)
        history = [p.number for p in planned if p.reason == BACKFILL]
        if not set(history) <= done or (expected.preloaded and not history):
            settled -= expected.preloaded.keys()
        in_force = rows_by_pair(step, answers_in_force(tables, step), "through_seq")
        some = {pair: expected.corrected[pair] for pair in settled}
        assert_same(some, {p: in_force[p] for p in settled if p in in_force}, position=False)

    def pending(self, at: Position) -> set[ref.Pair]:
        """Windows with a late row that no finished correction has seen."""
        planned, done = plans(self.tables, self.step)
        seen = {}
        for plan in planned:
            if plan.number in done and plan.reason != BACKFILL:
                for pair in self._touched(plan, at):
                    seen[pair] = max(seen.get(pair, -1), plan.through_seq)
        rows = late_at(self.tables, self.step, at, [])
        return {p for p, (_, seq) in shed_by_pair(self.step, rows).items() if seq > seen.get(p, -1)}

    def _touched(self, plan: CorrectionPlan, at: Position) -> list[ref.Pair]:
        rows = touched(self.tables, self.step, plan, at)
        starts = pc.cast(rows["window_start"], "int64").to_pylist()
        keys = [rows[k].to_pylist() for k in self.step.key_names]
        return list(zip(starts, zip(*keys, strict=True) if keys else [()] * len(starts),
                        strict=True))  # fmt: skip


def steered_slack(lake: Lake, changes: list[SlackChange]) -> Iterator[ref.Slack]:
    """K for each record as a fixed one, by the controller over plain digests; one epoch."""
    epoch = generations(lake.tables, lake.step)[0]
    newest, seq, known, window = BEGINNING, -1, None, lake.step.window
    yield ref.Slack("fixed", 0)
    for number, block in enumerate(blocks_of(lake.tables, lake.pipeline)):
        spec = spec_at(changes, number)
        if number >= epoch.block:
            state = epoch.state
            known = under(known, window, spec, state)
        for record in block.records:
            seq += 1
            if record is not None and block.live:
                if known is not None:
                    known.receive(arrivals([record["event_time"]], newest, window))
                    yield ref.Slack("steered", known.slack, number, seq)
                newest = max(newest, record["event_time"])
            if known is not None and (seq + 1) % watermark.EVERY == 0:
                known.step()
        if known is not None and block.kind == ref.IDLE:
            known.close(max(known.watermark, known.t_max))
            known.settle()


def steered_apart(lake: Lake, changes: list[SlackChange]) -> Iterator[ref.Slack]:
    """The same over several streams from the log's beginning: each has a controller of its own."""
    rows = read_table(Table(lake.tables.blocks())).sort_by("block")["stream"].to_pylist()
    newest, known, seq = dict[str, int](), dict[str, Controller](), -1
    begun = WatermarkState()
    yield ref.Slack("fixed", 0)
    for number, (block, stream) in enumerate(
        zip(blocks_of(lake.tables, lake.pipeline), rows, strict=True)
    ):
        if block.kind != ref.DATA:
            continue
        mine = under(known.get(stream), lake.step.window, spec_at(changes, number), begun)
        known[stream] = mine
        for record in block.records:
            seq += 1
            if record is not None:
                time, before = record["event_time"], newest.get(stream, BEGINNING)
                mine.receive(arrivals([time], before, lake.step.window))
                yield ref.Slack("steered", mine.slack, number, seq)
                newest[stream] = max(before, time)
            if (seq + 1) % watermark.EVERY == 0:
                mine.step()


def assert_retraced(lake: Lake) -> None:
    """The audit's own fold comes to what the stream has sealed, also where it goes on halfway."""
    tables, step, at = lake.tables, lake.step, position(lake.tables, lake.step)
    assert at is not None
    events, begun = tables.events(lake.pipeline.types), generations(tables, step)
    mine = tables.events(lake.pipeline.types, step.streams)

    def gone(stretch: Stretch, plans: Plans, seq: int, block: int) -> Trace:
        counted = recount(tables, events, seq, block, stretch.since, step.streams)
        found = retrace(tables, mine, step, counted.blocks, at, begun, plans, stretch)
        assert (counted.faults, counted.missing, counted.doubled) == ([], 0, 0)
        assert (found.batches, found.generations, found.plans) == ([], [], [])
        return found

    end = at.sealed.seq, at.sealed.block
    whole = gone(Stretch(), Plans(read_plans(tables, step)), *end)
    assert whole.watermark == at.sealed.state.watermark
    rows = rows_of(tables, step, at)
    half = rows[len(rows) // 2]
    first = gone(Stretch(until=half.block, last=half.seq), Plans([]), half.seq, half.block)
    later = gone(Stretch(first.end), Plans([]), *end)
    assert later.end == whole.end
    assert [*first.marks, *later.marks[1:]] == whole.marks


def make_lake(home: Path, case: tuple[Any, ref.Step], **overrides: Any) -> Lake:
    """An empty lake of one step over JSON lines."""
    source = {"files": str(home / "live"), "format": "jsonl"}
    overrides = {"source": source} | overrides
    config = overrides | {"steps": {"s": case[0]}}
    return Lake(home, make_pipeline(home, **config), case[1], config)


def some_rows(count: int, seed: int) -> list[Any]:
    """Records seconds apart, minutes late, some of them refused."""
    draw = random.Random(seed)  # noqa: S311
    rows: list[Any] = list(disordered(count, seed=seed, apart=6.0, late_share=0.25, late_by=400.0))
    for i in range(count):
        if draw.random() < 0.06:
            wrong = ["not json", "[1]", '{"site": "a"}', json_of(rows[i], site=None)]
            rows[i] = draw.choice([*wrong, json_of(rows[i], bags="x")])
        elif rows[i]["code"] is None:
            rows[i]["code"] = 0
    return rows


def json_of(row: Any, **changed: Any) -> str:
    """One line."""
    import json

    return json.dumps({**row, **changed}, default=str)


ROWS, EACH = some_rows(90, seed=5), 15


def fed(home: Path) -> Lake:
    """A lake to which nothing has come yet."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    history = {"files": str(home / "history"), "format": "jsonl"}
    for name in ("live", "history"):  # a source that is not there is waited for
        (home / name).mkdir(parents=True, exist_ok=True)
    lake = make_lake(home, CASES["sites"], source=source, history=history)
    lake.query()
    return lake


def arrive(lake: Lake, files: int = 1) -> None:
    """The next files of six are there."""
    folder = lake.home / "live"
    first = len(list(folder.glob("*"))) if folder.exists() else 0
    for i in range(first, first + files):
        write_jsonl(folder / f"{i}.jsonl", ROWS[EACH * i : EACH * (i + 1)])


@contextmanager
def meanwhile(table: str, other: Callable[[], Any], *, after: bool = False) -> Iterator[list[str]]:
    """At the first commit to a table, another process does its work before or after it."""
    swap, seen = Table.swap, list[str]()

    def wrapped(self: Table, *arguments: Any) -> None:
        mine = f"/{table}" in self.spec.uri and not seen
        if mine:
            seen.append(self.spec.uri)
        if mine and not after:
            other()
        swap(self, *arguments)
        if mine and after:
            other()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield seen
    assert seen, f"nothing was committed to {table}"
