from collections.abc import Callable
from typing import Any

import pytest

from penstock.lake.history.standing import standing
from penstock.lake.serve.revisions import answers
from penstock.lake.serve.show import state

World = Any
Run = Callable[..., tuple[int, str, str]]


def shown(world: World) -> Any:
    return standing(world.tables, world.step)


def test_an_answer_stands_beside_what_was_said_first(corrected: World) -> None:
    found = answers(corrected.tables, shown(corrected), corrected.pipeline, {}, 10)

    by_key = {(row.key, row.start.minute): row for row in found.newest}
    assert set(by_key) == {(("A",), 0), (("B",), 1), (("B",), 2)}
    repaired = by_key[("A",), 0]
    assert repaired.first == {"people": 1, "mean_seconds": 2.0, "n_records": 1}
    assert repaired.now == {"people": 2, "mean_seconds": 3.0, "n_records": 2}
    assert repaired.changed == {"people", "mean_seconds", "n_records"}
    assert by_key[("B",), 1].first is None
    assert by_key[("B",), 2].changed == frozenset()


def test_answers_are_counted_by_where_they_come_from(corrected: World) -> None:
    found = answers(corrected.tables, shown(corrected), corrected.pipeline, {}, 1)

    assert (found.count, found.timely, found.history, found.only_late) == (3, 2, 0, 1)
    assert found.changed == 1
    assert [row.key for row in found.repaired] == [("B",)]  # the newest of two


def test_what_control_has_not_sealed_is_not_shown(corrected: World) -> None:
    found = answers(corrected.tables, shown(corrected), corrected.pipeline, {}, 10)

    assert all(row.start.minute != 3 for row in found.newest)


def test_the_state_of_a_step(world: World) -> None:
    world.register()
    world.receive()
    world.answer()
    before = state(world.tables, world.step)
    world.correct()
    after = state(world.tables, world.step)

    assert before is not None
    assert after is not None
    assert (before.pending, before.corrected) == (2, None)
    assert after.pending == 0
    assert after.corrected is not None
    assert after.corrected["run_id"] == "manual__one"
    assert after.ended
    assert (after.received, after.sealed_seq) == (6, 5)
    assert (after.balance.accepted, after.balance.quarantined) == (5, 1)


def test_show_says_all_of_it(corrected: World, run: Run) -> None:
    status, said, _ = run("show", "doors", "--step", "per_door")

    lines = [line.split() for line in said.splitlines()]
    assert status == 0
    assert ["2024-05-01", "10:00-10:01", "A", "people", "1", "→", "2", "1", "late", "1", "→",
            "2"] in lines  # fmt: skip
    assert ["mean_seconds", "2", "→", "3"] in lines
    assert ["2024-05-01", "10:02-10:03", "B", "people", "2", "2", "0", "in", "time", "2"] in lines
    assert "3 answers in force: 2 given in time" in said
    assert "no answer waits for a correction" in said
    assert "5 accepted + 1 quarantined" in said


def test_show_one_key(corrected: World, run: Run) -> None:
    _, said, _ = run("show", "doors", "--step", "per_door", "--key", "door=A")

    assert "1 answer of door = A in force" in said
    assert "10:02-10:03" not in said


def test_every_revision(corrected: World, run: Run) -> None:
    _, said, _ = run("show", "doors", "--step", "per_door", "--revisions")

    rows = [line.split() for line in said.splitlines()]
    at = rows.index(
        ["2024-05-01", "10:00-10:01", "A", "0", "1", "2", "1", "in", "time", "2024-05-01",
         "12:00", "4"]
    )  # fmt: skip
    assert rows[at + 1] == ["1", "2", "3", "2", "late", "2024-05-01", "12:00", "6"]


@pytest.mark.parametrize(
    ("stages", "hint"),
    [
        ([], "trigger the DAG stream__doors"),  # nothing at all
        (["receive"], "the step has not run yet"),
        (["receive", "register"], "its stream does not run"),
    ],
)
def test_before_there_are_answers_the_next_thing_to_do_is_named(
    world: World, run: Run, stages: list[str], hint: str
) -> None:
    for stage in stages:
        getattr(world, stage)()

    status, said, _ = run("show", "doors", "--step", "per_door")

    assert status == 0
    assert hint in said


def test_a_stream_that_has_just_started_is_waited_for(world: World, run: Run) -> None:
    world.receive()
    world.register()
    with world.stream_holds("supervisor_lock"):
        _, said, _ = run("show", "doors", "--step", "per_door")
    assert "will seal its first micro-batch soon" in said


def test_a_changed_definition_is_told(corrected: World, run: Run) -> None:
    path = corrected.settings.pipelines / "doors.yaml"
    path.write_text(path.read_text().replace("size: PT1M", "size: PT2M"))

    _, said, _ = run("show", "doors", "--step", "per_door")

    assert "The definition of per_door has changed" in said


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["doors", "--step", "per_floor"], "Its steps: per_door, passing"),
        (["doors", "--step", "per_door", "--key", "floor=1"], "Its keys: door"),
        (["dors"], "Did you mean doors?"),
    ],
)
def test_what_does_not_exist_is_one_message(
    corrected: World, run: Run, argv: list[str], complaint: str
) -> None:
    status, _, complained = run("show", *argv)

    assert status == 1
    assert complaint in complained


def test_a_file_with_problems_says_them(world: World, run: Run) -> None:
    path = world.settings.pipelines / "doors.yaml"
    path.write_text(path.read_text().replace("event_time: at\n", ""))

    status, _, complained = run("show", "doors")

    assert status == 1
    assert "doors.yaml:" in complained
    assert "event_time" in complained
