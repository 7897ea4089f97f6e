"""A YAML file with the lines of its keys: what every file of ours is read by."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from penstock.config.cut import mended
from penstock.config.nodes import require_size
from penstock.config.problems import ConfigProblem, Loc, dots

PIPELINE_PAGE = "docs/reference/pipeline-file.md"
"""What such a file may say."""
FILES = 256
"""Texts of which a process keeps what they say: most files are read again as they were."""
TRUTH, TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"


class Unreadable(Exception):  # noqa: N818  it carries a problem to whoever collects them
    """A file that holds no keys at all."""

    def __init__(self, problem: ConfigProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class YamlFile:
    """What a file says.

    Attributes:
        content: keys with their values.
        lines: where keys stand; whoever reads the same text again is given the same ones.
        wrong: problems: keys that stand twice, and values that YAML cut, which are whole here.
    """

    content: dict[Any, Any]
    lines: dict[Loc, int]
    wrong: tuple[ConfigProblem, ...]


def read_yaml(path: Path, copy: Path | None = None, page: str = PIPELINE_PAGE) -> YamlFile:
    """Read a file.

    Args:
        path: the file, as problems name it.
        copy: a file that holds what that one held.
        page: says what such a file may hold.

    Raises:
        Unreadable: it is no mapping.
        OSError: the copy cannot be read. That is no problem of the file, and may pass: who took it
            for one would let go of a definition that is in force.
    """
    try:
        file = _read_text((copy or path).read_text(encoding="utf-8"), path, page)
        return replace(file, content=deepcopy(file.content))
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark
        line = mark.line + 1 if mark is not None else 1
        raise Unreadable(
            ConfigProblem(path, line, "yaml", str(broken.problem), "Mend the YAML")
        ) from broken
    except RecursionError:
        said = "is nested too deeply, or holds itself"
        raise Unreadable(ConfigProblem(path, 1, "yaml", said, "Mend the YAML")) from None
    except UnicodeDecodeError as broken:
        line = broken.object[: broken.start].count(b"\n") + 1
        said = "is not written in UTF-8"
        raise Unreadable(ConfigProblem(path, line, "file", said, "Save it as UTF-8")) from broken
    except (OSError, ValueError, TypeError, yaml.YAMLError) as broken:
        if copy is not None and isinstance(broken, OSError):
            raise
        said = f"cannot be read: {broken}"
        raise Unreadable(ConfigProblem(path, 1, "file", said, "Mend the file")) from broken


@lru_cache(maxsize=FILES)
def _read_text(text: str, path: Path, page: str) -> YamlFile:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        said = "is empty or not a mapping"
        raise Unreadable(ConfigProblem(path, 1, "file", said, f"See {page}"))
    require_size(node)
    cut = tuple(mended(node, path))
    lines = dict(_lines(node, ()))
    doubled = tuple(
        ConfigProblem(path, line, dots(loc), "stands twice", "Delete one")
        for loc, line in _doubled(node, ())
    )
    return YamlFile(_content(node), lines, (*cut, *doubled))


def lines_of(path: Path) -> dict[Loc, int]:
    """Lines of a file that was read before; none if it has problems by now."""
    try:
        return read_yaml(path).lines
    except Unreadable:
        return {}


def _content(node: yaml.MappingNode) -> dict[Any, Any]:
    _name_keys(node, set())
    loader = yaml.SafeLoader("")
    try:
        content: dict[Any, Any] = loader.construct_document(node)
    finally:
        loader.dispose()
    return content


def _name_keys(node: yaml.Node, seen: set[int]) -> None:
    """Let keys that YAML 1.1 takes for truth values, such as ``on``, be the names that they are."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == TRUTH:
                key.tag = TEXT
            _name_keys(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _name_keys(value, seen)


def _lines(node: yaml.Node, loc: Loc) -> Iterator[tuple[Loc, int]]:
    yield loc, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*loc, key.value))
            yield (*loc, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _lines(value, (*loc, i))


def _doubled(node: yaml.Node, loc: Loc) -> Iterator[tuple[Loc, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, value in node.value:
        if key.value in seen:
            yield (*loc, key.value), key.start_mark.line + 1
        seen.add(key.value)
        yield from _doubled(value, (*loc, key.value))
