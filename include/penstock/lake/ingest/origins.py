"""The sources of a pipeline, live and history, and what plans have taken of them."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.config.pipeline import Pipeline
from penstock.core.step import ONLY, STREAM
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.place import kept_apart
from penstock.lake.ingest.plan import clears_by
from penstock.lake.ingest.source import Waiting
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.log.files import decided
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

Origin = tuple[str, str]
"""A stream, and live or history."""


def waiting_of(pipeline: Pipeline, home: Path, lake: str) -> dict[Origin, Waiting]:
    """Sources and histories of a pipeline, by stream and origin."""
    found = {}
    for stream, intake in pipeline.intakes.items():
        for origin, config in ((LIVE, intake.source), (HISTORY, intake.history)):
            if config is not None and (config.files or config.delta):  # else there are no files
                apart = kept_apart(config, pipeline, home, lake)
                found[stream, origin] = waiting = Waiting(config, home, apart)
                waiting.reading = intake.reading
    return found


def take_all(sources: Mapping[Origin, Waiting], tables: Tables) -> None:
    """Let sources know what plans have taken of them, and what a person has decided since.

    What one stream took is nothing to another.

    Args:
        sources: by stream and origin.
        tables: of their pipeline.
    """
    names = ["number", "origin", "positions", "definition", STREAM]
    plans = read_table(Table(tables.plans()), names)
    for row in plans.sort_by("number").to_pylist():
        items = [Item(**item) for item in json.loads(row["positions"])]
        for (stream, origin), waiting in sources.items():
            if stream == (row[STREAM] or ONLY):
                waiting.take(
                    items, row["number"], own=row["origin"] == origin,
                    cleared=bool(row["definition"]) and clears_by(row["definition"]),
                )  # fmt: skip
    decisions = Table(tables.decisions())
    if decisions.exists():
        known = decided(decisions)
        for waiting in sources.values():
            waiting.decide(known)
