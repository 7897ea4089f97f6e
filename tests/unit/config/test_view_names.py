"""No step hides a view of the log, or of another step, in SQL."""

from pathlib import Path

import pytest

from penstock.config.answers import OverAnswers
from penstock.config.catalog import Catalog
from penstock.config.view_names import OF_THE_LOG, views_of
from penstock.lake.serve.views import views
from penstock.lake.storage.tables import Tables
from tests.catalogs import said

FILE = """source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  m: {keys: [gate], window: {size: PT1M}, measures: {passed: count(*)}, slack: {fixed: PT10S}}
"""
SINCE = "window: {since: 2024-01-01T00:00:00Z, period: P1D}, measures: {n: count(*)}"
OTHERS = f"""  since: {{{SINCE}, slack: {{fixed: PT1S}}}}
  last: {{kind: latest, keys: [gate], columns: [weight], slack: {{fixed: PT1S}}}}
  own: {{kind: custom, code: Own, keys: [gate], answers: {{n: long}}}}
  jump:
    kind: lookup
    keys: [gate]
    keep: {{last: 2}}
    pairs: consecutive
    columns: [weight]
    alarm: new.weight > old.weight
  near:
    kind: join
    on: [gate]
    within: PT1M
    queries: {{more: left.weight > right.weight, less: left.weight < right.weight}}
    select: [left.weight, right.weight]
    slack: {{fixed: PT1S}}
"""
ABOVE = """  hour: {from: m, window: {size: PT1H}, measures: {n: max(passed)}}
  pairs: {from: m, kind: join, on: [gate], within: PT0S, shift: P1D, select: [left.passed]}
"""


def read(folder: Path, steps: str) -> Catalog:
    (folder / "p.yaml").write_text(FILE + steps)
    (folder / "p.py").write_text("class Own: ...\n")
    return Catalog.read(folder)


def test_the_names_are_those_of_the_views_that_are_made(tmp_path: Path) -> None:
    catalog = read(tmp_path, OTHERS + ABOVE)
    assert said(catalog) == []
    for pipeline in catalog.pipelines:
        over = isinstance(pipeline, OverAnswers)
        known = [*OF_THE_LOG, *pipeline.steps]
        for name, step in pipeline.steps.items():
            known += views_of(name, step, over_answers=over)
        assert {*views(Tables(str(tmp_path), pipeline.name), pipeline)} == {*known}
        assert len({*known}) == len(known)


def step(name: str) -> str:
    return FILE[FILE.index("  m:") :].replace("  m:", f"  {name}:")


@pytest.mark.parametrize(
    ("more", "line", "name", "owner"),
    [
        (step("events"), 6, "events", "the log"),
        (step("quarantine"), 6, "quarantine", "the log"),
        ("  events: {from: m, window: {size: PT1H}, measures: {n: max(passed)}}\n", 6, "events",
         "the log"),
        (step("m_timely"), 6, "m_timely", "m"),
        (OTHERS + step("since_so_far"), 23, "since_so_far", "since"),
        (OTHERS + step("last_now"), 23, "last_now", "last"),
        (OTHERS + step("own_excluded"), 23, "own_excluded", "own"),
        (OTHERS + step("near_less"), 23, "near_less", "near"),
        (ABOVE + ABOVE.replace("hour", "hour_inputs").replace("pairs", "hour_pairs"), 8,
         "hour_inputs", "hour"),
    ],
)  # fmt: skip
def test_a_step_that_would_hide_one_is_told(
    more: str, line: int, name: str, owner: str, tmp_path: Path
) -> None:
    assert said(read(tmp_path, more)) == [
        f"p.yaml:{line} steps.{name} a view of {owner} is called {name}, too, and a query would get"
        " one of the two. Rename the step"
    ]


def test_two_views_of_one_name_are_told_too(tmp_path: Path) -> None:
    more = OTHERS.replace("less:", "b_timely:") + step("near_b")
    assert said(read(tmp_path, more)) == [
        "p.yaml:23 steps.near_b a view of near is called near_b_timely, too, and a query would get"
        " one of the two. Rename the step"
    ]


@pytest.mark.parametrize("name", ["m_now", "m_inputs", "last_timely", "hour_inputs"])
def test_a_name_that_no_view_has_is_free(name: str, tmp_path: Path) -> None:
    assert said(read(tmp_path, step(name) + ABOVE)) == [], "another floor has views of its own"
