"""A text that was read before is not parsed again; whoever reads it cannot tell."""

from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from penstock.config.yaml_file import Unreadable, read_yaml

TEXT = "on: {a: [1, 2]}\nb: 1\nb: 2\n"


def test_what_one_reader_changes_no_other_gets(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    first = read_yaml(file)
    first.content["on"]["a"].append(3)
    first.content["more"] = 1
    with patch.object(yaml, "compose", side_effect=AssertionError("parsed again")):
        assert read_yaml(file).content == {"on": {"a": [1, 2]}, "b": 2}


def test_a_file_that_says_something_else_is_read(tmp_path: Path) -> None:
    file, kept = tmp_path / "p.yaml", tmp_path / "kept.yaml"
    for said in (1, 2, 1):
        file.write_text(f"a: {said}\n")
        kept.write_text(f"a: {said + 5}\n")
        assert read_yaml(file).content == {"a": said}
        assert read_yaml(file, kept).content == {"a": said + 5}


def test_problems_name_the_file_that_was_read(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("p.yaml", "q.yaml")]
    for file in files:
        file.write_text(TEXT)
        (wrong,) = read_yaml(file).wrong
        assert (wrong.path, wrong.line, wrong.where) == (file, 3, "b")


def test_what_cannot_be_read_says_so_each_time(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("a: [1\n")
    for _ in range(2):
        with pytest.raises(Unreadable) as broken:
            read_yaml(file)
        assert broken.value.problem.path == file
