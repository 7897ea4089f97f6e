"""What was decided about the number of nodes: before it acts, and what came of it.

One scaling at a time: a decision stands open until its second row says how it ended. The table's
compare-and-swap makes two who decide at once agree.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.core.scaling import Verdict
from penstock.core.window import micros
from penstock.lake.storage.commit import ConflictError, Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

FOLDER = "_cluster"
"""Beside the folders of pipelines, whose names begin with a letter."""
APPLICATION = "scaling"
DECIDED, DONE, FAILED = "decided", "done", "failed"


@dataclass(frozen=True, slots=True)
class Scaling:
    """One decision, as far as it has come.

    Attributes:
        number: of the decision, rising.
        state: decided, done or failed.
        rule: why (``Rule``).
        reason: in words.
        nodes: so many there were.
        wanted: so many there should be.
        found: so many there were in the end; none: it is not over.
        inputs: what the decision went by.
        run_id: who decided.
        at: when this was written, us.
    """

    number: int
    state: str
    rule: str
    reason: str
    nodes: int
    wanted: int
    found: int | None
    inputs: Mapping[str, Any]
    run_id: str
    at: int


def scalings_spec(lake: str) -> TableSpec:
    """The table: a row when it is decided, a row when it is over."""
    schema = pa.schema(
        [
            ("number", pa.int64()),
            ("state", pa.string()),
            ("rule", pa.string()),
            ("reason", pa.string()),
            ("nodes", pa.int64()),
            ("wanted", pa.int64()),
            ("found", pa.int64()),
            ("inputs", pa.string()),
            ("run_id", pa.string()),
            ("at", INSTANT),
        ]
    )
    return TableSpec(Tables(lake, FOLDER).uri("scalings"), schema, name="scalings")


class Scalings:
    """The decisions of one lake's cluster."""

    def __init__(self, lake: str, clock: Clock) -> None:
        self._table, self._clock = Table(scalings_spec(lake)), clock

    def all(self) -> list[Scaling]:
        """The newest row of each, by number."""
        rows = read_table(self._table).sort_by([("number", "ascending"), ("at", "ascending")])
        newest: dict[int, Scaling] = {}
        for row in rows.to_pylist():
            if row["number"] not in newest or row["state"] != DECIDED:
                told = row | {"inputs": json.loads(row["inputs"]), "at": micros(row["at"])}
                newest[row["number"]] = Scaling(**told)
        return [newest[number] for number in sorted(newest)]

    def of(self, run_id: str) -> Scaling | None:
        """What a run has decided; none: nothing."""
        return next((each for each in self.all() if each.run_id == run_id), None)

    def open(self) -> Scaling | None:
        """The decision that is not over; none: there is none."""
        last = self.all()[-1:]
        return last[0] if last and last[0].state == DECIDED else None

    def changed(self) -> int | None:
        """When the last one was over, us; none: nothing was ever scaled."""
        over = [each.at for each in self.all() if each.state != DECIDED]
        return max(over, default=None)

    def decide(
        self, verdict: Verdict, nodes: int, inputs: Mapping[str, Any], run_id: str
    ) -> Scaling:
        """Write a decision down; the same run's open decision is given back.

        Raises:
            ConflictError: another one is open, or was written at this moment.
        """
        self._table.refresh()
        every = self.all()
        last = every[-1] if every else None
        if last is not None and last.run_id == run_id:
            return last
        if last is not None and last.state == DECIDED:
            raise ConflictError(
                f"scaling {last.number} ({last.reason}; run {last.run_id}) is not over yet"
            )
        made = Scaling(
            number=0 if last is None else last.number + 1, state=DECIDED, rule=verdict.rule.value,
            reason=verdict.reason, nodes=nodes, wanted=verdict.nodes, found=None, inputs=inputs,
            run_id=run_id, at=micros(self._clock.now()),
        )  # fmt: skip
        self._table.swap(self._rows(made), APPLICATION, 2 * made.number)
        return made

    def over(self, scaling: Scaling, found: int, *, failed: str | None = None) -> Scaling:
        """Write down how one ended; twice, it changes nothing.

        Args:
            scaling: which.
            found: so many nodes there are.
            failed: why it did not come about; none: it did.
        """
        ended = Scaling(**asdict(scaling) | {
            "state": DONE if failed is None else FAILED, "found": found,
            "reason": scaling.reason if failed is None else failed,
            "at": micros(self._clock.now()),
        })  # fmt: skip
        self._table.append(self._rows(ended), APPLICATION, 2 * scaling.number + 1)
        return ended

    def _rows(self, scaling: Scaling) -> pa.Table:
        schema = self._table.spec.schema
        row = asdict(scaling) | {"inputs": json.dumps(dict(scaling.inputs))}
        at = pa.scalar(row.pop("at"), pa.int64()).cast(INSTANT)
        return pa.Table.from_pylist([row | {"at": at.as_py()}], schema)
