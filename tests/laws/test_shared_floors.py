"""Pipelines over the same answers share a log and what is equal above it, to the last floor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.config.guest import Guest
from penstock.config.shares import Shares, shared
from penstock.lake.history.generation import generations
from penstock.lake.history.standing import ever_run
from tests import chains
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.law

ROWS, EACH = some_rows(320, 11), 40
HOURS: dict[str, Any] = {"window": {"size": "PT16M"}, "measures": {"n": "sum(n)"}}


def base(home: Path) -> Lake:
    """A log whose pipeline has a step of minutes."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    return make_lake(home, (chains.BASE, CASES["sites"][1]), source=source)


def guest_of(lake: Lake, **changes: Any) -> Lake:
    """A pipeline on that log with the same step, or nearly."""
    content = {"name": "g", "path": lake.home / "g.yaml", "source": {"pipeline": "p"}}
    pipeline = Guest.model_validate(content | {"steps": {"s": chains.BASE | changes}})
    pipeline.link(lake.pipeline)
    return replace(lake, pipeline=pipeline, config={})


def chain_over(lake: Lake, name: str, last: dict[str, Any]) -> list[chains.Over]:
    """Two floors over the step of a pipeline; the names are the pipeline's."""
    columns = {"site": "string", "n": "long", "bags": "long"}
    one = chains.over(lake, f"{name}_s", chains.FIRST, columns)
    return [one, chains.over(one, f"{name}_t", last, {"n": "long", "most": "long"})]


def answered(floors: list[list[chains.Over]]) -> None:
    """What waits above is taken, and every run answers it once, log by log."""
    for floor in floors:
        for log in {each.pipeline.log for each in floor}:
            mine = [each for each in floor if each.pipeline.log == log]
            mine[0].feed().catch_up()
            steps = {each.step.id: each.step for each in mine}
            mine[0].query(steps=[*steps.values()]).run()


def goes_on(lake: Lake, number: int, bases: list[Lake], floors: list[list[chains.Over]]) -> None:
    """A file arrives."""
    write_jsonl(lake.home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])
    lake.ingest()
    lake.query(steps=[*{each.step.id: each.step for each in bases}.values()]).run()
    answered(floors)


def corrected(bases: list[Lake], floors: list[list[chains.Over]]) -> None:
    """All is, from below upwards; a history is answered before what follows it comes."""
    for each in bases:
        each.correct()
    for _ in range(3):
        answered(floors)
        for one in (one for floor in floors for one in floor):
            one.correct()


def is_true(
    lake: Lake, chain: list[chains.Over], of: Any = chains.of_second, size: int = 8
) -> None:
    """What a chain says is what its first step says, gathered."""
    mark = chains.watermark(lake)
    one = chains.closed(chains.of_first(chains.in_force(lake)), 4, mark)
    assert one
    assert chains.in_force(chain[0]) == one
    assert chains.in_force(chain[1]) == chains.closed(of(one), size, mark)


def of_hours(one: dict[chains.Key, dict[str, Any]]) -> dict[chains.Key, dict[str, Any]]:
    return {key: {"n": sum(v["n"] for v in some)}
            for key, some in chains.gathered(one, 4, 16, 16, keyed=False).items()}  # fmt: skip


def test_who_edits_leaves_the_chain_to_who_does_not(tmp_path: Path) -> None:
    lake = base(tmp_path)
    mate = guest_of(lake)
    mine, other = chain_over(lake, "p", chains.SECOND), chain_over(mate, "g", chains.SECOND)
    hours = chain_over(mate, "h", HOURS)
    every = [each.pipeline for each in (lake, mate, *mine, *other, *hours)]
    known = shared(every, Shares())
    assert {each.pipeline.log for each in (mine[0], other[0], hours[0])} == {"g_s"}
    assert {each.pipeline.log for each in (mine[1], other[1], hours[1])} == {"g_t"}
    assert mine[1].step.id == other[1].step.id == "s"
    assert hours[1].step.id == "h_t.s"
    floors = [[mine[0], other[0], hours[0]], [mine[1], other[1], hours[1]]]
    for number in range(4):
        goes_on(lake, number, [lake, mate], floors)
    assert [ever_run(each[0].tables) for each in floors] == [["s"], ["h_t.s", "s"]]
    corrected([lake, mate], floors)
    for chain in (mine, other):
        is_true(lake, chain)
    is_true(mate, hours, of_hours, 16)

    lake.edit(slack={"fixed": "PT90S"})
    mate.pipeline.link(lake.pipeline)  # type: ignore[attr-defined]
    for chain, first in ((mine, lake), (other, mate), (hours, mate)):
        chain[0].pipeline.link(first.pipeline)
        chain[1].pipeline.link(chain[0].pipeline)
    every[0] = lake.pipeline
    known = shared(every, known)
    assert [each.pipeline.log for each in mine] == ["p_s", "p_t"]
    assert [each.pipeline.log for each in (*other, *hours)] == ["g_s", "g_t"] * 2
    assert (lake.step.id, mate.step.id) == ("s.2", "s"), "the run stays with who means it still"
    for number in range(4, 8):
        goes_on(lake, number, [lake, mate], floors)
    corrected([lake, mate], floors)
    is_true(lake, mine)
    is_true(mate, other)
    is_true(mate, hours, of_hours, 16)
    assert [g.number for g in generations(other[1].tables, other[1].step)] == [0], "nobody noticed"
    assert chains.watermark(lake) < chains.watermark(mate), "each waits as it says"
