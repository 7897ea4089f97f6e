"""One query runs many steps: what becomes of one is nothing to the others.

Laws 0 to 2 for each step of a random life in which steps come, go, change, run apart and stand
still, while processes die and checkpoints are lost.
"""

import random
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.history.checkpoint import Checkpoint, Going
from penstock.lake.history.generation import generations
from penstock.lake.history.offset import Offset, StepOffset
from penstock.lake.history.position import position
from penstock.lake.ingest import door as door_module
from tests import reference as ref
from tests.doubles import Death, Killed, RisingClock, deadly_commits, lose_memory
from tests.lakes import Lake, some_rows
from tests.local import LocalQuery
from tests.rarely import rare
from tests.steps import CASES, make_pipeline
from tests.streams import SECOND, write_jsonl

CHOICES = ("sites", "codes", "both", "landmark", "ranks", "seen")
OTHER_WINDOW = {"size": "PT100S", "slide": "PT50S"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


class Team:
    """A pipeline whose steps come and go, and one process after the other that runs it."""

    def __init__(self, home: Path, seed: int, *names: str) -> None:
        self.home, self.clock = home, RisingClock()
        self.draw = random.Random(seed)  # noqa: S311
        self.source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
        (home / "live").mkdir(parents=True)
        self.steps: dict[str, Any] = {name: deepcopy(CASES[name][0]) for name in names}
        self.files = 0
        self.counts: Counter[str] = Counter()

    @property
    def lakes(self) -> dict[str, Lake]:
        config = {"source": self.source, "steps": self.steps}
        pipeline = make_pipeline(self.home, **config)
        return {
            name: Lake(self.home, pipeline, self._oracle(name), config, name, self.clock)
            for name in self.steps
        }

    def _oracle(self, name: str) -> ref.Step:
        changed = self.steps[name].get("window") == OTHER_WINDOW
        window = ref.Window(100 * SECOND, 50 * SECOND)
        return replace(CASES[name][1], window=window) if changed else CASES[name][1]

    @property
    def lake(self) -> Lake:
        return next(iter(self.lakes.values()))

    def arrive(self, count: int = 20) -> None:
        self.files += 1
        write_jsonl(self.home / "live" / f"{self.files:03}.jsonl", some_rows(count, self.files))
        self.lake.ingest()

    def queries(self, **options: Any) -> list[LocalQuery]:
        lake = self.lake
        return [
            LocalQuery(lake.tables, lake.pipeline, name, self.clock, **options)
            for name in lake.pipeline.queries
        ]

    def run(self, **options: Any) -> None:
        for query in self.queries(**options):
            query.run()

    def epochs(self) -> dict[str, list[int]]:
        found = {name: generations(lake.tables, lake.step) for name, lake in self.lakes.items()}
        return {name: [g.epoch for g in every] for name, every in found.items()}

    def check(self) -> None:
        for lake in self.lakes.values():
            lake.check()

    def sealed(self, name: str) -> int:
        lake = self.lakes[name]
        at = position(lake.tables, lake.step)
        return -1 if at is None else at.sealed.seq


@pytest.fixture
def team(tmp_path: Path) -> Team:
    team = Team(tmp_path, 0, "sites", "both")
    team.queries()
    team.arrive()
    team.run(blocks=2)
    return team


def test_steps_are_sealed_together_each_by_its_own_rows(team: Team) -> None:
    assert len({team.sealed(name) for name in team.steps}) == 1
    assert team.epochs() == {"sites": [0], "both": [0]}
    team.check()


def test_a_step_that_is_added_begins_where_the_log_is_and_touches_nobody(team: Team) -> None:
    before = team.lake.checkpoint
    team.steps["codes"] = CASES["codes"][0]
    team.arrive()
    team.run(blocks=2)
    assert team.epochs() == {"sites": [0], "both": [0], "codes": [0]}
    lake = team.lakes["codes"]
    assert generations(lake.tables, lake.step)[0].seq == 39, "what came before is its history"
    assert team.lake.checkpoint == before
    team.check()


def test_a_step_that_is_removed_and_comes_again_is_rebuilt_and_the_other_goes_on(
    team: Team,
) -> None:
    away = team.steps.pop("both")
    team.arrive()
    team.run(blocks=2)
    team.steps["both"] = away
    team.arrive()
    team.run(blocks=3)
    assert team.epochs() == {"sites": [0], "both": [0, 0]}
    assert team.sealed("both") == team.sealed("sites") == 59
    team.check()


def test_a_step_that_changes_is_a_new_epoch_and_the_other_goes_on(team: Team) -> None:
    team.steps["both"]["window"] = OTHER_WINDOW
    team.arrive()
    team.run(blocks=2)
    assert team.epochs() == {"sites": [0], "both": [0, 1]}
    team.lakes["both"].correct()
    team.check()


def test_a_micro_batch_that_is_repeated_does_nothing_for_what_changed_meanwhile(
    team: Team,
) -> None:
    team.arrive()
    deaths = iter([False, True])  # the offset is logged, and dead before the state is written

    def dies() -> None:
        if next(deaths):
            raise Killed

    with pytest.raises(Killed):
        team.queries(blocks=2, dies=dies)[0].work()
    team.steps["both"]["window"] = OTHER_WINDOW
    team.run(blocks=2)
    assert team.epochs() == {"sites": [0], "both": [0, 1]}
    team.lakes["both"].correct()
    team.check()


def test_a_step_that_runs_apart_leaves_the_others_and_comes_back(team: Team) -> None:
    for apart in (True, False):
        team.steps["both"]["apart"] = apart
        team.arrive()
        assert len(team.queries()) == 1 + apart
        team.run(blocks=2)
        team.check()
    assert team.epochs() == {"sites": [0], "both": [0, 0, 0]}


def test_a_step_that_lags_catches_up_and_nobody_waits(team: Team) -> None:
    away = team.steps.pop("both")
    for _ in range(3):
        team.arrive()
        team.run()
    team.steps["both"] = away
    team.arrive()
    (query,) = team.queries(blocks=2)
    query.work()
    assert (team.sealed("sites"), team.sealed("both")) == (89, 29)
    query.work()
    assert (team.sealed("sites"), team.sealed("both")) == (99, 39)
    query.run()
    assert team.sealed("both") == team.sealed("sites") == 99
    team.check()


def test_a_step_that_cannot_go_on_stands_still_alone_and_comes_back(tmp_path: Path) -> None:
    team = Team(tmp_path, 0, "sites", "both")
    team.steps["sites"]["slack"] = {"fixed": "PT0S"}
    team.queries()
    rows = some_rows(60, 3)
    huge = [row | {"bags": 2**62, "site": "a"} for row in rows if isinstance(row, dict)][:3]
    write_jsonl(tmp_path / "live" / "000.jsonl", [*huge, *rows])
    team.lake.ingest()
    (query,) = team.queries(blocks=2)
    query.run()
    assert query.stands_still["sites"].startswith("sites.bags_sum: a sum of integers exceeds")
    assert team.sealed("sites") < team.sealed("both") == 62
    team.lakes["both"].check()
    del team.steps["sites"]["measures"]["bags_sum"]
    team.run()
    assert team.sealed("sites") == 62
    assert team.epochs()["both"] == [0]


def change(team: Team) -> None:
    """Somebody edits the pipeline file."""
    names = [*team.steps]
    what = team.draw.choice(["add", "remove", "window", "apart"])
    name = team.draw.choice(names)
    missing = [choice for choice in CHOICES if choice not in team.steps]
    if what == "add" and missing:
        new = team.draw.choice(missing)
        team.steps[new] = deepcopy(CASES[new][0])
    elif what == "remove" and len(names) > 1:
        del team.steps[name]
    elif what == "window" and name not in {"landmark", "seen"}:
        other = team.steps[name]["window"] == OTHER_WINDOW
        team.steps[name]["window"] = CASES[name][0]["window"] if other else OTHER_WINDOW
    elif what == "apart":
        team.steps[name]["apart"] = not team.steps[name].get("apart", False)
    else:
        return
    team.counts[what] += 1


def live(team: Team, turns: int) -> None:
    """Files come, processes run and die, somebody edits, a checkpoint is lost."""
    death = Death(team.draw, 0.02)
    jobs: list[Callable[[], Any]] = [
        team.arrive,
        lambda: team.run(blocks=team.draw.randint(1, 4), dies=death),
        lambda: [lake.correct() for lake in team.lakes.values()],
    ]
    for _ in range(turns):
        if team.draw.random() < 0.3:
            change(team)
        if team.draw.random() < 0.1:
            how = team.draw.choice(["newest", "offsets", "commits", "all"])
            lose_memory(team.lake.checkpoint, how)
            team.counts["lost"] += 1
        try:
            with deadly_commits(death):
                team.draw.choice([*jobs, *jobs[:2]])()
        except Killed:
            team.counts["killed"] += 1
    team.run()
    for lake in team.lakes.values():
        lake.correct()


@pytest.mark.parametrize("seed", [*range(3), *(rare(n) for n in range(3, 60))])
def test_a_life_in_which_steps_come_and_go(tmp_path: Path, seed: int) -> None:
    team = Team(tmp_path, seed, *random.Random(seed).sample(CHOICES, 2))  # noqa: S311
    live(team, 20)
    team.check()


AT = StepOffset(4, 7, 30, 99, position, "", (0, 1))  # type: ignore[arg-type]  its state is not read
NEXT = replace(AT, number=8, block=35, seq=120)


def known(committed: StepOffset | None, newest: StepOffset | None = None) -> Checkpoint:
    """A checkpoint that knows one step, perhaps with a micro-batch that is to be repeated."""
    logged = {7: Offset({} if committed is None else {"s": committed})}
    logged |= {} if newest is None else {8: Offset({"s": newest})}
    return Checkpoint("c", logged, 7, True, 0)


@pytest.mark.parametrize(
    ("checkpoint", "sealed", "begun", "going"),
    [
        (known(AT), (7, 30), False, Going.ON),
        (known(AT), (7, 30), True, Going.ASTRAY),  # rows of a micro-batch whose plan is lost
        (known(AT), (8, 35), False, Going.ASTRAY),  # Spark lost a micro-batch
        (known(AT), (6, 20), False, Going.ASTRAY),  # the lake lost one
        (known(AT), (7, 31), False, Going.ASTRAY),  # cut otherwise
        (known(AT, NEXT), (7, 30), False, Going.ON),  # repeated
        (known(AT, NEXT), (7, 30), True, Going.ON),
        (known(AT, NEXT), (8, 35), False, Going.ON),  # repeated, and nothing is left to do
        (known(AT, NEXT), (8, 36), False, Going.ASTRAY),
        (known(AT, NEXT), (8, 35), True, Going.ASTRAY),
        (known(AT, NEXT), (6, 20), False, Going.ASTRAY),
        (known(AT, NEXT), (9, 40), False, Going.ASTRAY),
        (known(AT, AT), (7, 30), False, Going.ON),  # the others moved
        (known(None), (-1, 30), False, Going.BEGINS),
        (known(None), (-1, 30), True, Going.ASTRAY),
        (known(None), (7, 30), False, Going.ASTRAY),  # it ran elsewhere
        (known(None, replace(AT, number=0)), (-1, 30), True, Going.ON),
        (known(replace(AT, generation=3)), (-1, 30), False, Going.BEGINS),
        (known(AT, replace(NEXT, generation=5)), (7, 30), False, Going.ON),
    ],
)
def test_whether_a_generation_goes_on(
    checkpoint: Checkpoint, sealed: tuple[int, int], begun: bool, going: Going
) -> None:
    assert checkpoint.going("s", 4, sealed, begun=begun) is going


@pytest.mark.parametrize(
    ("logged", "committed", "holds", "failures", "usable"),
    [
        ([], None, False, 0, True),  # nothing was ever in it
        ([], None, True, 0, False),  # state without its offset
        ([0], None, True, 0, True),
        ([1], None, True, 0, False),
        ([0], 0, True, 0, True),
        ([0, 1], 0, True, 0, True),
        ([2], 0, True, 0, False),
        ([5], 6, True, 0, False),  # the offset that was committed is lost
        ([6], 6, True, 2, True),
        ([6], 6, True, 3, False),
        ([4, 6], 4, True, 0, False),  # Spark repeats one, never two
    ],
)
def test_whether_a_query_starts_on_a_checkpoint(
    logged: list[int], committed: int | None, holds: bool, failures: int, usable: bool
) -> None:
    offsets = {number: Offset() for number in logged}
    assert Checkpoint("c", offsets, committed, holds, failures).usable is usable
