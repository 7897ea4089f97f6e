"""Which step was cut into another number of tasks: why, how, and what that was predicted to take.

A row when it is decided, and one when it is over. Who decides is the log's stream host alone.
"""

from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.core.rescaling import Way
from penstock.core.window import instant, micros
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

DECIDED, DONE, LEFT = "decided", "done", "left"
"""LEFT: another one took its place, or the step has gone."""


@dataclass(frozen=True, slots=True)
class Rescaling:
    """One, as far as it has come.

    Attributes:
        run: the step's.
        number: of its rescalings, from 0.
        state: decided, done or left.
        way: move or rebuild.
        reason: why, in words.
        tasks_before, tasks: how many.
        kept: rows of the state, when it was decided.
        records: of the log that a rebuild reads.
        predicted_move: seconds; none: the state cannot move.
        predicted_rebuild: seconds.
        took: seconds, until the step had sealed a micro-batch with all of its tasks; none: it is
            not over.
        moved: rows of the state that went to another task; none: not known, or it was rebuilt.
        at: when this was written, us.
    """

    run: str
    number: int
    state: str
    way: Way
    reason: str
    tasks_before: int
    tasks: int
    kept: int
    records: int
    predicted_move: float | None
    predicted_rebuild: float
    took: float | None = None
    moved: int | None = None
    at: int = 0


def rescalings_spec(tables: Tables) -> TableSpec:
    """The table of a log."""
    texts = [(name, pa.string()) for name in ("run", "state", "way", "reason")]
    counts = [(name, pa.int64()) for name in
              ("number", "tasks_before", "tasks", "kept", "records", "moved")]  # fmt: skip
    spans = [(name, pa.float64()) for name in ("predicted_move", "predicted_rebuild", "took")]
    schema = pa.schema([*texts, *counts, *spans, ("at", INSTANT)])
    return TableSpec(tables.uri("rescalings"), schema, name="rescalings")


class Rescalings:
    """Writes them down, of the steps on one log."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock
        self._table = Table(rescalings_spec(tables))

    def decide(self, wanted: Rescaling) -> Rescaling:
        """Write one down; what is open of its step is left."""
        mine = [each for each in rescalings(self._tables) if each.run == wanted.run]
        for each in mine:
            if each.state == DECIDED:
                self.over(each, LEFT)
        return self._write(replace(wanted, number=len(mine), state=DECIDED), 2 * len(mine))

    def over(self, decided: Rescaling, state: str = DONE, moved: int | None = None) -> Rescaling:
        """Write down that one is over; twice, it changes nothing."""
        took = (micros(self._clock.now()) - decided.at) / 1e6 if state == DONE else None
        over = replace(decided, state=state, took=took, moved=moved)
        return self._write(over, 2 * decided.number + 1)

    def _write(self, one: Rescaling, number: int) -> Rescaling:
        said = replace(one, at=micros(self._clock.now()))
        row = asdict(said) | {"way": said.way.value, "at": instant(said.at)}
        content = pa.Table.from_pylist([row], self._table.spec.schema)
        self._table.append(content, f"rescaling:{said.run}", number)
        return said


def rescalings(tables: Tables) -> list[Rescaling]:
    """The newest row of each, in the order in which they were decided."""
    found: dict[tuple[str, int], Rescaling] = {}
    for row in read_table(Table(rescalings_spec(tables))).sort_by("at").to_pylist():
        told = Rescaling(**row | {"way": Way(row["way"]), "at": micros(row["at"])})
        if told.state != DECIDED or (told.run, told.number) not in found:
            found[told.run, told.number] = told
    return [*found.values()]
