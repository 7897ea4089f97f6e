"""Look-ups, joins and newest records over answers: timely by the log, exact once corrected."""

from operator import gt
from pathlib import Path

import pytest

from penstock.lake.history.position import position
from penstock.lake.serve.asked import asked
from tests import chains, pairs_over
from tests.lakes import make_lake, some_rows
from tests.pairs_over import CASES as PAIRS
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import MINUTE, write_jsonl
from tests.worlds import lived

pytestmark = pytest.mark.law


def holds(case: pairs_over.Case, one: chains.Over) -> None:
    """What was told in time is what the log says."""
    if case.step["kind"] != "latest" and position(one.tables, one.step) is not None:
        assert pairs_over.timely(case, one) == pairs_over.must_be_timely(case, one)


def exact(case: pairs_over.Case, one: chains.Over) -> pairs_over.Said:
    """All that its log must say now."""
    at = position(one.tables, one.step)
    assert at is not None
    rows = pairs_over.newest_of(pairs_over.logged(one)[: at.sealed.seq + 1])
    if case.step["kind"] == "latest":
        end = at.sealed.state.watermark // (8 * MINUTE) * 8 * MINUTE
        rows = [row for row in rows if row["time"] < end]
    return case.said(rows)


@pytest.mark.parametrize("name", [*PAIRS])
def test_each_correction_makes_exact_what_the_log_holds(name: str, tmp_path: Path) -> None:
    case = PAIRS[name]
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source={
        "files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"})  # fmt: skip
    lake.query()
    one = pairs_over.paired(case, lake)
    one.query()
    changed = 0
    for _ in chains.rounds(lake, one):
        holds(case, one)
        changed += one.correct()
        assert pairs_over.in_force(case, one) == exact(case, one)
        assert not one.correct(), "twice is once"
    assert changed > 0
    assert pairs_over.timely(case, one) - pairs_over.in_force(case, one), "some were taken back"


def test_a_past_period_is_asked_for_as_it_was_corrected(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]))
    lake.query()
    one = pairs_over.paired(PAIRS["join"], lake)
    one.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(240, 7))
    lake.ingest()
    for _ in range(2):
        lake.query(blocks=1).run()
        one.feed().catch_up()
        lake.correct()
    rows = pairs_over.logged(one)
    found = asked(one.tables, one.pipeline, "s", "left.n > right.n", (None, None))
    pairs = pairs_over.told(PAIRS["join"], found.content(None))
    newest = pairs_over.newest_of(rows)
    assert pairs == pairs_over.beside(newest, gt)
    assert pairs != pairs_over.beside(rows, gt)


@pytest.mark.parametrize("name", [*PAIRS])
@pytest.mark.parametrize("seed", [0, *map(rare, range(1, 8))])
def test_a_life_in_which_anybody_dies(name: str, seed: int, tmp_path: Path) -> None:
    case = PAIRS[name]
    world = pairs_over.PairsOver(tmp_path, (chains.BASE, CASES["sites"][1]), seed)
    world.kind = case
    for _ in lived(world, 120, 4):
        for one in world.overs[1:]:
            holds(case, one)
    one, two = world.overs
    assert pairs_over.in_force(case, two) == exact(case, two)
    mark = chains.watermark(one)
    expected = chains.closed(chains.in_force(one), 4, mark)
    newest = pairs_over.newest_of(pairs_over.logged(two))
    assert {(row["time"] + 1 - 4 * MINUTE, (row["site"],)): row["n"] for row in newest} == {
        key: values["n"] for key, values in expected.items()
    }
