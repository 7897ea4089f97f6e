"""Which log has the answers that a pipeline is over: pipelines over the same answers have one.

So what is above a shared step is shared, too: whole chains run once for all who ask the same (EMR,
JSP). A log has answers of one run, of one meaning, for ever. Whoever is over others from then on
leaves it to those who are not, and begins on a log of its own.
Docs: docs/decisions/0062-pipelines-over-the-same-answers.md.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from penstock.config.answers import OverAnswers
from penstock.config.linked import LinkedPipeline
from penstock.config.pipeline import Pipeline
from penstock.core.version import pipeline_of

OVER = ""
"""What a log holds that nobody can stand on any more: its run means something else by now."""
BETWEEN = "/"
"""Between the name of a log and that of a run."""
AGAIN = "~"
"""Between the name of a pipeline and the number of its log; no pipeline's name has it."""


@dataclass(frozen=True, slots=True)
class Lodging:
    """That a pipeline stands, or stood, on a log.

    Attributes:
        log: has answers.
        pipeline: that takes them.
        run: whose answers they are, with its log.
        meaning: of that run.
        holds: names what the log has of them.
    """

    log: str
    pipeline: str
    run: str
    meaning: str
    holds: str

    @property
    def over(self) -> "Lodging":
        """The same once its run has ended: what that answers from then on does not follow."""
        return replace(self, holds=OVER)

    def is_over(self, log: str, steps: Collection[str] | None) -> bool:
        """Whether the answers are those of some runs on a log; none: of any there."""
        place, _, run = self.run.partition(BETWEEN)
        return place == log and (steps is None or run in steps)


def floor(pipeline: Pipeline) -> int:
    """How many times the records of a pipeline are answers of others."""
    above = 0
    while isinstance(pipeline, LinkedPipeline):
        above += isinstance(pipeline, OverAnswers)
        pipeline = pipeline.other
    return above


def runs_of(pipelines: Iterable[Pipeline]) -> dict[str, str]:
    """What each run of some pipelines means, which know their runs."""
    return {_run(each.log, step.id): step.fingerprint for each in pipelines for step in each.specs}


def lodged(
    pipelines: Iterable[OverAnswers], known: Iterable[Lodging], runs: Mapping[str, str]
) -> tuple[Lodging, ...]:
    """Give each pipeline its log.

    Args:
        pipelines: over answers of steps that know their runs; they know their logs from then on.
        known: what holds so far; of pipelines that are gone, too.
        runs: what each run means that there is.

    Returns:
        What holds now of these pipelines and logs.
    """
    found = [each.over if runs.get(each.run, each.meaning) != each.meaning else each
             for each in known]  # fmt: skip
    for pipeline in sorted(pipelines, key=lambda each: each.name):
        name, over, holds = pipeline_of(pipeline.name), pipeline.over, pipeline.log_digest
        same = [each for each in found if each.holds == holds]
        mine = [each for each in same if each.pipeline == name]
        taken = {each.log for each in found}
        log = (mine or same)[0].log if same else _free(name, taken)
        if not mine:
            run = _run(pipeline.other.log, over.id)
            found.append(Lodging(log, name, run, over.fingerprint, holds))
        pipeline.stand_on(log)
    return tuple(found)


def _run(log: str, run: str) -> str:
    return f"{log}{BETWEEN}{run}"


def _free(name: str, taken: Collection[str]) -> str:
    """A name for a log that nobody has."""
    every = (f"{name}{AGAIN}{n}" if n > 1 else name for n in count(1))
    return next(each for each in every if each not in taken)
