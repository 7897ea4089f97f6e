"""What was decided, about files and about slack, as rows of ``decisions``: who wins, what waits."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.step import StepSpec
from penstock.lake.log import blocks, files, proposed
from penstock.lake.log.blocks import EventTimes, decisions_of
from penstock.lake.log.files import Decided, Place, decide, decided, planned_path
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from tests.doubles import NOON, FixedClock
from tests.steps import CASES, make_pipeline

A, B, C = [(0, "a"), (0, "b"), (1, "a")]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path), "p")


def test_every_kind_of_decision_is_read_back_also_where_clocks_step_back(tables: Tables) -> None:
    table, made = Table(tables.decisions()), [0]

    def person(what: str, items: Sequence[Place], **value: Any) -> None:
        made[0] += 1
        decide(table, what, items, "so", NOON - timedelta(days=made[0]), block=0, **value)

    person(files.AS_IT_IS, [A, B], size=1, modified=2)
    person(files.AS_IT_IS, [B], size=3, modified=4, inode=5, ending="e", numbers=[7])
    person(files.GIVEN_UP, [C], numbers=[8], inodes=[11])
    person(files.AGAIN, [A, C], seen=[[1, 2]])
    person(files.OTHER_FOLDER, [], folder="/x")
    person(files.ACCEPTED, [], numbers=[9, 10])
    found = decided(table)
    assert found == Decided(
        given_up={C},
        as_it_is={A: (1, 2), B: (3, 4)},
        again={A, C},
        accepted={7, 8, 9, 10},
        seen={A: (1, 2)},
        other={"/x"},
        lies={C: 11},
        read_as={A: (0, ""), B: (5, "e")},
    )
    assert [found.concerns(place) for place in (A, B, C, (2, "a"))] == [True, True, True, False]
    assert found.known(A, (9, 9)) == [(1, 2), (1, 2)]
    assert found.known(C, (9, 9)) == [(9, 9)]
    assert found.of(1) == Decided({C}, {})
    assert found.of(0) == Decided(set(), {A: (1, 2), B: (3, 4)})


def test_what_the_next_plan_takes_depends_on_some_decisions_only() -> None:
    steering = Decided(again={A}), Decided(other={"/x"}), Decided(seen={A: (1, 2)})
    assert all(one.steers for one in steering)
    others = Decided(given_up={A}), Decided(as_it_is={A: (1, 2)}), Decided(accepted={1}), Decided()
    assert not any(one.steers for one in others)


def test_a_place_names_the_file_that_lies_there_else_the_longest_path_it_ends_with() -> None:
    paths = ["a", "live/a", "other/b"]
    assert planned_path("/data/old/a", paths) == "a"
    assert planned_path("/data/live/a", paths) == "live/a"
    assert planned_path("/data/b", paths) is None
    assert planned_path("/data/extra", paths) is None
    wholes = {path: f"/data/live/{path}" for path in paths}
    assert planned_path("/data/live/a", paths, wholes) == "a"
    assert planned_path("/data/live/live/a", paths, wholes) == "live/a"
    assert planned_path("/elsewhere/live/a", paths, wholes) == "live/a"


def slack(span: int) -> SlackSpec:
    return SlackSpec(SlackPolicy.FIXED, span)


def test_a_proposal_waits_until_something_is_decided(tables: Tables) -> None:
    pipeline = make_pipeline(Path("/nowhere"), {"b": CASES["sites"][0], "c": CASES["both"][0]})
    step, other = pipeline.spec("b"), pipeline.spec("c")
    table, clock, plan = Table(tables.decisions()), FixedClock(), iter(range(9))

    def rows(of: StepSpec = step) -> list[dict[str, Any]]:
        table.refresh()
        return decisions_of(table, of.name)

    def propose(span: int, of: StepSpec = step) -> None:
        clock.move(timedelta(seconds=1))
        proposed.propose(tables, of, slack(span), f"because {span}", clock)

    def adopt() -> None:
        clock.move(timedelta(seconds=1))
        text, number = proposed.waiting(table), next(plan)
        assert text is not None
        for _ in range(2):  # whoever finishes the plan does the same
            proposed.adopt(table, text, number, (3 + number, 0), clock.now())

    assert proposed.waiting(table) is None
    assert proposed.in_force(rows()) is proposed.declared(rows()) is None
    propose(1)
    propose(2)
    propose(9, other)
    assert proposed.in_force(rows()) == slack(2)
    adopt()
    assert proposed.waiting(table) is None
    assert [(r["block"], r["reason"]) for r in rows() if r["what"] == blocks.SLACK] == [
        (3, "because 2")
    ]
    assert blocks.slack_changes(tables, "c")[-1].spec == slack(9)
    propose(3)
    assert proposed.waiting(table) == '{"b": ["fixed:3", "because 3"]}', "of the other nothing"
    adopt()
    found = [(change.block, change.spec) for change in blocks.slack_changes(tables, "b")]
    assert found == [(3, slack(2)), (4, slack(3))]
    assert proposed.in_force(rows()) == slack(3)
    assert proposed.declared(rows()) is None, "the pipeline file asked for nothing"


def test_only_what_the_pipeline_file_asked_for_was_declared() -> None:
    rows = [
        {"what": blocks.SLACK, "reason": reason, "value": slack(span).to_text()}
        for span, reason in enumerate(("a", proposed.DECLARED, proposed.DECLARED, "z"))
    ]
    assert proposed.declared(rows) == slack(2)
    assert proposed.declared([rows[0], rows[3]]) is None


def test_event_times_are_looked_up_again_only_for_other_positions(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def look(_: Table, spans: Sequence[tuple[int, int]]) -> Any:
        asked.append([*spans])
        return [*spans]

    monkeypatch.setattr(blocks, "event_times", look)
    times = EventTimes(Table(tables.decisions()))
    for spans in ([(5, 9)], [(0, 4)], [(0, 4)], [(0, 4), (5, 9)]):
        assert times(spans) == spans
    assert asked == [[(5, 9)], [(0, 4)], [(0, 4), (5, 9)]]
