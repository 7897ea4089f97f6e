"""Who has gone silent, by a clock and heartbeats that the test sets."""

from pathlib import Path

from penstock.runtime.embedded.liveness import JOBS, PATIENCE_SECONDS, Liveness, heartbeats
from penstock.runtime.embedded.postgres import Postgres

PIDS: dict[str, int | None] = {
    "postgres": 1, "api-server": 2, "scheduler": 3, "dag-processor": 4, "triggerer": 5,
}  # fmt: skip


class World:
    """Every process beats at every look but those that hang."""

    def __init__(self) -> None:
        self.now, self.answers = 0.0, True
        self.hang: set[str] = set()
        self.pids = dict(PIDS)
        self._beats: dict[str, str] = {}
        self._liveness = Liveness(lambda: self._beats if self.answers else None, lambda: self.now)

    def look(self, seconds: float) -> set[str]:
        """Who is silent at the end of so many seconds; a look every ten."""
        found: set[str] = set()
        for _ in range(round(seconds / 10)):
            self.now += 10
            for name, job in JOBS.items():
                if name not in self.hang:
                    self._beats[job] = f"at {self.now}"
            found = set(self._liveness.silent(self.pids))
        return found


def test_who_beats_is_never_silent() -> None:
    assert World().look(3600) == set()


def test_who_stops_beating_is_silent_after_the_patience_and_not_before() -> None:
    world = World()
    world.look(60)
    world.hang = {"scheduler"}
    assert world.look(PATIENCE_SECONDS) == set()
    assert world.look(10) == {"scheduler"}


def test_who_never_beat_is_silent_too() -> None:
    world = World()
    world.hang = {"triggerer", "dag-processor"}
    assert world.look(PATIENCE_SECONDS + 10) == set()
    assert world.look(10) == {"triggerer", "dag-processor"}


def test_a_new_process_has_its_own_patience() -> None:
    world = World()
    world.hang = {"scheduler"}
    world.look(PATIENCE_SECONDS)
    world.pids["scheduler"] = 30
    assert world.look(PATIENCE_SECONDS) == set()
    assert world.look(20) == {"scheduler"}


def test_while_the_database_does_not_answer_nobody_is_silent() -> None:
    world = World()
    world.hang = set(JOBS)
    world.look(PATIENCE_SECONDS)
    world.answers = False
    assert world.look(3600) == set()
    world.answers = True
    assert world.look(PATIENCE_SECONDS) == set()
    assert world.look(20) == set(JOBS)


def test_a_process_that_waits_for_its_restart_is_not_silent() -> None:
    world = World()
    world.hang = {"scheduler"}
    world.pids["scheduler"] = None
    assert world.look(3600) == set()


def test_of_a_database_that_is_not_there_nothing_is_heard(tmp_path: Path) -> None:
    assert heartbeats(Postgres(tmp_path)) is None
