"""Side data in a pipeline file: what is wrong with it, at its line, and the remedy."""

from pathlib import Path

import pytest

from penstock.config.catalog import Catalog, read_pipeline
from penstock.core.measure import ColumnType
from tests.custom import LONGEST_FILE

GOOD = """\
source: {files: in, format: jsonl, mode: live}
columns: {plate: string, site: string, lane: long, speed: double}
event_time: at
load:
  limits:
    files: limits.csv
    format: csv
    columns: {a: string, b: string, lane: long, speed: double, seconds: double}
    keys: [a, b]
steps:
  fake:
    kind: lookup
    keys: [plate]
    keep: {last: 2}
    pairs: consecutive
    columns: [site, lane, speed]
    load: {limits: {a: old.site, b: new.site}}
    alarm: new.site <> old.site AND apart < limits.seconds
"""


def said(tmp_path: Path, old: str, new: str) -> list[str]:
    assert old in GOOD
    path = tmp_path / "p.yaml"
    path.write_text(GOOD.replace(old, new))
    _, problems = read_pipeline(path)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in problems]


def test_a_step_knows_what_it_looks_up(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    step = Catalog.read(tmp_path).pipeline("p").spec("fake")
    (join,) = step.looked_up
    assert (join.table.name, join.keys) == ("limits", ("a", "b"))
    assert {c.name: c.type for c in join.found} == {
        "limits.lane": ColumnType.LONG, "limits.speed": ColumnType.DOUBLE,
        "limits.seconds": ColumnType.DOUBLE,
    }  # fmt: skip


def test_other_columns_are_another_step_and_no_side_data_is_the_step_of_before(
    tmp_path: Path,
) -> None:
    prints = set()
    for old, new in [("", ""), ("seconds: double", "seconds: long"), ("a: old", "a: new"),
                     ("limits.csv", "other.csv")]:  # fmt: skip
        (tmp_path / "p.yaml").write_text(GOOD.replace(old, new))
        prints.add(Catalog.read(tmp_path).pipeline("p").spec("fake").fingerprint)
    assert len(prints) == 3, "where the file lies is no part of what answers mean"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("load: {limits: {a: old.site, b: new.site}}", "load: {limit: {a: old.site}}",
         "p.yaml:17  steps.fake.load.limit  limit is not among the side data at load (there:"
         " limits)"),
        ("{a: old.site, b", "{c: old.site, b",
         "p.yaml:17  steps.fake.load.limits.c  limits has no column c (it has: a, b, lane, speed,"
         " seconds)"),
        ("{a: old.site", "{a: old.seen", "p.yaml:17  steps.fake.load.limits.a  old.seen is no"
         " column of the two records (new.plate, new.site, new.lane, new.speed, old.plate,"
         " old.site, old.lane, old.speed, earlier.plate, "),
        ("new.site <> old.site", "site <> old.site", "p.yaml:18  steps.fake.alarm  column site is"
         " not known here: write new.site or old.site or earlier.site or later.site"),
        ("[site, lane, speed]", "[site, lane, speed, lane]", "p.yaml:16  steps.fake.columns  lane"
         " stands twice. Delete one"),
        ("[site, lane, speed]", "[site, plate]", "p.yaml:16  steps.fake.columns  plate is a key,"
         " which alarms show. Delete it"),
        ("{a: old.site", "{a: old.lane", "p.yaml:17  steps.fake.load.limits.a  limits.a is string,"
         " old.lane long: they can never be equal. Make them alike"),
        ("{a: old.site, b: new.site}", "{a: old.site, b: new.site, lane: old.lane}",
         "p.yaml:17  steps.fake.load.limits.lane  lane is no key of limits (keys: a, b)"),
        ("{a: old.site, b: new.site}", "{a: old.site}", "p.yaml:17  steps.fake.load.limits  a row"
         " is found by b, too. Name it, as in limits: {b: old.COLUMN}"),
        ("keys: [a, b]", "keys: [a, c]", "p.yaml:5  load.limits  keys: c is not among the columns"
         " (a, b, lane, speed, seconds)"),
        ("keys: [a, b]", "keys: [a, a]", "p.yaml:5  load.limits  keys: a stands twice"),
        ("keys: [a, b]", "keys: [speed]", "p.yaml:5  load.limits  keys: speed is a double, which"
         " does not compare safely"),
        ("    keys: [a, b]\n", "", "p.yaml:5  load.limits.keys  "),
        ("limits.seconds", "limits.minutes", "p.yaml:18  steps.fake.alarm  column limits.minutes is"
         " not declared: add it under columns (declared: apart, earlier.lane, "),
        ("files: limits.csv", "files: s3://limits.csv", "p.yaml:6  load.limits.files  s3:// cannot"
         " be read yet. Name a folder of this machine: mount or copy it"),
        ("{a: string, b: string,", "{a: string, b: string, _version: long,",
         "p.yaml:5  load.limits  columns: _version is the lake's own. Rename the column"),
        ("{a: string, b: string,", "{a: string, b: string, A: long,",
         "p.yaml:5  load.limits  columns a and A differ only in case"),
        ("format: csv", "format: jsonl", "p.yaml:7  load.limits.format  "),
        ("{limits: {a: old.site, b: new.site}}", "{limits: {}}", "p.yaml:17  steps.fake.load.limits"
         "  a row is found by a, too. Name it, as in limits: {a: old.COLUMN}"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where(tmp_path: Path, old: str, new: str, problem: str) -> None:
    found = said(tmp_path, old, new)
    assert len(found) == 1, found
    assert found[0].startswith(problem), found


@pytest.mark.parametrize("name", ["new", "old", "earlier", "later", "apart"])
def test_a_name_that_means_something_in_a_condition_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(GOOD.replace("limits", name))
    _, problems = read_pipeline(path)
    assert any(f"{name} means something here already. Rename the side table" in str(problem)
               for problem in problems)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{a: site}", "{a: lane}", "p.yaml:11  steps.s.load.limits.a  lane is no column of those"
         " that the code reads (site)"),
        ("load: {limits: {a", "load: {limit: {a", "p.yaml:11  steps.s.load.limit  limit is not"
         " among the side data at load (there: limits)"),
        ("{limits: {a: site}}", "{limits: {}}", "p.yaml:11  steps.s.load.limits  a row is found by"
         " a, too. Name it, as in limits: {a: COLUMN}"),
    ],
)  # fmt: skip
def test_user_code_loads_by_what_it_reads(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = tmp_path / "p.yaml"
    (tmp_path / "p.py").write_text("class Longest: pass")
    path.write_text(LONGEST_FILE)
    pipeline, problems = read_pipeline(path)
    assert pipeline is not None, problems
    assert [join.table.name for join in pipeline.spec("s").looked_up] == ["limits"]
    path.write_text(LONGEST_FILE.replace(old, new))
    _, problems = read_pipeline(path)
    assert len(problems) == 1
    assert f"{problem}" in str(problems[0])
