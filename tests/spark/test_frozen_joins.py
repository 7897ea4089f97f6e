"""What is older than a pipeline of joins keeps goes: its pairs stay, and the rest is as it was."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import ConfigError
from penstock.core.window import instant
from penstock.lake.history.balance import balance, by_stream
from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.freezes import frozen
from penstock.lake.serve.asked import asked
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.answers import Memory
from tests.doubles import deadly_commits
from tests.forgery import Forger, all_audited
from tests.joins import SLACK, Pair, check_settled, check_stream, logged, pairs_in, true_pairs
from tests.lakes import Lake
from tests.rarely import rare
from tests.spark.freezing import maintained, maintained_by_a_mortal, small
from tests.streams import SECOND, write_jsonl
from tests.two_streams import CASES, COLUMNS, Life, lake_of, rows_of

pytestmark = pytest.mark.spark
KEEP = {"any": "PT12S", "site": "PT20S"}
COUNTED: dict[str, Any] = {
    "stream": "cameras", "keys": ["site"], "window": {"size": "PT4S"},
    "measures": {"n": "count(*)"}, **SLACK,
}  # fmt: skip
"""A step over one of the streams: as lateness goes, each stream is alone."""


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    with small():
        yield


class Freezing(Life):
    """A life of which the older part goes, and a memory that keeps all of it."""

    def __init__(self, home: Path, name: str, seed: int) -> None:
        more = {"keep": KEEP[name], "steps": {"counted": COUNTED}}
        super().__init__(home, CASES[name], seed, 25, ("live", "live"), **more)
        self.memory = Memory()

    @property
    def steps(self) -> list[Lake]:
        return [replace(self.lake, name=name) for name in ("s", "counted")]

    def correct(self) -> None:
        recheck = self.draw.random() < 0.3
        for lake in self.steps:
            lake.correct(recheck=recheck)

    def settle(self) -> None:
        """Everything that came is answered and corrected."""
        self.lake.ingest()
        self.lake.query().run()
        self._query = None
        for lake in self.steps:
            lake.correct()

    def look(self, spark: SparkSession) -> dict[str, int]:
        """Audit all steps; returns pairs of records and windows by step."""
        lake = self.lake
        self.memory.see(lake.tables, lake.pipeline)
        found = all_audited(spark, lake, lake.clock.now(), kept=True)
        assert {n: (v.red, v.said) for n, v in found.items()} == dict.fromkeys(found, (set(), ()))
        return {name: verdict.row["pairs_events"] for name, verdict in found.items()}


def frozen_throughout(spark: SparkSession, life: Freezing, looks: int) -> Lake:
    """A life in which anybody may die, and much goes; returns its lake."""
    for _ in range(looks):
        with deadly_commits(life.death):
            for _ in range(12):
                life.death.share = life.draw.choice([0.0, 0.03])
                life.step()
            life.death.share = 0.0
            for name in 4 * [*life.waiting]:
                if life.waiting[name]:
                    life._put(name)
            life.settle()
            life.look(spark)
            for _ in range(3):
                maintained_by_a_mortal(life.lake, life.draw, life.death)
    life.finish()
    life.settle()
    return life.lake


@pytest.mark.parametrize(
    ("name", "seed"), [("any", 2), rare("site", 1), *(rare("any", n) for n in range(3, 12))]
)
def test_lives_in_which_the_log_of_a_join_is_frozen(
    quick: SparkSession, tmp_path: Path, name: str, seed: int
) -> None:
    life = Freezing(tmp_path, name, seed)
    if seed % 2:  # one stream is silent from some day on
        del life.waiting["cars"][10:]
    lake, memory = frozen_throughout(quick, life, 4), life.memory
    counts = life.look(quick)
    assert check_stream(lake, life.case, memory)
    assert check_settled(lake, life.case, memory)
    assert counts["s"] == sum(r is not None for r in logged(lake, memory).records)
    gone = frozen(lake.tables)
    assert gone.number >= 0, "something is frozen"
    maintain_pipeline(lake.tables, lake.pipeline)
    events = read_table(Table(lake.tables.events(lake.pipeline.types)), ["arrival_seq"])
    assert min(events["arrival_seq"].to_pylist()) > gone.seq


@pytest.fixture(scope="module")
def kept(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Freezing:
    """Files of both streams have come, one after the other; the greater part is frozen."""
    with small():
        life = Freezing(tmp_path_factory.mktemp("kept"), "any", 5)
        lake = life.lake
        for number in range(8):
            for name in 3 * [*life.waiting]:
                life._put(name)
            lake.ingest()
            lake.query(blocks=3).run()
            life.settle()
            if number in {0, 5}:
                life.look(quick)
            if number in {4, 5}:
                maintained(lake)
        life.memory.see(lake.tables, lake.pipeline)
        return life


def of_a_copy(life: Freezing, home: Path, **join: Any) -> Lake:
    """The same lake elsewhere, of a file in which the join is another one."""
    shutil.copytree(life.lake.home / "lake", home / "lake")
    case = replace(life.case, config={**life.case.config, **join})
    more = {"keep": KEEP["any"], "steps": {"counted": COUNTED}}
    found, clock = lake_of(home, case, ("live", "live"), **more), life.lake.clock
    return replace(found, clock=replace(clock), audits=life.lake.audits)


def test_what_is_shown_counts_all_records(kept: Freezing) -> None:
    lake = kept.lake
    assert frozen(lake.tables).seq > 0
    records = [r for r in logged(lake, kept.memory).records if r is not None]
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert (found.accepted, found.on_time + found.late) == (len(records), len(records))
    streams = by_stream(lake.tables, found.received - 1)
    whose = Counter(record["stream"] for record in records)
    assert {name: accepted for name, (accepted, _) in streams.items()} == whose
    assert sum(map(sum, streams.values())) == found.received


def green(spark: SparkSession, lake: Lake) -> dict[str, Any]:
    """Figures of an audit of the join that finds nothing amiss."""
    verdicts = all_audited(spark, lake, lake.clock.now(), kept=True)
    assert {n: (v.red, v.said) for n, v in verdicts.items()} == dict.fromkeys(verdicts, (set(), ()))
    return verdicts["s"].row


def test_an_edited_join_answers_what_has_all_of_its_partners(
    quick: SparkSession, kept: Freezing, tmp_path: Path
) -> None:
    lake = of_a_copy(kept, tmp_path, within={"before": "PT4S", "after": "PT6S"})
    case = replace(kept.case, before=4 * SECOND)
    gone, draw = frozen(lake.tables), random.Random(1)  # noqa: S311

    def come(clock: int) -> None:
        for name in COLUMNS:
            rows = rows_of(draw, name, 15, clock)
            write_jsonl(tmp_path / name / f"{clock}.jsonl", rows)
        lake.ingest()
        for step in ("s", "counted"):
            replace(lake, name=step).query().run()
            replace(lake, name=step).correct()

    lake.query().run()
    begun = generations(lake.tables, lake.step)[-1]
    assert (begun.frozen, begun.number > 0) == (gone.seq, True)
    come(130)
    memory = Memory({**kept.memory.events}, {**kept.memory.blocks})
    log = logged(lake, memory)
    begin, size = gone.window_from + 4 * SECOND, lake.step.window.size
    starts = [r and r["event_time"] // size * size for r in log.records]
    exact = {pair for pair in true_pairs(log, case) if starts[pair[0]] >= begin}
    assert exact
    assert pairs_in(answers_in_force(lake.tables, lake.step)) == exact
    figures = green(quick, lake)
    assert figures["answers_compared"] == len(exact)
    there = [r for r in log.records[gone.seq + 1 : begun.seq + 1] if r is not None]
    assert figures["pairs_preloaded"] == len(there) > 0
    come(230)
    assert maintained(lake).endswith(" will be frozen")
    come(240)
    green(quick, lake)
    assert maintained(lake).endswith(" are frozen")
    assert frozen(lake.tables).seq > begun.seq
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert found.preloaded == len(there)
    assert green(quick, lake)["pairs_preloaded"] == len(there)


def test_a_one_time_query_asks_what_has_all_of_its_partners(kept: Freezing, tmp_path: Path) -> None:
    lake, log = kept.lake, logged(kept.lake, kept.memory)
    begin = frozen(lake.tables).begin_of(lake.step)

    def found(since: int | None) -> set[Pair]:
        between = None if since is None else instant(since), None
        view = asked(lake.tables, lake.pipeline, "s", "left.speed > right.most + 1", between)
        return pairs_in(view.content(None))

    every = true_pairs(log, kept.case)
    expected = {p for p in every if log.records[p[0]]["event_time"] >= begin}
    assert 0 < len(expected) < len(every)
    assert found(None) == found(begin) == expected
    with pytest.raises(ConfigError, match=f"before {instant(begin):%F %T} UTC some partners"):
        found(begin - 1)


def newest(name: str, by: str) -> Callable[[Forger], Any]:
    """Deletes the newest row of a table."""
    return lambda forger: forger.drop(name, max(forger.rows(name), key=itemgetter(by)))


FAULTS = {
    "a pair that is lost": ("missing_answers", newest("answers", "window_start")),
    "a late record that is lost": ("late_miscounted", newest("late", "last_seq")),
    "a record that is lost": ("numbers_missing", newest("events", "arrival_seq")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_is_kept_is_found(
    quick: SparkSession, kept: Freezing, tmp_path: Path, fault: str
) -> None:
    forger = Forger(of_a_copy(kept, tmp_path))
    red, plant = FAULTS[fault]
    plant(forger)
    assert red in all_audited(quick, forger.lake, forger.lake.clock.now())["s"].red
