"""The correction runner: recomputes frozen plans with the functions of the speed layer.

It recomputes from ``events`` up to the plan's position and appends; a reader prefers the answer
that has seen most of the log. Chunks are committed under (plan, cut, chunk), without the answers
that the plan has already under another cut: killing it anywhere and running it again, by another
release, too, appends nothing twice and leaves nothing out.
"""

import logging
from datetime import datetime

from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.step import StepSpec, of_each
from penstock.lake.history.correction import Planner
from penstock.lake.history.generation import current
from penstock.lake.history.registry import Registry
from penstock.lake.history.sealed import last_sealed
from penstock.lake.proof.covered import Recorder
from penstock.lake.storage.tables import Tables
from penstock.spark.corrector import Corrected, Corrector
from penstock.spark.measured import propose_threshold
from penstock.spark.prefix import SparkPrefix

log = logging.getLogger(__name__)


def correct_pipeline(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    clock: Clock,
    run_id: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    recheck: bool = False,
) -> Corrected:
    """Plan and correct every step of a pipeline.

    Raises:
        PenstockError: some steps failed; the others are corrected.
    """

    def corrected(step: StepSpec) -> Corrected:
        planner = Planner(tables, step, clock, run_id)
        corrector = Corrector(SparkPrefix(spark, tables, pipeline, step), tables, step, clock)
        one = corrector.run_all(planner, planner.due(since, until, recheck=recheck))
        targeted = pipeline.steps[step.name].quality is not None
        is_off = targeted or not (step.by_key or step.above)  # else nothing came too late
        if since is None and until is None and is_off:
            Recorder(tables, pipeline, step, clock).record()
            propose_threshold(tables, pipeline, step, clock)
        return one

    done, failed = of_each(pipeline.specs, corrected)
    if failed is not None:
        raise failed
    return Corrected(sum(one.answers for one in done), sum(one.changed for one in done))


def start_epochs(tables: Tables, pipeline: Pipeline, clock: Clock) -> None:
    """Make what is in the log the history of every step that has not sealed anything yet.

    Its epoch begins anew only where the log or the pipeline file has changed since.
    """
    registry = Registry(tables, clock, pipeline)
    for step in pipeline.specs:
        found = current(tables, step)
        if found is None:
            registry.begin_epoch(step, "preload")
        elif not last_sealed(tables, step, found[0].number):
            registry.begin_epoch(step, "preload", former=found[0])
