"""Custom steps of the tests: their code, and what it must say, in plain Python."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.core.window import FOREVER
from penstock.kinds.custom.spec import WHICH, CustomSpec
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import excluded_at
from tests.answers import blocks_of
from tests.lakes import Lake
from tests.lookups import NOBODY
from tests.streams import ARROW, disordered, us
from tests.worlds import World

CODE = '''"""What is known of sites."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.custom.code import Code


class Sites(Code):
    """Records, the least code that came, and the first time that a site was seen."""

    state = {"n": "long", "least": "long", "first": "long"}

    def init(self, rows):
        nothing = pa.nulls(rows, pa.int64())
        return {"n": np.zeros(rows, np.int64), "least": nothing, "first": nothing}

    def update(self, states, records):
        return {
            "n": pc.add(states["n"], 1),
            "least": pc.min_element_wise(states["least"], records["code"]),
            "first": pc.min_element_wise(states["first"], records["event_time"].cast("int64")),
        }

    def merge(self, one, other):
        return {
            "n": pc.add(one["n"], other["n"]),
            "least": pc.min_element_wise(one["least"], other["least"]),
            "first": pc.min_element_wise(one["first"], other["first"]),
        }


    def finish(self, states):
        first = states["first"].cast(pa.timestamp("us", "UTC"))
        return {"n": states["n"], "least": states["least"], "first": first}


class Pairs(Sites):
    """The same of first letters and of whether bags are many, both made here; few are neither."""

    def map(self, records):
        letter = pc.utf8_slice_codeunits(records["site"], 0, 1)
        many = pc.if_else(pc.greater(records["bags"], 10), True, None)
        one = records.append_column("letter", letter).append_column("many", many)
        none = pa.array([False] * len(records))
        two = records.append_column("letter", letter).append_column("many", none)
        return pa.concat_tables([two, one, one])

    def finish(self, states):
        return {"thirds": pc.divide(states["n"], 3)}


class Fussy(Sites):
    """The least of how often codes go into twelve: fails on code 1, and on 0 when it divides."""

    def map(self, records):
        if pc.any(pc.equal(records["code"], 1)).as_py():
            raise ValueError("code 1 is not for me")
        return records.set_column(records.schema.get_field_index("code"), "code",
                                  pc.negate(records["code"]))

    def update(self, states, records):
        times = pc.divide(pa.scalar(12, pa.int64()), pc.negate(records["code"]))
        return super().update(states, records.append_column("times", times)) | {
            "least": pc.min_element_wise(states["least"], times)}


class Longest(Code):
    """The longest limit of a site's codes, of those that have one; and what it was made of."""

    state = {"most": "long"}

    def map(self, records):
        return records.filter(pc.is_valid(records["limits.seconds"]))

    def init(self, rows):
        return {"most": pa.nulls(rows, pa.int64())}

    def update(self, states, records):
        return {"most": pc.max_element_wise(states["most"], records["limits.seconds"])}

    def merge(self, one, other):
        return {"most": pc.max_element_wise(one["most"], other["most"])}

    def finish(self, states):
        return states
'''
SITES = {"kind": "custom", "code": "Sites", "keys": ["site"], "columns": ["code"],
         "answers": {"n": "long", "least": "long", "first": "timestamp"}}  # fmt: skip
PAIRS = {"kind": "custom", "code": "Pairs", "keys": ["letter", "many"],
         "makes": {"letter": "string", "many": "boolean"}, "columns": ["site", "bags", "code"],
         "where": "code <> 2", "answers": {"thirds": "long"}}  # fmt: skip
FUSSY = SITES | {"code": "Fussy"}
EVERY = {"update": {"every": "PT40S"}}
"""Told at the end of each span of the watermark."""
LONGEST = {"kind": "custom", "code": "Longest", "keys": ["site"], "columns": ["code"],
           "load": {"limits": {"a": "code", "b": "code"}}, "answers": {"most": "long"}}  # fmt: skip
LONGEST_FILE = """source: {files: live, format: jsonl}
columns: {site: string, lane: long}
event_time: ts
load:
  limits: {files: limits.csv, format: csv, columns: {a: string, seconds: long}, keys: [a]}
steps:
  s:
    kind: custom
    code: Longest
    keys: [site]
    load: {limits: {a: site}}
    answers: {most: long}
"""
"""A whole pipeline file; its code lies beside it."""
Told = dict[tuple[Any, ...], tuple[Any, ...]]
"""By keys and position: event time, values, and how many records of the key there were."""


Make: TypeAlias = Callable[..., CustomSpec]
"""Of a step, by default ``SITES``, with one piece of the code replaced by another."""


def NO_SIDES(*_: Any) -> Any:  # noqa: N802  as a constant
    raise AssertionError("the step loads nothing")


def records(count: int = 60, seed: int = 1) -> pa.Table:
    """As they come to a mapper."""
    rows = disordered(count, seed=seed)
    table = pa.Table.from_pylist(rows, schema=pa.schema(ARROW.items()))
    return table.append_column("arrival_seq", pa.array(range(count)))


def write_code(home: Path) -> None:
    """Beside the pipeline file."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "p.py").write_text(CODE)


class CustomWorld(World):
    """As every world, but that a custom step has no slack to change."""

    def __init__(self, home: Path, step: dict[str, Any], seed: int) -> None:
        write_code(home)
        super().__init__(home, (step, NOBODY), seed)

    def change_slack(self) -> None:
        pass


def truth(lake: Lake, through: int) -> Told:
    """All that is to be said of the records up to a position."""
    return _told(lake, _changes(lake, through), through) if lake.step.by_span else {
        key: row for key, row, changed in _changes(lake, through) if changed
    }  # fmt: skip


def _told(lake: Lake, rows: list[Any], through: int) -> Told:
    """Of each key the last of each span that has ended, if it says something else."""
    spans, said, found = spans_of(lake)[: through + 2], dict[Any, Any](), Told()
    last = {(key[:-1], spans[key[-1]]): (key, row) for key, row, _ in rows}
    for (of, span), (key, row) in last.items():
        if span == spans[-1] or (of in said and said[of] == row[1:-1]):
            continue
        said[of], found[key] = row[1:-1], row
    return found


def spans_of(lake: Lake) -> list[Any]:
    """The span of each position, and of the one that comes next: by the watermark before it."""
    epoch = position(lake.tables, lake.step)
    assert epoch is not None
    history, mark = epoch.epoch.seq, epoch.epoch.state.watermark
    size, found, t_max = lake.step.window.size, list[Any](), epoch.epoch.state.t_max
    for number, block in enumerate(blocks_of(lake.tables, lake.pipeline)):
        old = number < epoch.epoch.block
        for record in block.records:
            found.append(_span(len(found), history, mark, size))
            if record is not None and block.live and not old:
                t_max = max(t_max, record["event_time"])
                mark = max(mark, t_max)
        if block.kind == "end" and not old:
            mark = FOREVER
        if block.kind == "idle" and not old:
            mark = max(mark, t_max)
    return [*found, _span(len(found), history, mark, size)]


def _span(seq: int, history: int, mark: int, size: int) -> Any:
    if seq <= history:
        return "history"
    return ("alone", seq) if mark >= FOREVER else mark // size


def _changes(lake: Lake, through: int) -> list[Any]:
    """What is said after each record of each key, and whether it is something else."""
    of, least = {"Sites": (_sites, _code), "Pairs": (_pairs, _code), "Fussy": (_fussy, _times)}[
        lake.step.program.name
    ]
    states: dict[tuple[Any, ...], list[Any]] = {}
    found, seq = list[Any](), 0
    for block in blocks_of(lake.tables, lake.pipeline):
        for record in block.records:
            for key, count in of(record) if record is not None and seq <= through else ():
                state = states.setdefault(key, [0, None, None, 0, None])
                state[0] += count
                for at, value in ((1, least(record)), (2, record["event_time"])):
                    known = [v for v in (state[at], value) if v is not None]
                    state[at] = min(known, default=None)
                state[3] += 1
                said = (state[0] // 3,) if of is _pairs else tuple(state[:3])
                row = (record["event_time"], *said, state[3])
                found.append(((*key, seq), row, said != state[4]))
                state[4] = said
            seq += 1
    return found


def _sites(record: Any) -> list[tuple[tuple[Any, ...], int]]:
    return [((record["site"],), 1)]


def _fussy(record: Any) -> list[tuple[tuple[Any, ...], int]]:
    return [] if record["code"] in {0, 1} else _sites(record)


def _code(record: Any) -> Any:
    return record["code"]


def _times(record: Any) -> Any:
    return None if record["code"] is None else int(12 / record["code"])


def left_out(lake: Lake, through: int) -> set[int]:
    """Positions of the records on which the code of ``FUSSY`` fails."""
    blocks = blocks_of(lake.tables, lake.pipeline)
    every = [record for block in blocks for record in block.records][: through + 1]
    return {seq for seq, r in enumerate(every) if r is not None and _sites(r) and not _fussy(r)}


def _pairs(record: Any) -> list[tuple[tuple[Any, ...], int]]:
    if record["code"] is None or record["code"] == 2 or record["site"] is None:
        return []
    letter, many = record["site"][0], record["bags"] is not None and record["bags"] > 10
    return [((letter, False), 1), *([((letter, True), 2)] if many else [])]


def rows_of(lake: Lake, table: Any) -> Told:
    """Answers by what they are known by, each once."""
    names = [value.name for value in lake.step.values]
    found = Told()
    for row in table.to_pylist():
        key = tuple(row[name] for name in lake.step.identity_names)
        assert key not in found, "an answer twice"
        values = tuple(_micros(row[name]) for name in names)
        found[key] = (*values, row["n_records"])
        assert row["through_seq"] >= row[WHICH.name]
    return found


def _micros(value: Any) -> Any:
    return us(value) if hasattr(value, "utcoffset") else value


def check_timely(lake: Lake) -> None:
    """Timely answers are the log's, however it was cut."""
    at = position(lake.tables, lake.step)
    assert at is not None
    every = truth(lake, at.sealed.seq)
    timely = rows_of(lake, timely_answers(lake.tables, lake.step))
    assert timely == {key: said for key, said in every.items() if key[-1] > at.epoch.seq}


def check_left_out(lake: Lake) -> None:
    """Records on which the code fails are written down, each with a reason, and no others."""
    at = position(lake.tables, lake.step)
    assert at is not None
    rows = excluded_at(lake.tables, lake.step, at).to_pylist()
    assert [row["arrival_seq"] for row in rows] == sorted(left_out(lake, at.seq))
    lines = {
        "Fussy.map: ValueError: code 1 is not for me",
        "Fussy.update: ArrowInvalid: divide by zero",
    }
    assert {row["reason"].partition(": ")[2].partition(": ")[2] for row in rows} <= lines


def check_settled(lake: Lake) -> None:
    """Answers in force are all that is to be said."""
    at = position(lake.tables, lake.step)
    assert at is not None
    in_force = rows_of(lake, answers_in_force(lake.tables, lake.step))
    assert in_force == truth(lake, at.sealed.seq)


def longest(
    lake: Lake, limits: Callable[[int], Mapping[tuple[int, int], int]], through: int
) -> set[tuple[Any, ...]]:
    """Of ``LONGEST``: site, position, limit and number of records of each change."""
    found, seq = set[tuple[Any, ...]](), 0
    states: dict[str, tuple[int, int]] = {}
    for block in blocks_of(lake.tables, lake.pipeline):
        for record in block.records:
            if record is not None and seq <= through and record["site"] is not None:
                limit = limits(seq).get((record["code"], record["code"]))
                if limit is not None:
                    most, count = states.get(record["site"], (-1, 0))
                    states[record["site"]] = max(most, limit), count + 1
                    if limit > most:
                        found.add((record["site"], seq, limit, count + 1))
            seq += 1
    return found


def longest_rows(answers: Any) -> set[tuple[Any, ...]]:
    names = ("site", "arrival_seq", "most", "n_records")
    rows = [tuple(row[name] for name in names) for row in answers.to_pylist()]
    assert len({*rows}) == len(rows)
    return {*rows}
