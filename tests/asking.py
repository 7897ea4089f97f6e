"""Queries that share a join: a pipeline file in which they change, and what each pair must name."""

import json
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from penstock.kinds.join.spec import JoinSpec
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.joins import CASES, Log, Pair, Row, either, logged, pairs_in, true_pairs, true_timely
from tests.lakes import Lake

QUERIES: dict[str, tuple[str, Callable[[Row, Row], bool]]] = {
    "far": (
        "abs(left.code - right.code) > 1",
        lambda a, b: either(a["code"], b["code"], lambda x, y: abs(x - y) > 1),
    ),
    "near": (
        "abs(left.code - right.code) <= 1 and left.site <> right.site",
        lambda a, b: (
            either(a["code"], b["code"], lambda x, y: abs(x - y) <= 1)
            and either(a["site"], b["site"], lambda x, y: x != y)
        ),
    ),
    "up": (
        "left.code < right.code",
        lambda a, b: either(a["code"], b["code"], lambda x, y: x < y),
    ),
    "same": (
        "left.site = right.site",
        lambda a, b: either(a["site"], b["site"], lambda x, y: x == y),
    ),
}
ASKED = CASES["far"].config | {"select": ["left.code", "right.site"]}
ASKED = {name: value for name, value in ASKED.items() if name != "where"}


class Asking:
    """A pipeline file whose queries change, and what the lake says was in force.

    Args:
        lake: of a join with queries.
        draw: of the changes.
    """

    def __init__(self, lake: Lake, draw: random.Random) -> None:
        self.lake, self.draw = lake, draw

    def change(self, names: Iterable[str] = ()) -> None:
        """Let the file have other queries: those named, or any."""
        some = [*names] or self.draw.sample([*QUERIES], self.draw.randint(1, len(QUERIES)))
        self.lake.edit(queries={name: QUERIES[name][0] for name in some})
        content = self.lake.pipeline.model_dump(
            mode="json", by_alias=True, exclude={"name", "path"}, exclude_unset=True
        )
        new = self.lake.home / "p.new"
        new.write_text(json.dumps(content))
        new.replace(self.lake.home / "p.yaml")

    def decided(self) -> list[tuple[int, frozenset[str]]]:
        """From which position on which queries are in force."""
        tables = self.lake.tables
        rows = read_table(Table(tables.decisions())).to_pylist()
        mine = [r for r in rows if r["step"].startswith("load s.queries ") and r["what"] == "side"]
        held = read_table(Table(tables.side(self._step().asked))).to_pylist()
        found = []
        for row in sorted(mine, key=lambda r: (r["block"], r["reason"] != "first")):
            version, _, first = row["value"].rpartition("@")
            names = frozenset(r["name"] for r in held if r["_version"] == version)
            found.append((int(first), names))
        return found

    def _step(self) -> JoinSpec:
        step = self.lake.step
        assert isinstance(step, JoinSpec)
        return step

    def true_pairs(self, log: Log) -> dict[Pair, str]:
        """Pairs with the queries that each satisfies, of those in force at its later record."""
        decided, near, found = self.decided(), replace(CASES["far"], holds=lambda *_: True), {}
        starts = [first for first, _ in decided]
        for left, right in true_pairs(log, near):
            _, asked = decided[max(bisect_right(starts, max(left, right)) - 1, 0)]
            one, other = log.records[left], log.records[right]
            assert one is not None
            assert other is not None
            said = sorted(name for name in asked if QUERIES[name][1](one, other))
            if said:
                found[left, right] = ",".join(said)
        return found

    def check(self, *, settled: bool) -> int:
        """Pairs that are told, and at the end those in force, are those of the log."""
        lake, log = self.lake, logged(self.lake)
        exact = self.true_pairs(log)
        timely = true_timely(log, replace(CASES["far"], holds=lambda *_: True))
        assert said(timely_answers(lake.tables, lake.step)) == {
            pair: names for pair, names in exact.items() if pair in timely
        }
        if settled:
            assert said(answers_in_force(lake.tables, lake.step)) == exact
        return len(exact)


def said(rows: pa.Table) -> dict[Pair, str]:
    """Queries that pairs name."""
    pairs_in(rows)
    both = zip(rows["left_seq"].to_pylist(), rows["right_seq"].to_pylist(), strict=True)
    return dict(zip(both, rows["queries"].to_pylist(), strict=True))
