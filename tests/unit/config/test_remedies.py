"""What is wrong is said once, where it stands, with what to do about it; nothing leads away."""

from pathlib import Path

import pytest
import yaml

from penstock.config.catalog import Catalog
from penstock.config.cluster import checked_cluster
from penstock.config.cut import mended
from tests.catalogs import said

GATES = """source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  minute:
    keys: [gate]
    window: {size: PT1M}
    measures: {passed: count(*), heavy: max(weight)}
    slack: {fixed: PT10S}
"""
HOUR = "window: {size: PT1H}, measures: {m: max(passed)}"
GUEST = """source: {pipeline: gates}
steps:
  a:
    window: {size: PT1H}
    measures: {m: max(weight)}
    slack: {fixed: PT10S}
"""
OVER = """source: {pipeline: gates, step: minute}
columns: {gate: string, passed: long}
steps:
  a: {window: {size: PT1H}, measures: {m: max(passed)}}
  b: {from: a, window: {size: P1D}, measures: {m: max(m)}}
"""


def read(folder: Path, **files: str | bytes) -> list[str]:
    """What is said of some files."""
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name}.yaml").write_bytes(content)
    return said(Catalog.read(folder))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (f"  x: {{from: y, {HOUR}}}\n  y: {{from: x, {HOUR}}}\n",
         "x is from itself: x is from y, y is from x. Delete from, or name another step"),
        (f"  x: {{from: y, {HOUR}}}\n  y: {{from: z, {HOUR}}}\n  z: {{from: y, {HOUR}}}\n",
         "y is from itself: y is from z, z is from y. Delete from, or name another step"),
        (f"  x: {{from: x, {HOUR}}}\n", "x is from itself. Delete from, or name another step"),
        (f"  x: {{from: null, {HOUR}}}\n", "is empty. Delete from, or name another step"),
        (f"  x: {{from: , {HOUR}}}\n", "is empty. Delete from, or name another step"),
    ],
)  # fmt: skip
def test_a_step_that_is_from_no_other_one(steps: str, expected: str, tmp_path: Path) -> None:
    (line,) = read(tmp_path, gates=GATES + steps)
    assert line.endswith(f".from {expected}"), line
    assert line.startswith(f"gates.yaml:{11 if 'y is from itself' in line else 10} steps.")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("window: {size: PT1H}, measures: {m: max(weight)}", "measures.m weight is no column of the"
         " answers of minute. There are: gate, heavy, n_records, passed. Take one of these, or add"
         " one to minute"),
        ("keys: [gat], window: {size: PT1H}, measures: {m: max(heavy)}",
         "keys gat is no column of the answers of minute. Did you mean gate?"),
        ("window: {since: 2024-01-01T00:00:00Z, period: PT1H}, measures: {m: max(passed)}",
         "window windows since an instant read no answers. Give them a size, as in {size: P1D}"),
        ("kind: latest, keys: [gate], every: PT10S, columns: [passed]", "every windows of minute"
         " would lie in two of its own: it moves by 60 s. Take multiples of that"),
        (f"{HOUR}, parallelism: 0",
         "parallelism 0 is no number of tasks. Write one from 1, or auto"),
        (f"{HOUR}, parallelism: lots",
         "parallelism 'lots' is no number of tasks. Write one from 1, or auto"),
        ("window: {size: PT1H}, measures: {n: quantile(heavy, 0.9), m: max(passed)}",
         "measures.n is cut at a comma, which within { } separates entries. Quote it:"
         " n: 'quantile(heavy, 0.9)'"),
        ("where: gate IN (1, 2, 3), window: {size: PT1H}, measures: {m: max(passed)}",
         "where is cut at a comma, which within { } separates entries. Quote it:"
         " where: 'gate IN (1, 2, 3)'"),
    ],
)  # fmt: skip
def test_a_step_over_answers(step: str, expected: str, tmp_path: Path) -> None:
    found = read(tmp_path, gates=f"{GATES}  x: {{from: minute, {step}}}\n")
    assert [line.removesuffix(". ") for line in found] == [f"gates.yaml:10 steps.x.{expected}"]


@pytest.mark.parametrize("value", ["null", "auto", "1", "'2'"])
def test_a_number_of_tasks(value: str, tmp_path: Path) -> None:
    assert read(tmp_path, gates=f"{GATES}    parallelism: {value}\n") == []


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("{n: f(a, b), m: g(c)}", {"n": "f(a, b)", "m": "g(c)"}),
        ("- {n: f(a, g(b, c), d)}", [{"n": "f(a, g(b, c), d)"}]),
        ("{n: 'f(a', b: c}", None),
        ("{n: f(a), b: }", None),
        ("{n: f(a, b: )}", None),
        ("{n: f(a, b}", None),
        ("n: f(a, b)", None),
    ],
)
def test_what_yaml_cuts_is_put_together_again(text: str, cut: object, tmp_path: Path) -> None:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert len([*mended(node, tmp_path)]) == (cut is not None)
    loader = yaml.SafeLoader("")
    assert loader.construct_document(node) == (cut or yaml.safe_load(text))


def test_of_two_steps_of_one_name_only_that_is_said(tmp_path: Path) -> None:
    step = f"  minute: {{from: minute, {HOUR}}}\n"
    expected = ["gates.yaml:10 steps.minute stands twice. Delete one"]
    assert read(tmp_path, gates=GATES + step) == expected
    assert read(tmp_path, gates=GATES + step.replace("size", "siz")) == expected
    other = f"  x: {{from: minute, {HOUR}}}\n"
    assert read(tmp_path, gates=GATES + step + other) == expected


@pytest.mark.parametrize(
    ("guest", "expected"),
    [
        (GUEST.replace("weight", "speed"), "5 steps.a.measures.m column speed is not declared in"
         " gates.yaml, whose log it is. Add it under columns there (declared: gate, weight)"),
        (GUEST.replace("weight", "wieght"), "5 steps.a.measures.m column wieght is not declared in"
         " gates.yaml, whose log it is. Did you mean weight?"),
        (OVER.replace("step:", "stepp:"), "1 source.stepp unknown key. Did you mean step?"),
        (GUEST.replace("gates", "over"), "1 source.pipeline over takes the answers of gates.minute,"
         " and has no records of its own. To take its answers add step: a; to take the same ones"
         " write pipeline: gates, step: minute"),
        (GUEST.replace("gates", "over-a"), "1 source.pipeline over-a takes the answers of over.a,"
         " and has no records of its own. To take its answers add step: b; to take the same ones"
         " write pipeline: over, step: a"),
        (GUEST.replace("gates", "gates-minute"), "1 source.pipeline no valid pipeline is called"
         " gates-minute. To take the answers of minute write pipeline: gates, step: minute; a"
         " pipeline gates-minute is there where steps of gates are from minute"),
        (GUEST.replace("gates", "bad"), "1 source.pipeline bad.yaml has problems. Mend these"
         " first"),
        (OVER.replace("gates", "bad"), "1 source.pipeline bad.yaml has problems. Mend these first"),
        (OVER.replace("gates", "wrong-minute"), "1 source.pipeline wrong.yaml has problems. Mend"
         " these first"),
        (GUEST.replace("gates", "getes"), "1 source.pipeline no valid pipeline is called getes. Did"
         " you mean gates?"),
    ],
)  # fmt: skip
def test_what_stands_on_another_file(guest: str, expected: str, tmp_path: Path) -> None:
    wrong = f"{GATES}  x: {{from: minute, window: {{size: PT1H}}, measures: {{m: max(no)}}}}\n"
    files = {"gates": GATES, "over": OVER, "bad": "steps: [\n", "wrong": wrong}
    mine = [f for f in read(tmp_path, **files, guest=guest) if f.startswith("guest.yaml")]
    assert mine[0] == f"guest.yaml:{expected}"
    assert all("a has problems itself" in line for line in mine[1:]), "its floor says so"


@pytest.mark.parametrize("name", ["over", "over-a", "gates-minute"])
def test_nobody_is_asked_for_the_slack_of_steps_over_answers(name: str, tmp_path: Path) -> None:
    text = GUEST.replace("gates", name).replace("    slack: {fixed: PT10S}\n", "")
    (line,) = read(tmp_path, gates=GATES, over=OVER, guest=text)
    assert line.startswith("guest.yaml:1 source.pipeline")


@pytest.mark.parametrize("quality", ["", "    quality: {epsilon: 0.1, delta: 0.1}\n"])
def test_a_guest_of_events_is_to_say_how_long_it_waits(quality: str, tmp_path: Path) -> None:
    text = GUEST.replace("    slack: {fixed: PT10S}\n", quality)
    expected = "guest.yaml:3 steps.a.slack is missing. Add slack: How long to wait for late records"
    assert read(tmp_path, gates=GATES, guest=text) == [f"{expected}."]
    (one, two) = read(tmp_path, guest=f"zone: UTC\n{text}")
    assert (one[:17], two) == ("guest.yaml:1 zone", f"{expected}.".replace(":3", ":4"))
    (one,) = read(tmp_path, guest=text.replace("    window", "    kind: nothing\n    window"))
    assert "'nothing' is no kind of step" in one


def test_what_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    latin = GATES.replace("gates,", "Zürich,").encode("latin-1")
    expected = "is not written in UTF-8. Save it as UTF-8"
    assert read(tmp_path, gates=latin) == [f"gates.yaml:1 file {expected}"]
    assert read(tmp_path, gates=b"# one\n# two\n" + latin) == [f"gates.yaml:3 file {expected}"]
    assert read(tmp_path, gates=GATES.encode("utf-16")) == [f"gates.yaml:1 file {expected}"]


def test_of_an_empty_file_the_page_is_named(tmp_path: Path) -> None:
    (line,) = read(tmp_path, gates="# nothing yet\n")
    assert line.endswith("See docs/reference/pipeline-file.md")
    _, problems = checked_cluster(tmp_path / "gates.yaml")
    assert str(problems[0]).endswith("See docs/reference/cluster-file.md")
