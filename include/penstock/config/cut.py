"""Values that YAML has cut at a comma, since they stand within { } and not in quotes."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from penstock.config.problems import ConfigProblem, Loc, dots


def mended(node: yaml.Node, path: Path, loc: Loc = ()) -> Iterator[ConfigProblem]:
    """Put together again what was cut, so that nothing else is said of it; the problems.

    ``{n: quantile(x, 0.9)}`` is ``{n: "quantile(x", "0.9)": null}`` to YAML.
    """
    if isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from mended(value, path, (*loc, i))
    if not isinstance(node, yaml.MappingNode):
        return
    left, node.value = list(node.value), []
    while left:
        key, value = left[0]
        where: Loc = (*loc, key.value)
        node.value.append(left[0])
        parts = _parts(left) if node.flow_style else []
        del left[: len(parts) or 1]
        if not parts:
            yield from mended(value, path, where)
            continue
        value.value = ", ".join(parts)
        said = "is cut at a comma, which within { } separates entries"
        remedy = f"Quote it: {key.value}: '{value.value}'"
        yield ConfigProblem(path, key.start_mark.line + 1, dots(where), said, remedy)


def _parts(pairs: list[tuple[yaml.Node, yaml.Node]]) -> list[str]:
    """Of the first of some entries the parts of its value; none: it is whole."""
    found: list[str] = []
    for key, value in pairs:
        part = key if found else value
        if not _is_plain(part) or (found and value.value != ""):
            return []
        found.append(part.value)
        if _is_closed("".join(found)):
            return found if len(found) > 1 else []
    return []


def _is_closed(text: str) -> bool:
    return text.count("(") <= text.count(")")


def _is_plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None
