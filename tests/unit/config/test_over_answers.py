"""Pipelines over the answers of others: what is read, and what is wrong with them, where."""

import re
from pathlib import Path

import pytest

from penstock.config.answers import OverAnswers
from penstock.config.catalog import Catalog
from penstock.config.kept import catalog_in_force, keep
from penstock.config.links import stands_on
from penstock.config.settings import Settings
from tests.catalogs import require_said, said

BELOW = """
source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  minute:
    keys: [gate]
    window: {size: PT1M}
    measures: {passed: count(*), heavy: max(weight)}
    slack: {fixed: PT10S}
  since:
    window: {since: 2024-01-01T00:00:00Z, period: P1D}
    measures: {n: count(*)}
    slack: {fixed: PT10S}
  last:
    kind: latest
    keys: [gate]
    columns: [weight]
    slack: {fixed: PT10S}
"""
ABOVE = """source: {pipeline: gates, step: minute}
columns: {gate: string, passed: long}
steps:
  rush:
    keys: [gate]
    window: {size: PT1H}
    measures: {most: max(passed)}
"""


def read(folder: Path, above: str, name: str = "rush") -> Catalog:
    """Both files."""
    (folder / "gates.yaml").write_text(BELOW)
    (folder / f"{name}.yaml").write_text(above)
    return Catalog.read(folder)


def test_a_step_knows_whose_answers_it_takes(tmp_path: Path) -> None:
    catalog = read(tmp_path, ABOVE)
    assert said(catalog) == []
    rush = catalog.pipeline("rush")
    assert isinstance(rush, OverAnswers)
    below = catalog.pipeline("gates").spec("minute")
    assert rush.specs[0].above is not None
    assert rush.specs[0].above.fingerprint == below.fingerprint
    assert rush.is_live()
    assert stands_on(rush) == ("gates",)


def test_another_definition_below_is_another_one_above(tmp_path: Path) -> None:
    before = read(tmp_path, ABOVE).pipeline("rush")
    (tmp_path / "gates.yaml").write_text(BELOW.replace("size: PT1M", "size: PT2M"))
    after = Catalog.read(tmp_path).pipeline("rush")
    assert before.specs[0].fingerprint != after.specs[0].fingerprint
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("gates, step", "gate, step"), r":1 source.pipeline no valid pipeline .* mean gates\?"),
        (("minute}", "minutes}"), r":1 source.step gates has no step .* mean minute\?"),
        (("minute}", "since}"), r":1 source.step since is no aggregate over windows of a size"),
        (("minute}", "last}"), r":2 columns.passed passed is no .*: gate, weight, n_records"),
        (("passed: long", "passed: long, went: long"), r":2 columns.went went is no .*: gate, "),
        (("passed: long", "passed: double"), r":2 columns.passed is long in .* Declare it as long"),
        (("PT1H", "PT90S"), r":6 steps.rush.window windows of minute would lie in two of its own"),
        (("[gate]", "[passed]"), r":5 steps.rush.keys passed is no key of minute"),
        (("PT1H}", "PT1H}\n    where: passed > 3"), r":7 steps.rush.where passed is no key"),
        (("PT1H}", "PT1H}\n    slack: {fixed: PT1S}"), r":7 steps.rush.slack answers come in"),
        (("PT1H}", "PT1H}\n    quality: {epsilon: 0.1, delta: 0.1}"), r":7 .*no answer comes"),
        (("PT1H}", "PT1H}\n    shed: {base: 0.3}"), r":7 steps.rush.shed nothing but what a"),
        (("columns", "event_time: at\ncolumns"), r":2 event_time event_time says how events are"),
        (("step: minute", "step: minute, after: delete"), r":1 source.after after says how files"),
        (("columns", "keep: P3D\ncolumns"), r":2 keep rush keeps records for a while"),
        (("{size: PT1H}", "{since: 2024-01-01T00:00:00Z, period: P1D}"),
         r":6 steps.rush.window windows since an instant read no answers. Give them a size"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where_it_stands(
    change: tuple[str, str], expected: str, tmp_path: Path
) -> None:
    require_said(read(tmp_path, ABOVE.replace(*change)), expected)


NEWEST = """source: {pipeline: gates, step: last}
columns: {gate: string, weight: double}
steps:
  rush:
    keys: [gate]
    window: {size: PT1H}
    measures: {most: max(weight)}
"""


def test_newest_records_of_events_are_read_those_of_answers_are_not(tmp_path: Path) -> None:
    assert said(read(tmp_path, NEWEST)) == []
    top = "  rush:\n    kind: latest\n    keys: [gate]\n    columns: [weight]\n    every: PT1H\n"
    newest = NEWEST[: NEWEST.index("  rush:")] + top
    (tmp_path / "day.yaml").write_text(NEWEST.replace("gates, step: last", "rush, step: rush"))
    require_said(read(tmp_path, newest), r"day.yaml:1 source.step rush is no aggregate .* latest")


PAIRS = """source: {pipeline: gates, step: minute}
columns: {gate: string, passed: long}
steps:
  jump:
    kind: lookup
    keys: [gate]
    keep: {last: 3}
    pairs: consecutive
    columns: [passed]
    alarm: later.passed > 2 * earlier.passed
  day:
    kind: join
    on: [gate]
    within: PT0S
    shift: P1D
    where: abs(left.passed - right.passed) > 100
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), ""),
        (("    on: [gate]\n", ""), ""),
        (("on: [gate]", "on: [passed]"), r":13 steps.day.on passed is no key of minute"),
        (("later.passed", "new.passed"), r":4 steps.jump new.passed is by arrival, .* earlier and"),
        (("    shift", "    queries: {q: left.passed > 3}\n    shift"), r":11 steps.day side data"),
    ],
)
def test_pairs_of_answers(change: tuple[str, str], expected: str, tmp_path: Path) -> None:
    found = read(tmp_path, PAIRS.replace(*change))
    if expected:
        require_said(found, expected)
        return
    assert said(found) == []
    assert [spec.above.keys for spec in found.pipeline("rush").specs if spec.above] == [
        ("gate",), ("gate",)
    ]  # fmt: skip


def test_nobody_takes_his_own_answers(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ABOVE.replace("gates", "two"))
    found = said(read(tmp_path, ABOVE.replace("gates", "one"), "two"))
    assert len(found) == 2
    assert all("stands on itself" in line for line in found)


def test_a_valid_definition_stays_in_force_with_what_it_stands_on(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", pipelines=tmp_path)
    keep(settings, read(tmp_path, ABOVE))
    (tmp_path / "rush.yaml").write_text(ABOVE.replace("PT1H", "PT90S"))
    (tmp_path / "gates.yaml").write_text("steps: 3")
    found = catalog_in_force(settings)
    assert found.standing_in == {"gates", "rush"}
    assert found.pipeline("rush").specs[0].window.size == 3_600_000_000


def test_the_how_to_is_valid(tmp_path: Path) -> None:
    text = (Settings().root / "docs" / "how-to" / "build-on-answers.md").read_text()
    blocks = re.findall(r"^```yaml[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name, block in zip(("gates", "crossings", "rush"), blocks, strict=True):
        (tmp_path / f"{name}.yaml").write_text(block)
    catalog = Catalog.read(tmp_path)
    assert said(catalog) == []
    over = [each.name for each in catalog.pipelines if isinstance(each, OverAnswers)]
    assert over == ["crossings-minute", "gates-minute", "gates-rush", "rush"]
