"""The snippets of docs/how-to/read-the-answers.md, run on the small pipeline."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

World = Any
Run = Callable[..., tuple[int, str, str]]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "read-the-answers.md"
NAMES = {"flights": "doors", "sightings_per_site": "per_door", "sightings": "people"}
NAMES |= {"site": "door", "JFK": "A", "1,200,000": "4", "2014-01-15T12:00Z": "2024-05-01T10:02:45Z"}


def snippets(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    for name, ours in NAMES.items():
        found = [re.sub(rf"\b{name}\b", ours, snippet) for snippet in found]
    return found


def test_the_commands_work(
    corrected: World, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with corrected.pipeline.path.open("a") as file:
        file.write("snapshots: {closing: seconds > 7}\n")
    lines = "".join(snippets("sh")).splitlines()

    for line in filter(str.strip, lines):
        program, *argv = shlex.split(line)
        assert program == ".venv/bin/penstock"
        status, _, complained = run(*argv)
        assert (status, complained) == (0, ""), line

    assert (tmp_path / "repaired.parquet").is_file()
    assert (tmp_path / "answers" / "per_door.parquet").is_file()


def test_the_snippets_for_pandas_and_duckdb_work(corrected: World) -> None:
    names: dict[str, Any] = {}

    for snippet in (s for s in snippets("python") if "spark" not in s):
        exec(compile(snippet, str(PAGE), "exec"), names)  # noqa: S102  it is our own page

    assert names["busiest"].to_dict() == {"A": 2, "B": 2}
    assert [row[1:] for row in names["changed"]] == [("A", 1, 2)]


@pytest.mark.spark
def test_the_snippet_for_spark_gives_the_same_answers(corrected: World) -> None:
    shared = next(s for s in snippets("python") if "spark" not in s)
    spark = next(s for s in snippets("python") if "spark" in s)
    compare = """
    everything = in_force.toArrow()
by = [("window_start", "ascending"), ("door", "ascending")]
found, wanted = everything.sort_by(by), answers.sort_by(by)
assert found.column_names == wanted.column_names
assert found.num_rows == 3
assert found.to_pylist() == wanted.to_pylist()
assert {tuple(row) for row in rows} == {("A", 2, "late"), ("B", 1, "late")}
"""
    # Apart from this process, whose Spark session other tests may share.
    environment = os.environ | {"PYTHONPATH": str(PAGE.parents[2] / "include")}

    done = subprocess.run(
        [sys.executable, "-c", shared + spark + compare],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
