"""The sources of a pipeline, live and history, and what plans have taken of them."""

import json
from collections.abc import Mapping
from pathlib import Path

from penstock.config.pipeline import Pipeline
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.place import kept_apart
from penstock.lake.ingest.plan import clears_by
from penstock.lake.ingest.source import Waiting
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.log.files import decided
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


def waiting_of(pipeline: Pipeline, home: Path, lake: str) -> dict[str, Waiting]:
    """Source and history of a pipeline, by origin."""
    both = (LIVE, pipeline.source), (HISTORY, pipeline.history)
    found = {
        origin: Waiting(config, home, kept_apart(config, pipeline, home, lake))
        for origin, config in both
        if config is not None
    }
    for waiting in found.values():
        waiting.reading = pipeline.reading
    return found


def take_all(sources: Mapping[str, Waiting], tables: Tables) -> None:
    """Let sources know what plans have taken of them, and what a person has decided since.

    Args:
        sources: by origin.
        tables: of their pipeline.
    """
    plans = read_table(Table(tables.plans()), ["number", "origin", "positions", "definition"])
    for row in plans.sort_by("number").to_pylist():
        items = [Item(**item) for item in json.loads(row["positions"])]
        for origin, waiting in sources.items():
            waiting.take(
                items, row["number"], own=row["origin"] == origin,
                cleared=bool(row["definition"]) and clears_by(row["definition"]),
            )  # fmt: skip
    decisions = Table(tables.decisions())
    if decisions.exists():
        known = decided(decisions)
        for waiting in sources.values():
            waiting.decide(known)
