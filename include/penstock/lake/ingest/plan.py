"""Plans of the door: what is read, at which instant it arrived, and by which definition."""

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from penstock.config.intake import Definition
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.measure import ColumnType
from penstock.core.slack import BlockKind
from penstock.core.step import ONLY, STREAM
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.seen import SeenIds
from penstock.lake.ingest.source import Waiting, clears
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

APPLICATION = "ingest"
MIXED = (
    "{place}: the log holds {has}, and the pipeline file says that it takes {takes}: these cannot"
    " come among them. Give the pipeline file another name, or penstock remove the pipeline to"
    " start afresh."
)
ANSWERS, RECORDS = "answers of a step", "records of a source"


@lru_cache(maxsize=64)
def definition_of(text: str) -> Definition:
    """What a plan was made by, from its text."""
    return Definition.from_text(text)


def clears_by(definition: str) -> bool:
    """Whether a plan's files go once it is sealed, by the text of its definition."""
    return clears(definition_of(definition).source)


def today(pipeline: Pipeline) -> str:
    """By what a plan is carried out that does not say it: such a one is of the only stream."""
    return "" if pipeline.streams else pipeline.definition.to_text()


@dataclass(frozen=True, slots=True)
class Plan:
    """One ingest batch, as logged.

    Attributes:
        number: of the plan, from 0 without gaps.
        kind: of its blocks.
        origin: live or history.
        first_seq, first_block: its first ones.
        arrived_at: when it was made, us; not less than that of any plan before it.
        items: what is read.
        adopts: proposals that take effect with it.
        definition: text of the part of the pipeline file that verdicts depend on.
        block_size: records a block, at most.
        refused_before: records with an earlier event time are refused, us.
        stream: whose records it takes.
    """

    number: int
    kind: BlockKind
    origin: str
    first_seq: int
    first_block: int
    arrived_at: int
    items: tuple[Item, ...]
    adopts: str | None
    definition: str
    block_size: int
    refused_before: int = BEGINNING
    stream: str = ONLY

    @classmethod
    def of(cls, row: dict[str, Any], definition: str, block_size: int) -> "Plan":
        """From a row of ``plans``.

        Args:
            row: the row.
            definition: today's, for a plan of a version that did not write it down.
            block_size: likewise.
        """
        return cls(
            row["number"],
            BlockKind(row["kind"]),
            row["origin"],
            row["first_seq"],
            row["first_block"],
            micros(row["arrived_at"]),
            tuple(Item(**i) for i in json.loads(row["positions"])),
            row["adopts"],
            row["definition"] or definition,
            row["block_size"] or block_size,
            BEGINNING if row["refused_before_us"] is None else row["refused_before_us"],
            row[STREAM] or ONLY,
        )

    @property
    def source(self) -> tuple[str, str]:
        """The stream and origin of its items."""
        return self.stream, self.origin

    def row(self) -> dict[str, Any]:
        """As a row of ``plans``."""
        return {
            "number": self.number,
            "kind": self.kind.value,
            "origin": self.origin,
            "first_seq": self.first_seq,
            "first_block": self.first_block,
            "arrived_at": instant(self.arrived_at),
            "positions": json.dumps([i.to_json() for i in self.items]),
            "adopts": self.adopts,
            "definition": self.definition,
            "block_size": self.block_size,
            "refused_before_us": None if (us := self.refused_before) == BEGINNING else us,
            STREAM: self.stream or None,
        }


def last_plan(table: Table) -> int:
    """Number of the last plan that committed to a table; -1: none has."""
    if not table.exists():
        return -1
    table.refresh()
    last = table.last(APPLICATION)
    return -1 if last is None else last


def require_kind(row: dict[str, Any], place: str, *, answers: bool) -> None:
    """See that a log stays what it is.

    Args:
        row: of ``plans``.
        place: of the table.
        answers: whether the log is to hold answers of a step.

    Raises:
        ConfigError: it is another kind of log.
    """
    if (row["taken"] is not None) != answers:
        has, takes = (RECORDS, ANSWERS) if answers else (ANSWERS, RECORDS)
        raise ConfigError(MIXED.format(place=place, has=has, takes=takes))


class Terms:
    """What carrying out the plans of one definition needs.

    Args:
        definition: of the plans.
        tables: of the pipeline.
        home: where relative places start.
        stream: of the plans.
        events: the table, where it is at hand.
    """

    def __init__(
        self,
        definition: Definition,
        tables: Tables,
        home: Path,
        stream: str = ONLY,
        events: Table | None = None,
    ) -> None:
        self.definition, self.home, self.stream = definition, home, stream
        named = {STREAM: ColumnType.STRING} if stream else {}
        self.events = events or Table(tables.events(named | definition.types))

    @cached_property
    def seen(self) -> SeenIds | None:
        """Ids that arrived before; none: the definition declares none."""
        if self.definition.id is None:
            return None
        return SeenIds(self.definition, self.events, self.stream)

    def waiting(self, plan: Plan) -> Waiting:
        """The source of a plan's items.

        Raises:
            ConfigError: only the pipeline file could say, and does not any more.
        """
        history = plan.origin == HISTORY
        config = self.definition.history if history else self.definition.source
        if config is None:
            raise ConfigError(
                f"{self.events.spec.uri}: plan {plan.number} of the history is not finished, and"
                " the pipeline file names no history: put it back until the plan is sealed"
            )
        return Waiting(config, self.home)
