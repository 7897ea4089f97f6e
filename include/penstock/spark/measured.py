"""A coverage threshold that was measured reaches the controller: as a proposal."""

import logging
from dataclasses import replace

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.step import StepSpec
from penstock.lake.log.blocks import decisions_of
from penstock.lake.log.proposed import in_force, propose
from penstock.lake.proof.figures import figures
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

NOTICEABLE = 0.002
"""A threshold that differs by less is not worth a decision."""


def propose_threshold(tables: Tables, pipeline: Pipeline, step: StepSpec, clock: Clock) -> None:
    """Propose the measured threshold, if the one in force is noticeably another."""
    quality, tuning = pipeline.steps[step.name].quality, step.slack.tuning
    if quality is None or tuning is None:
        return
    found = figures(tables, pipeline, step)
    now = in_force(decisions_of(Table(tables.decisions()), step.id))
    if found is None or now is None or now.tuning is None or now.policy is not step.slack.policy:
        return
    threshold = found.threshold(quality, step.judged)
    if abs(threshold - now.tuning.threshold) <= NOTICEABLE:
        return
    spec = replace(step.slack, tuning=replace(tuning, threshold=threshold))
    propose(tables, step, spec, str(found), clock)
    log.info("step=%s proposed threshold=%.4f %s", step.id, threshold, found)
