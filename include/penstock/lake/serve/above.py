"""What waits above a step over answers: its own answers wait with it."""

from collections.abc import Iterator

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.lake.history.correction import pending
from penstock.lake.history.position import position
from penstock.lake.log.blocks import next_block
from penstock.lake.over.taken import as_taken, taken_at
from penstock.lake.storage.tables import Tables


def waits_above(tables: Tables, pipeline: Pipeline) -> Iterator[tuple[str, str, int]]:
    """Pipeline, step, and how many of its answers wait, of every step above, as far as it is here.

    Args:
        tables: of the pipeline.
        pipeline: of any kind.
    """
    block = next_block(tables)
    while isinstance(pipeline, OverAnswers):
        taken, step = taken_at(tables, block), pipeline.over
        tables, pipeline = Tables(tables.lake, pipeline.other.log), pipeline.other
        at = position(tables, step)
        if at is None or not taken.is_of(step, at):
            return
        there = as_taken(tables, step, taken)
        yield pipeline.name, step.name, pending(tables, step, there).num_rows
        block = taken.block


def owed_above(tables: Tables, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Pipeline and step of every step above that owes its past: nothing comes from it before."""
    while isinstance(pipeline, OverAnswers):
        tables, step = Tables(tables.lake, pipeline.other.log), pipeline.over
        pipeline = pipeline.other
        at = position(tables, step)
        if at is not None and at.owes:
            yield pipeline.name, step.name
