"""The list of crash points, derived from the code: what writes, and what a life reached.

A *site* is a call that makes something last. A site with a point on both sides is covered where
the life reached both; a call of ``Table.append`` or ``swap`` has its points inside, so it is
covered where it stood on the way to one.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "include" / "penstock"
WATCHED = ("lake", "spark", "quality", "runtime/streams")
COMMITS = {"append": 3, "append_each": 1, "swap": 3}
"""Methods of Table, told from a list's by how many arguments they take."""
WRITES = {
    "write_deltalake", "create_write_transaction", "compact", "z_order", "vacuum",
    "create_checkpoint", "cleanup_metadata", "saveAsTable", "insertInto", "write_text",
    "write_bytes", "rename",
}  # fmt: skip
APART = {
    "lake/storage/durable.py": "puts aside what a power loss left: tests/laws/test_power_loss.py",
    "lake/serve/export.py": "a person's command, beside the tables",
    "lake/serve/results.py": "a person's question, beside the tables",
    "spark/alike.py": "files that only say whether nodes see them; gone a moment later",
    "runtime/streams/rolling.py": "turns log files over",
}


@dataclass(frozen=True, order=True)
class Site:
    """A call that makes something last, and the lines of the function around it."""

    path: str
    first: int
    last: int
    what: str
    around: tuple[int, int]
    commits: bool


@dataclass(frozen=True)
class Reached:
    """One line of a trace: the point, and the calls that led there, innermost first."""

    point: str
    calls: tuple[tuple[str, int], ...]


def sites(library: Path = LIBRARY) -> list[Site]:
    """Every call in the watched packages that makes something last."""
    found = []
    for folder in WATCHED:
        for path in sorted((library / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            place = str(path.relative_to(library))
            found += [] if place in APART else _sites(place, tree)
    return sorted(found)


def _sites(path: str, tree: ast.Module) -> Iterator[Site]:
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        commits = COMMITS.get(name) == len(node.args) + len(node.keywords) > 0
        if not (commits or _writes(name, node)):
            continue
        spans = [(f.lineno, f.end_lineno or 0) for f in functions]
        holding = [s for s in spans if s[0] <= node.lineno <= s[1]]
        around = min(holding, key=lambda s: s[1] - s[0])
        yield Site(path, node.lineno, node.end_lineno or 0, name, around, commits)


def _name(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _writes(name: str, node: ast.Call) -> bool:
    if name == "create":
        return isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "DeltaTable"
    if name == "replace":  # a path's has one argument, a text's two, a dataclass's has names
        return isinstance(node.func, ast.Attribute) and len(node.args) == 1 and not node.keywords
    return name in WRITES


def read_trace(path: Path) -> list[Reached]:
    """What was reached, in order; a process that was killed may have left half a line."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        point, *calls = line.split("\t")
        pairs = (call.rpartition(":") for call in calls)
        found.append(Reached(point, tuple((place, int(n or 0)) for place, _, n in pairs)))
    return found


def uncovered(found: list[Site], trace: list[Reached]) -> list[str]:
    """Sites that no point guards, or that the life never reached."""
    calls = {call for each in trace for call in each.calls}
    points = {each.calls[0] for each in trace if each.calls}
    missing = []
    for site in found:
        if site.commits:
            good = any((site.path, n) in calls for n in range(site.first, site.last + 1))
        else:
            low, high = site.around
            before = any((site.path, n) in points for n in range(low, site.first))
            after = any((site.path, n) in points for n in range(site.last + 1, high + 1))
            good = before and after
        if not good:
            missing.append(f"{site.path}:{site.first} {site.what}")
    return missing


def marks(library: Path = LIBRARY) -> list[tuple[str, int]]:
    """Every call of ``reached`` in the library."""
    found = []
    for path in sorted(library.rglob("*.py")):
        calls = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        place = str(path.relative_to(library))
        ours = {"reached", "crash.reached"}  # a method of that name is another thing
        found.extend((place, call.lineno) for call in calls if ast.unparse(call.func) in ours)
    return found


def unreached(found: list[tuple[str, int]], trace: list[Reached]) -> list[str]:
    """Points that the life never came to."""
    points = {each.calls[0] for each in trace if each.calls}
    return [f"{path}:{line}" for path, line in found if (path, line) not in points]
