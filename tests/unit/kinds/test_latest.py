"""The newest record of each key: what a file may say of it, and what is kept of records."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.catalog import Catalog
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import WindowSpec
from penstock.kinds.latest import raw
from penstock.kinds.latest.config import LatestConfig
from penstock.kinds.latest.spec import LatestSpec
from penstock.kinds.latest.views import now
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.storage.tables import Tables

FILE = """\
source: {files: in, format: jsonl}
columns: {plate: string, site: string, delay: double, seen: timestamp}
event_time: t
steps:
  last_seen:
    kind: latest
    keys: [plate]
    columns: [site, seen]
    slack: {fixed: PT5M}
"""
KINDS = [ColumnType.STRING, ColumnType.DOUBLE, ColumnType.BOOLEAN, ColumnType.TIMESTAMP]
STEP = LatestSpec(
    name="last_seen",
    keys=(Column("plate", ColumnType.STRING),),
    where=None,
    window=WindowSpec(60_000_000, 60_000_000),
    slack=SlackSpec(SlackPolicy.FIXED, 0),
    kept=tuple(Column(f"x_{kind}", kind) for kind in KINDS),
)
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def said(folder: Path, text: str) -> list[str]:
    (folder / "p.yaml").write_text(text)
    return [str(e).removeprefix(f"{folder}/") for e in Catalog.read(folder).errors]


def test_a_file_names_the_keys_and_what_to_keep(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(FILE)
    step = Catalog.read(tmp_path).pipeline("p").spec("last_seen")
    assert [v.name for v in step.values] == ["event_time", "arrival_seq", "site", "seen"]
    assert (step.window.size, step.window.slide) == (60_000_000, 60_000_000)
    assert step.columns == ("plate", "seen", "site")


PROBLEMS = {
    "another kind": ("kind: latest", "kind: newest", [
        "p.yaml:6  steps.last_seen.kind  'newest' is no kind of step. Did you mean latest?"
        " There are: aggregate, latest, lookup, custom, join"]),
    "no key": ("    keys: [plate]\n", "", [
        "p.yaml:5  steps.last_seen.keys  is missing. Add keys: Columns answered for."]),
    "no key at all": ("[plate]", "[]", [
        "p.yaml:7  steps.last_seen.keys  Tuple should have at least 1 item after validation, not 0"
        ]),
    "a key of the other kind": ("columns: [site", "measures: {n: count(*)}\n    columns: [site", [
        "p.yaml:8  steps.last_seen.measures  unknown key. Known: kind, from, stream, keys, where,"
        " slack, quality, apart, parallelism, shed, every, columns"]),
    "a column that is not there": ("[site, seen]", "[site, sene]", [
        "p.yaml:8  steps.last_seen.columns  sene is not declared under columns"
        " (declared: delay, plate, seen, site)"]),
    "a column twice": ("[site, seen]", "[site, site]", [
        "p.yaml:8  steps.last_seen.columns  site stands twice. Delete one"]),
    "a key among the columns": ("[site, seen]", "[plate]", [
        "p.yaml:7  steps.last_seen.keys  plate is also the name of an answer's column."
        " Rename one"]),
    "no span": ("keys:", "every: PT0S\n    keys:", [
        "p.yaml:7  steps.last_seen.every  a window needs a size and a slide above zero"]),
    "a steered slack": ("{fixed: PT5M}", "{quantile: {}}", [
        "p.yaml:5  steps.last_seen  a newest record has no size that could be off by a share."
        " Delete quality, and use slack fixed or max_delay"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_message_says_where_what_and_the_remedy(tmp_path: Path, name: str) -> None:
    old, new, wanted = PROBLEMS[name]
    assert old in FILE
    assert sorted(said(tmp_path, FILE.replace(old, new))) == sorted(wanted)


VALUES = st.fixed_dictionaries(
    {
        "plate": st.sampled_from(["a", "b"]),
        "event_time": st.integers(0, 5),
        "x_string": st.none() | st.sampled_from(["", "ü"]),
        "x_double": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "x_boolean": st.none() | st.booleans(),
        "x_timestamp": st.none() | st.just(BEGIN),
    }
)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    numbered = [row | {"arrival_seq": seq} for seq, row in enumerate(rows)]
    instants = pa.timestamp("us", tz="UTC")
    fields = {
        "plate": pa.string(), "event_time": instants, "arrival_seq": pa.int64(),
        "x_string": pa.string(), "x_double": pa.float64(), "x_boolean": pa.bool_(),
        "x_timestamp": instants,
    }  # fmt: skip
    return pa.Table.from_pylist(numbered, schema=pa.schema(fields.items()))


@given(
    rows=st.lists(VALUES, max_size=12), cuts=st.tuples(*[st.integers(0, 12)] * 2), draw=st.data()
)
def test_parts_merge_in_any_way_to_the_newest_record(rows, cuts, draw) -> None:
    layout, table = layout_of(STEP), table_of(rows)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [table.slice(a, b - a) for a, b in pairwise(edges)]
    gathered = [layout.of_records(part, {"pane": np.zeros(part.num_rows, int)}) for part in parts]
    order = draw.draw(st.permutations(gathered))
    first = layout.merge(pa.concat_tables(order[:2]), "pane")
    merged = layout.merge(pa.concat_tables([first, order[2]]), "pane")
    found = pa.table({"plate": merged["plate"], **layout.finish(merged)}).to_pylist()
    newest: dict[str, dict[str, Any]] = {}
    for row in table.to_pylist():  # in the order of their positions
        if row["plate"] not in newest or row["event_time"] >= newest[row["plate"]]["event_time"]:
            newest[row["plate"]] = row
    assert {row["plate"]: row for row in found} == newest
    assert sum(merged["n_records"].to_pylist()) == len(rows)


def test_where_each_key_is_now_is_its_newest_answer() -> None:
    schema = Tables("lake", "p").answers(STEP).schema
    rows = [
        {"plate": plate, "window_start": BEGIN + minute * timedelta(minutes=1),
         "event_time": BEGIN + minute * timedelta(minutes=1), "x_string": f"{plate}{minute}"}
        for plate, minute in (("b", 1), ("a", 4), ("b", 0), ("a", 2))
    ]  # fmt: skip
    found = now(pa.Table.from_pylist(rows, schema=schema), STEP).to_pylist()
    assert [(row["plate"], row["x_string"]) for row in found] == [("a", "a4"), ("b", "b1")]
    one = now(pa.Table.from_pylist(rows[:1], schema=schema), STEP).to_pylist()
    assert [(row["plate"], row["x_string"]) for row in one] == [("b", "b1")]
    assert not now(schema.empty_table(), STEP).num_rows


ONE = {"event_time": 2, "site": "x", "delay": None}
TOLD = {
    "it": (ONE, False),
    "the other one at its instant": (ONE | {"site": None, "delay": 1.5}, False),
    "a mixture of both": (ONE | {"delay": 1.5}, True),
    "an older one": ({"event_time": 1, "site": "old", "delay": 0.0}, True),
    "another instant": (ONE | {"event_time": 3}, True),
}


@pytest.mark.parametrize("what", TOLD)
def test_of_raw_records_at_one_instant_each_may_be_the_newest(what: str) -> None:
    answer, differs = TOLD[what]
    kept = (Column("site", ColumnType.STRING), Column("delay", ColumnType.DOUBLE))
    step, config = replace(STEP, kept=kept), LatestConfig.model_construct()
    with duckdb.connect() as db:
        db.execute(
            "create table record as from (values ('a', 1, 'old', 0.0), ('a', 2, 'x', null),"
            " ('a', 2, null, 1.5)) as t (plate, event_time, site, delay)"
        )
        columns = ", ".join(raw.columns(step, config))
        db.execute(f"create table truth as select plate, {columns} from record group by plate")
        db.register("answer", pa.Table.from_pylist([answer]))
        wrong = " or ".join(raw.unequal(step, "t", "r"))
        found = db.execute(f"select {wrong} from truth as r, answer as t").fetchall()
    assert found == [(differs,)]
