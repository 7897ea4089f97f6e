"""A measure may be called as a column of every log, until a step takes it into a log of its own."""

from pathlib import Path

import pytest

from penstock.config.answers import columns_of_answers
from penstock.config.catalog import Catalog
from penstock.config.intake import RESERVED
from penstock.lake.storage.tables import Tables
from tests.catalogs import require_said, said

BELOW = """source: {files: gates, format: jsonl}
columns: {gate: string}
event_time: at
steps:
  minute:
    keys: [gate]
    window: {size: PT1M}
    measures: {passed: count(*), NAME: count(gate)}
    slack: {fixed: PT10S}
"""
FLOOR = (
    "  rush: {from: minute, keys: [gate], window: {size: PT1H}, measures: {most: max(passed)}}\n"
)
OVER = """source: {pipeline: gates, step: minute}
columns: {gate: string, COLUMNS}
steps:
  rush: {keys: [gate], window: {size: PT1H}, measures: {most: max(TAKEN)}}
"""


def read(folder: Path, name: str, floor: str = "", over: str = "") -> Catalog:
    (folder / "gates.yaml").write_text(BELOW.replace("NAME", name) + floor)
    if over:
        (folder / "over.yaml").write_text(over)
    return Catalog.read(folder)


def over(columns: str, taken: str) -> str:
    return OVER.replace("COLUMNS", columns).replace("TAKEN", taken)


def test_these_are_all_columns_that_a_log_of_answers_has_itself() -> None:
    assert {*Tables("lake", "p").events({}).schema.names} <= {*RESERVED}


@pytest.mark.parametrize("name", [*RESERVED, "Block"])
def test_a_floor_that_would_take_it_is_refused_where_the_measure_stands(
    name: str, tmp_path: Path
) -> None:
    found = said(read(tmp_path, name, FLOOR))
    assert found == [
        f"gates.yaml:8 steps.minute.measures.{name} every log has a column {name} itself, and rush"
        " takes these answers into one. Rename the measure"
    ]


@pytest.mark.parametrize("name", RESERVED)
def test_it_is_free_where_nobody_takes_it(name: str, tmp_path: Path) -> None:
    catalog = read(tmp_path, name, over=over("passed: long", "passed"))
    assert said(catalog) == []
    assert name in columns_of_answers(catalog.pipeline("gates").spec("minute"))
    schema = Tables("lake", "over").events(catalog.pipeline("over").types).schema
    assert len({*schema.names}) == len(schema.names)


@pytest.mark.parametrize(
    ("columns", "taken", "expected"),
    [
        ("block: long", "block", "over.yaml:2 columns.block block: every log has a column of this"
         " name itself, and cannot have two. Rename the measure block of minute in gates.yaml"),
        ("mine: {type: long, from: block}", "mine", "over.yaml:2 columns.mine block: every log has"
         " a column of this name itself, and cannot have two. Rename the measure block of minute"
         " in gates.yaml"),
        ("p: {type: long, from: passed}", "p", "over.yaml:2 columns.p answers keep their names:"
         " passed cannot be called p here. Write passed: long"),
        ("extra: {type: long, from: passed}", "extra", "over.yaml:2 columns.extra answers keep"
         " their names: passed cannot be called extra here. Write passed: long"),
        ("pased: long", "pased", "over.yaml:2 columns.pased pased is no column of the answers of"
         " minute. Did you mean passed?"),
    ],
)  # fmt: skip
def test_a_file_of_its_own_is_told_what_to_write(
    columns: str, taken: str, expected: str, tmp_path: Path
) -> None:
    assert said(read(tmp_path, "block", over=over(columns, taken))) == [expected]


def test_so_is_a_floor_above_a_floor(tmp_path: Path) -> None:
    floor = FLOOR.replace("most: max", "origin: max")
    top = "  day: {from: rush, window: {size: P1D}, measures: {m: max(origin)}}\n"
    assert said(read(tmp_path, "n", floor)) == []
    require_said(
        read(tmp_path, "n", floor + top), ":10 steps.rush.measures.origin .* and day takes"
    )
