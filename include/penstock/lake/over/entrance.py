"""How records come into a pipeline's log: by its door, or by a feed."""

from pathlib import Path

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.lake.ingest.crew import Crew
from penstock.lake.ingest.door import Door
from penstock.lake.over.feed import Feed
from penstock.lake.storage.tables import Tables


def entrance(
    tables: Tables, pipeline: Pipeline, home: Path, clock: Clock, crew: Crew
) -> Door | Feed:
    """Of a pipeline; the arguments of a ``Door``."""
    if isinstance(pipeline, OverAnswers):
        return Feed(tables, pipeline, clock)
    return Door(tables, pipeline, home, clock, crew)
