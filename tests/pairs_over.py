"""Look-ups, joins and newest records over answers, and what they must say, plainly in Python."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import lt
from typing import Any

from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import lookup_model as model
from tests.chains import Chains, Over, first, over
from tests.streams import MINUTE, us

Row = dict[str, Any]
Said = set[tuple[Any, ...]]
COLUMNS = {"site": "string", "n": "long"}
SHIFT, NEAR = 4 * MINUTE, 2 * MINUTE


def _moved(pairs: str, **more: Any) -> Row:
    return {"kind": "lookup", "keys": ["site"], "keep": {"last": 2}, "pairs": pairs,
            "columns": ["n"], "alarm": "earlier.n <> later.n", **more}  # fmt: skip


def _all_or_neighbours(pairs: str) -> Callable[[list[Row]], Said]:
    def found(rows: list[Row]) -> Said:
        records = [
            model.Record(row["time"] // MINUTE, row["seq"], str(row["site"]), row["n"])
            for row in rows if row["site"] is not None
        ]  # fmt: skip
        return {(new, old) for old, new in model.true_pairs(records, pairs)}  # type: ignore[arg-type]

    return found


def beside(rows: list[Row], holds: Callable[[int, int], bool] = lt) -> Said:
    """Pairs of a record and one some minutes earlier, where something holds of their values."""
    return {
        (left["seq"], right["seq"])
        for left in rows for right in rows
        if left["seq"] != right["seq"] and left["site"] == right["site"] is not None
        and abs(right["time"] - (left["time"] - SHIFT)) <= NEAR and holds(left["n"], right["n"])
    }  # fmt: skip


def _newest(rows: list[Row]) -> Said:
    found: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: (row["time"], row["seq"])):
        found[row["time"] // (8 * MINUTE), row["site"]] = row
    return {(row["seq"], row["n"]) for row in found.values()}


@dataclass(frozen=True)
class Case:
    """A step over answers.

    Attributes:
        step: as a file says it.
        columns: of an answer of its, by which one is known here.
        said: what there must be of some records of its log.
    """

    step: Row
    columns: tuple[str, ...]
    said: Callable[[list[Row]], Said]


PAIR = ("new_seq", "old_seq")
CASES = {
    "all": Case(
        _moved("all", within=f"PT{model.REACH}M", keep={"last": 8}), PAIR, _all_or_neighbours("all")
    ),
    "consecutive": Case(_moved("consecutive"), PAIR, _all_or_neighbours("consecutive")),
    "join": Case(
        {"kind": "join", "on": ["site"], "within": "PT2M", "shift": "PT4M",
         "where": "left.n < right.n", "select": ["left.n"]}, ("left_seq", "right_seq"), beside,
    ),
    "latest": Case(
        {"kind": "latest", "keys": ["site"], "columns": ["n"], "every": "PT8M"},
        ("arrival_seq", "n"), _newest,
    ),
}  # fmt: skip


def logged(one: Over) -> list[Row]:
    """The answers in its log, in order: ``time`` us."""
    rows = read_table(Table(one.tables.events(one.pipeline.types))).sort_by("arrival_seq")
    return [
        {"seq": row["arrival_seq"], "time": us(row["event_time"]), "site": row["site"],
         "n": row["n"], "revised": row["origin"] == "revision"}
        for row in rows.to_pylist()
    ]  # fmt: skip


def newest_of(rows: Iterable[Row]) -> list[Row]:
    """Of each answer the newest record."""
    return [*{(row["time"], row["site"]): row for row in rows}.values()]


def given(rows: list[Row], epoch: int) -> list[Row]:
    """What the stream knows: what was in force at the start, and what came in time since."""
    history = newest_of(row for row in rows if row["seq"] <= epoch)
    return [*history, *(row for row in rows if row["seq"] > epoch and not row["revised"])]


def told(case: Case, rows: Any) -> Said:
    """Some answers, each once."""
    found = [tuple(row[name] for name in case.columns) for row in rows.to_pylist()]
    assert len({*found}) == len(found), "twice"
    return {*found}


def in_force(case: Case, one: Over) -> Said:
    return told(case, answers_in_force(one.tables, one.step))


def timely(case: Case, one: Over) -> Said:
    return told(case, timely_answers(one.tables, one.step))


def must_be_timely(case: Case, one: Over) -> Said:
    """Of a step that tells pairs at once, what it must have told of its log."""
    at = position(one.tables, one.step)
    assert at is not None
    epoch = at.epoch.seq
    rows = given(logged(one)[: at.sealed.seq + 1], epoch)
    found = case.said(rows)
    if case.step["kind"] == "lookup":
        keep = case.step["keep"]["last"]
        found = _compared(rows, case.step["pairs"], keep)
    return {pair for pair in found if max(pair) > epoch}


def _compared(rows: list[Row], pairs: Any, keep: int) -> Said:
    """Alarms with what is kept."""
    ordered = sorted((row for row in rows if row["site"] is not None), key=lambda row: row["seq"])
    numbers = {nth: row["seq"] for nth, row in enumerate(ordered)}
    records = [
        model.Record(row["time"] // MINUTE, nth, str(row["site"]), row["n"])
        for nth, row in enumerate(ordered)
    ]  # fmt: skip
    found = model.true_timely(records, pairs, keep)
    return {(numbers[new], numbers[old]) for old, new in found}


class PairsOver(Chains):
    """A step that is over the answers of one that is over answers itself."""

    kind: Case

    def add(self) -> None:
        """The next step."""
        self.begin(paired(self.kind, self.overs[0]) if self.overs else first(self.lake))


def paired(case: Case, one: Any) -> Over:
    """A step of a case over another one."""
    return over(one, "paired", case.step, COLUMNS)
