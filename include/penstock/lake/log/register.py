"""The register of a log: which pipelines are linked, which steps and tasks run for whom.

Four tables that its stream host keeps true: each is replaced as a whole, in one commit, once it
says something else; former versions tell what was so before. Source: EMR (MRISM).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.lake.storage.commit import Table
from penstock.lake.storage.replace import replace
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

PIPELINES, STEPS, TASKS, SHARES = "pipelines", "steps", "tasks", "shares"
COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = {
    PIPELINES: {"pipeline": pa.string(), "digest": pa.string()},
    STEPS: {
        "run": pa.string(), "kind": pa.string(), "fingerprint": pa.string(), "query": pa.string(),
        "epoch": pa.int64(), "generation": pa.int64(), "tasks": pa.int64(), "state": pa.string(),
        "why": pa.string(),
    },
    TASKS: {"run": pa.string(), "task": pa.int64(), "generation": pa.int64()},
    SHARES: {"pipeline": pa.string(), "step": pa.string(), "run": pa.string()},
}  # fmt: skip
"""Of each table, besides the instant at which it was said."""
Rows = Sequence[Mapping[str, Any]]


def pipelines_spec(tables: Tables) -> TableSpec:
    """One pipeline that is linked to the log a row."""
    return _spec(tables, PIPELINES)


def steps_spec(tables: Tables) -> TableSpec:
    """One run a row: ``state`` is runs, or stands still, with the reason in ``why``."""
    return _spec(tables, STEPS)


def tasks_spec(tables: Tables) -> TableSpec:
    """One task of a run a row: each holds a shard of its state."""
    return _spec(tables, TASKS)


def shares_spec(tables: Tables) -> TableSpec:
    """One step of a linked pipeline a row, with the run that answers for it."""
    return _spec(tables, SHARES)


SPECS = (pipelines_spec, steps_spec, tasks_spec, shares_spec)


def _spec(tables: Tables, name: str) -> TableSpec:
    schema = pa.schema([*COLUMNS[name].items(), ("at", INSTANT)])
    return TableSpec(tables.uri(name), schema, name=name)


class Register:
    """What a stream host says of its log.

    Args:
        tables: of the log.
        clock: tells when it was said.
    """

    def __init__(self, tables: Tables, clock: Clock) -> None:
        specs = [spec(tables) for spec in SPECS]
        self._tables = {spec.name: Table(spec) for spec in specs}
        self._clock, self._said = clock, dict[str, Rows]()

    def say(self, facts: Mapping[str, Rows]) -> None:
        """Let the tables say this, and nothing else; twice is once.

        Args:
            facts: rows of each table.

        Raises:
            TransientError: the lake cannot be written now; saying it again goes on.
        """
        for name, rows in facts.items():
            if self._said.get(name) != rows:
                table, now = self._tables[name], {"at": self._clock.now()}
                content = pa.Table.from_pylist([{**row, **now} for row in rows], table.spec.schema)
                if replace(table, content, None, "register", {}):
                    self._said[name] = rows
