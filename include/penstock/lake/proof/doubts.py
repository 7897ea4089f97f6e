"""What stands against a step's quality target, in words: why it may not hold.

Four things are told apart: K is not known yet; nothing has been fed back yet; answers hold so few
records that a single late one is too much; late values differ from others, so that coverage says
less than it seems. Each sentence says what, by which figures, and what can be done. What was
promised and what came of it is said by ``penstock.lake.proof.worth``.
"""

from collections.abc import Mapping, Sequence

from penstock.config.pipeline import Pipeline
from penstock.config.slack import Quality
from penstock.control.spoken import spoken
from penstock.core.errors import ConfigError
from penstock.core.measure import Function
from penstock.core.patient import Patient
from penstock.core.step import StepSpec
from penstock.lake.history.position import Position, position
from penstock.lake.proof.figures import LEAST_WINDOWS, Figures, fed_back, figures_of
from penstock.lake.proof.present import patients_at
from penstock.lake.storage.tables import Tables

APART = 0.25
"""Late values that differ by more from all values are worth a word."""
OF_VALUES = {Function.SUM, Function.AVG}
"""Measures that heavier or lighter late values put off by another share than they are missing."""
ROUNDING = 1e-9


def all_doubts(tables: Tables, pipeline: Pipeline) -> list[str]:
    """Of every step, each with the step's name."""
    return [
        f"{step.name}: {said}."
        for step in pipeline.specs
        for said in doubts(tables, pipeline, step)
    ]


def doubts(tables: Tables, pipeline: Pipeline, step: StepSpec) -> list[str]:
    """Of a step with a quality target, a sentence each; none: nothing stands against it."""
    quality = pipeline.steps[step.name].quality
    at = None if quality is None else position(tables, step)
    if quality is None or at is None:
        return []
    found = warming(tables, step, at)
    every = fed_back(tables, step, quality)
    try:
        measured = figures_of(tables, pipeline, step, at, every)
    except ConfigError as meaningless:
        return [*found, f"no feedback: {str(meaningless).rstrip('.')}"]
    if measured is None:
        return [*found, no_feedback(len(every), quality, pipeline.name)]
    return found + told(measured, quality, step)


def warming(tables: Tables, step: StepSpec, at: Position) -> list[str]:
    """Where K is the greatest lateness so far, as too few windows are final."""
    several = len(step.streams) > 1
    return [
        unknown(known, f" in {stream}" if several else "")
        for stream, known in patients_at(tables, step, at).items()
        if not known.steady
    ]


def unknown(known: Patient, where: str = "") -> str:
    """How far a controller is from knowing K; ``where``: of what, instead of the stream."""
    return (
        f"K is not known yet: {len(known.slacks)} of {known.enough} windows are final{where}; until"
        " then it is the greatest lateness so far, and nothing is promised. It comes with more"
        " windows"
    )


def no_feedback(recorded: int, quality: Quality, pipeline: str) -> str:
    """Too few windows were corrected to say what came of the target."""
    of = f" with answers of {quality.least} records or more" if quality.least > 1 else ""
    return (
        f"no feedback yet: {recorded} of {LEAST_WINDOWS} corrected windows{of} are recorded, so"
        " that what values and lateness have to do with each other is not known. Let"
        f" correct__{pipeline} run"
    )


def told(found: Figures, quality: Quality, step: StepSpec) -> list[str]:
    """What measured figures say."""
    return [*few(found.records, quality, step), *values_decide(found.late)]


def values_decide(late: Mapping[str, float]) -> list[str]:
    """A warning for each measure: ``late`` is the mean of late values over that of all."""
    return [
        f"values decide lateness: late values of {measure} are {ratio:.3g} times as great as all,"
        " so that coverage alone says too little of its error. What corrections find raises the"
        " threshold; until then, or if it does not help, give it a target of its own"
        for measure, ratio in late.items()
        if abs(ratio - 1) > APART
    ]


def few(records: int, quality: Quality, step: StepSpec) -> Sequence[str]:
    """Where one missing record is too much for a count or a sum, or one missing pair."""
    if quality.of == "pairs":
        pairs = records // 2
        if pairs * quality.epsilon > 1 + ROUNDING:
            return []
        return [
            f"too few pairs: a typical window of {spoken(step.window.size)} holds {pairs:,}, so"
            f" that a single missing one puts it off by {1 / max(pairs, 1):.1%}. A wider condition"
            " or a greater epsilon helps"
        ]
    bound = [
        target.epsilon
        for measure, target in quality.targets(step.judged)
        if measure.function in (Function.COUNT, Function.SUM)
    ]
    if not bound or records * min(bound) > 1 + ROUNDING:
        return []
    what, remedy = "window", "Longer windows or a greater epsilon help"
    if quality.of == "answer":
        what, remedy = "answer", "Longer windows, fewer keys, a greater least or epsilon help"
    return [
        f"too few records: a typical {what} holds {records:,}, so that a single late one puts it"
        f" off by {1 / max(records, 1):.1%}, and K waits for all of them. {remedy}"
    ]
