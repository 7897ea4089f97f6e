"""Law 0 over starts: a step added to a running pipeline and rebuilt anywhere folds the same way."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.columns import watermark
from penstock.core.slack import SlackPolicy
from penstock.core.window import FOREVER
from penstock.lake.history.balance import balance
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.ingest import door
from penstock.lake.log.blocks import LIVE
from penstock.lake.log.proposed import propose
from penstock.lake.proof.recount import recount
from penstock.lake.proof.retrace import Plans, Trace, read_plans, retrace
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import lose_memory
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import BEGIN, disordered, write_jsonl

pytestmark = pytest.mark.law

SLACKS: dict[str, dict[str, Any]] = {
    "fixed": {"slack": {"fixed": "PT20S"}, "quality": None},
    "max_delay": {"slack": {"max_delay": {"bound": "PT60S"}}, "quality": None},
    "pd": {"slack": {"pd": {"measure_after": "PT30S"}},
           "quality": {"epsilon": 0.1, "delta": 0.1, "records": 50}},
    "pd_final": {"slack": {"pd_final": {"measure_after": "PT60S", "recent": "PT10M"}},
                 "quality": {"epsilon": 0.1, "delta": 0.1, "records": 50}},
    "quantile": {"slack": {"quantile": {"measure_after": "PT60S", "recent": "PT10M"}},
                 "quality": {"epsilon": 0.1, "delta": 0.1, "records": 50}},
}  # fmt: skip
assert SLACKS.keys() == {policy.value for policy in SlackPolicy}

PLAIN = ("fixed", "max_delay")
"""Those that the oracle folds by itself, with live records before the epoch."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)


def running(home: Path, mode: str = "live") -> Lake:
    """A pipeline that has taken records before its step is asked for."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": mode,
              "idle_after": "PT0.000001S"}  # fmt: skip
    return make_lake(home, CASES["sites"], source=source)


def take(lake: Lake, number: int, *, silent: bool = False) -> None:
    """The next 150 of 1,500 records; silent: the door says so afterwards."""
    rows = disordered(1_500, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    part = rows[150 * number : 150 * (number + 1)]
    write_jsonl(lake.home / "live" / f"{number}.jsonl", part)
    at = lake.door()
    at.work()
    if silent:
        at.work()


CALM = BEGIN + timedelta(seconds=300)
"""From here on few are late, and less than before: what K was before shows for long."""


def take_calm(lake: Lake, number: int) -> None:
    """The next 40 of 400 records, 80 s; of 20 one is later than all before it since ``CALM``."""
    rows = disordered(400, seed=5, apart=2.0, late_share=0.0, begin=CALM)
    for i in range(19, 400, 20):
        rows[i]["event_time"] -= timedelta(seconds=25 + i)
    write_jsonl(lake.home / "live" / f"calm{number}.jsonl", rows[40 * number : 40 * (number + 1)])
    lake.door().work()


def audited(lake: Lake) -> Trace:
    """The audit's own way through the log, at the newest position; green."""
    tables, step, at = lake.tables, lake.step, position(lake.tables, lake.step)
    assert at is not None
    events = tables.events(lake.pipeline.types)
    log = recount(tables, events, at.sealed.seq, at.sealed.block)
    rows = [r for r in read_plans(tables, step) if r["epoch"] == at.epoch.number]
    again = retrace(tables, events, step, log.blocks, at, generations(tables, step), Plans(rows))
    assert (log.faults, again.batches, again.generations, again.plans) == ([], [], [], [])
    assert again.watermark == at.sealed.state.watermark
    return again


def told(lake: Lake, epoch: int) -> tuple[Any, ...]:
    """Watermarks by block, timely answers without when they were given, open pairs."""
    marks = {s.block: s.state for s in sealed_rows(lake.tables, lake.step, epoch)}
    timely = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    apart = {"epoch", "generation", "micro_batch", "published_at"}
    answers = {pair: {n: v for n, v in row.items() if n not in apart} for pair, row in
               timely.items()}  # fmt: skip
    at = balance(lake.tables, lake.step)
    assert at is not None
    return marks, answers, at.open


@pytest.mark.parametrize(
    "policy", ["fixed", "quantile", *map(rare, ("max_delay", "pd", "pd_final"))]
)
@pytest.mark.parametrize("seed", [0, *map(rare, range(1, 8))])
def test_a_step_added_anywhere_and_rebuilt_anywhere_folds_the_same(
    tmp_path: Path, policy: str, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311
    added = draw.randint(2, 6)
    lost = {draw.randint(added, 9) for _ in range(2)}
    silent = {draw.randint(0, 9)}
    found = []
    for rebuilt in (False, True):
        lake = running(tmp_path / str(rebuilt))
        lake.edit(**SLACKS[policy])
        for number in range(10):
            take(lake, number, silent=number in silent)
            if number >= added:
                query = lake.query(blocks=3)
                query.run()
                if rebuilt and number in lost:
                    lose_memory(query.folder, "all")
        lake.query(blocks=3).run()
        audited(lake)
        lake.correct()
        audited(lake)
        if policy in PLAIN:
            lake.check()
        found.append(told(lake, 0))
        assert len(generations(lake.tables, lake.step)) == (1 + len(lost) if rebuilt else 1)
    assert found[1][1:] == found[0][1:]
    assert found[0][0].items() >= found[1][0].items()


@pytest.mark.parametrize("policy", ["pd", "pd_final", "quantile"])
def test_a_start_behind_a_large_slack_is_the_same_after_a_rebuild(
    tmp_path: Path, policy: str
) -> None:
    found = []
    for rebuilt in (False, True):
        lake = running(tmp_path / str(rebuilt))
        lake.edit(**SLACKS[policy])
        take(lake, 0)
        query = lake.query(blocks=2)
        assert query.generation.state.slack > 60e6
        for number in range(3):
            take_calm(lake, number)
            query.run()
            if rebuilt and number == 1:
                lose_memory(query.folder, "all")
                query = lake.query(blocks=2)
        audited(lake)
        found.append(told(lake, 0))
    assert found[1][1:] == found[0][1:]


@pytest.mark.parametrize(
    "former", ["fixed", "max_delay", *map(rare, ("pd", "pd_final", "quantile"))]
)
@pytest.mark.parametrize(
    "next_one", ["quantile", *map(rare, ("pd", "pd_final", "fixed", "max_delay"))]
)
def test_an_edited_slack_of_a_running_pipeline_leaves_the_audit_green(
    tmp_path: Path, former: str, next_one: str
) -> None:
    lake = running(tmp_path)
    lake.edit(**SLACKS[former])
    lake.query()
    for number in range(6):
        take(lake, number, silent=number == 2)
        if number == 3:
            lake.query(blocks=2).run()
            lake.edit(**SLACKS[next_one])
            lake.query(blocks=2)
    lake.query(blocks=2).run()
    audited(lake)
    lake.correct()
    audited(lake)


@pytest.mark.parametrize("next_one", ["quantile", rare("pd"), rare("pd_final")])
def test_a_controller_begins_with_the_fixed_slack_before_it(tmp_path: Path, next_one: str) -> None:
    lake = running(tmp_path)
    lake.edit(slack={"fixed": "PT5M"}, quality=None)
    lake.query()
    for number in range(6):
        take_calm(lake, number)
        if number == 2:
            lake.query(blocks=2).run()
            lake.edit(**SLACKS[next_one])
            lake.query(blocks=2)
    lake.query(blocks=2).run()
    audited(lake)
    lake.correct()
    audited(lake)


@pytest.mark.parametrize("policy", ["pd", "quantile", rare("pd_final")])
def test_an_adopted_proposal_and_then_another_where_leave_the_audit_green(
    tmp_path: Path, policy: str
) -> None:
    lake = running(tmp_path)
    lake.edit(**SLACKS[policy])
    lake.query()
    for number in range(3):
        take(lake, number)
    lake.query(blocks=2).run()
    slack = lake.step.slack
    assert slack.tuning is not None
    spec = replace(slack, tuning=replace(slack.tuning, threshold=0.6))
    propose(lake.tables, lake.step, spec, "measured", lake.clock)
    for number in range(3, 6):
        take(lake, number)
    lake.query(blocks=2).run()
    audited(lake)
    lake.edit(where="delay > 0")
    query = lake.query(blocks=2)
    for number in range(6, 8):
        take(lake, number)
    lake.query(blocks=2).run()
    audited(lake)
    assert query.generation.slack == spec, "what was adopted stays in force"
    lake.correct()
    audited(lake)


def test_a_source_that_is_live_after_its_end_has_timely_answers_again(tmp_path: Path) -> None:
    lake = running(tmp_path, mode="bounded")
    lake.query()
    for number in range(3):
        take(lake, number)
    lake.ingest(LIVE)
    lake.query(blocks=2).run()
    lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert at.sealed.state.watermark == FOREVER
    lake.config = lake.config | {"source": lake.config["source"] | {"mode": "live"}}
    lake.edit()
    query = lake.query(blocks=2)
    assert query.generation.epoch == 1
    assert query.generation.state.watermark == query.generation.state.t_max < FOREVER
    for number in range(3, 7):
        take(lake, number)
    query.run()
    assert timely_answers(lake.tables, lake.step).num_rows > 10
    audited(lake)
    lake.correct()
    audited(lake)
    lose_memory(lake.query().folder, "all")
    again = lake.query(blocks=2)
    assert (again.generation.number, again.generation.epoch) == (2, 1)
    again.run()
    audited(lake)
    lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    blocks = blocks_of(lake.tables, lake.pipeline)
    reopened = [replace(b, kind="idle") if b.kind == "end" else b for b in blocks]
    expected = ref.run(lake.epoch_oracle(), reopened, at.epoch.block)
    assert at.sealed.state.watermark == expected.watermarks[-1]
    found = rows_by_pair(lake.step, answers_in_force(lake.tables, lake.step), "through_seq")
    assert_same(expected.corrected, found, position=False)
    timely = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    assert_same(expected.timely, timely)
