"""``penstock validate --laws``: user code of a pipeline, tried on a sample of its source."""

from dataclasses import dataclass
from pathlib import Path

from penstock.config.linked import problem
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.kinds import has_part, part
from penstock.kinds.side import Sides, Version
from penstock.lake.ingest.sample import read_sample
from penstock.lake.ingest.side_files import places_of

ENOUGH = 5_000
"""Records of the sample."""
REMEDY = "Let it come to the same in any order and split, to the last bit"


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of the user code of a pipeline.

    Attributes:
        steps: names of the steps that have code.
        records: of the sample that it was tried on.
        broken: the laws that it does not keep, at the line that names it.
    """

    steps: tuple[str, ...]
    records: int
    broken: tuple[ConfigProblem, ...] = ()

    def __str__(self) -> str:
        """Of code that keeps the laws: on what it was tried; empty: there is none."""
        if not self.steps:
            return ""
        if not self.records:
            return f"code of {', '.join(self.steps)} not tried: the source has no record yet"
        return (
            f"code of {', '.join(self.steps)} tried on {self.records:,} records, in random splits"
            " and orders"
        )


def tried(pipeline: Pipeline, home: Path, clock: Clock) -> Tried:
    """Try the code of a pipeline on a sample of its source.

    Args:
        pipeline: as its file says it.
        home: where relative places start.
        clock: tells when records arrive that do not say it.
    """
    steps = [step for step in pipeline.specs if has_part(step.kind, "laws")]
    if not steps:
        return Tried((), 0)
    names, sample = tuple(s.name for s in steps), read_sample(pipeline, home, clock.now(), ENOUGH)
    if not len(sample.at):
        return Tried(names, 0)
    sides, found = _sides(pipeline, home), list[ConfigProblem]()
    for step in steps:
        try:
            broken = part(step.kind, "laws").tried(step, sample.at, sample.columns, sides)
            said, remedy = str(broken), REMEDY
        except PenstockError as failed:
            broken = failed
            said, remedy = str(failed), "Mend it"
        if broken is not None:
            found.append(problem(pipeline, ("steps", step.name, "code"), said, remedy))
    return Tried(names, len(sample.at), tuple(found))


def _sides(pipeline: Pipeline, home: Path) -> Sides:
    """What the files of side data hold now.

    Raises:
        ConfigError: they are not there, or cannot be used.
    """
    held = {}
    for place in places_of(pipeline, home):
        try:
            _, held[place.table] = place.read([path for path, *_ in place.stamps()])
        except (OSError, ValueError) as unfit:
            raise ConfigError(f"load.{place.table.name}: {unfit}") from unfit
    return lambda table, _: [Version(0, held[table])]
