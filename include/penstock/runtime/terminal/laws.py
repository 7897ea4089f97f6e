"""``penstock validate --laws``: user code of a pipeline, tried on a sample of its source."""

from pathlib import Path

from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem
from penstock.config.yaml_file import line_of
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.kinds import has_part, part
from penstock.lake.ingest.sample import read_sample

ENOUGH = 5_000
"""Records of the sample."""
REMEDY = "Let it come to the same in any order and split, to the last bit"


def broken_laws(pipeline: Pipeline, home: Path, clock: Clock) -> list[ConfigProblem]:
    """The laws that code of a pipeline does not keep, at the line that names it.

    Args:
        pipeline: as its file says it.
        home: where relative places start.
        clock: tells when records arrive that do not say it.
    """
    steps = [step for step in pipeline.specs if has_part(step.kind, "laws")]
    if not steps:
        return []
    sample = read_sample(pipeline, home, clock.now(), ENOUGH)
    found = []
    for step in steps:
        keys, path = ("steps", step.name, "code"), pipeline.path
        try:
            broken = part(step.kind, "laws").tried(step, sample.at, sample.columns)
            said, remedy = str(broken), REMEDY
        except PenstockError as failed:
            broken = failed
            said, remedy = str(failed), "Mend it"
        if broken is not None:
            found.append(ConfigProblem(path, line_of(path, keys), ".".join(keys), said, remedy))
    return found
