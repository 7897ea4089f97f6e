"""How much a YAML document stands for, its aliases expanded, without expanding them."""

import yaml

MOST_NODES = 20_000
"""A pipeline of a hundred steps has some 2,000."""


def require_size(root: yaml.Node) -> None:
    """Refuse a document that stands for more than ``MOST_NODES``.

    A few lines of aliases to aliases stand for millions of nodes. Each node is looked at once.

    Raises:
        MarkedYAMLError: it does; marks the smallest part that is too large.
        RecursionError: it holds itself, or is nested deeper than Python follows.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = -1
            sizes[id(node)] = 1 + sum(map(size, _inside(node)))
        if sizes[id(node)] < 0:
            raise RecursionError
        return sizes[id(node)]

    large = root if size(root) > MOST_NODES else None
    mark = None
    while large is not None:
        mark = large.start_mark
        large = next((node for node in _inside(large) if size(node) > MOST_NODES), None)
    if mark is not None:
        said = f"stands for more than {MOST_NODES:,} values, its aliases (*) expanded"
        raise yaml.MarkedYAMLError(problem=said, problem_mark=mark)


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
