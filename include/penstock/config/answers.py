"""A pipeline over the answers of another pipeline's step, and what can be wrong with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from penstock.config.intake import RESERVED, Definition, Intake
from penstock.config.linked import LinkedPipeline, OfPipeline, near, nothing_called, problem
from penstock.config.model import Name, digest_of
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.core.expression import columns_of
from penstock.core.measure import ColumnType
from penstock.core.step import Above, StepSpec
from penstock.core.version import pipeline_of

COUNT = "n_records"
OWN = {"source", "columns"}
"""Of what is said of a source that is read, what is said here, too."""
UNSAID = {
    "slack": "answers come in the order of their windows, and nothing is waited for",
    "quality": "no answer comes late, and each is as good as those that it is made of",
    "shed": "nothing but what a correction has changed is left to the correction",
}
"""What steps over answers do not say, and why."""
Lines = dict[Loc, int]


class Answers(OfPipeline):
    """Where records come from: the answers of a step, as they are given, and as they change."""

    step: Name = Field(description="Its step, an aggregate or a latest.")


class OverAnswers(LinkedPipeline):
    """A pipeline whose records are answers; its watermark is that of the step above."""

    source: Answers = Field(description="Whose answers its records are.")
    event_time: Literal["window_end"] = Field(default="window_end", exclude=True)
    _log: str = PrivateAttr(default="")

    @field_validator(*(Intake.model_fields.keys() - OWN), mode="before")
    @classmethod
    def _is_of_events(cls, value: Any, info: ValidationInfo) -> Any:
        del value
        raise ValueError(f"{info.field_name} says how events are read. Delete it")

    @classmethod
    def reserved(cls) -> Sequence[str]:
        """None by themselves: answers keep their names, and whose these are is known later."""
        return ()

    @property
    def over(self) -> StepSpec:
        """The step whose answers it takes.

        Raises:
            ConfigError: nobody has said of which pipeline that is.
        """
        return self.other.spec(self.source.step)

    @property
    def log(self) -> str:
        """That of its own name, unless it was told to stand on another one."""
        return self._log or super().log

    def link(self, other: Pipeline) -> None:
        """As of any other; which log it stands on is to be said again."""
        super().link(other)
        self._log = ""

    def stand_on(self, log: str) -> None:
        """Say which log has the answers that it takes (``config.feeds``)."""
        self._log, self._specs = log, None
        self.__dict__.pop("own_specs", None)

    @property
    def types(self) -> dict[str, ColumnType]:
        """Type of each declared column, and of the keys, which tell answers apart."""
        keys = {} if self._other is None else {key.name: key.type for key in self.over.keys}
        return keys | {name: column.type for name, column in self.columns.items()}

    def is_live(self, streams: Sequence[str] = ()) -> bool:
        """Whether what it stands on is; of itself it has one stream."""
        del streams
        return self.other.is_live()

    def said_at(self, part: str) -> Loc:
        """Where the file says whose answers it takes: the pipeline or the step."""
        return ("source", part)

    def nothing_above(self, ready: Iterable[str], every: Iterable[str]) -> tuple[str, str]:
        """What is wrong, and the remedy, where what it takes the answers of is not there."""
        return nothing_called(self.source.pipeline, self.path, ready, every)

    def unread(self) -> list[ConfigProblem]:
        """What is wrong with its steps, and could not be seen before it was linked."""
        return []

    def placed(self, step: StepSpec) -> StepSpec:
        """It knows whose answers it takes, and on another's log the name of its pipeline."""
        name = pipeline_of(self.name)
        above = Above(self.over.fingerprint, self.over.key_names)
        return replace(step, above=above, guest="" if self.log == name else name)

    @property
    def definitions(self) -> dict[str, Definition]:
        """None: no door reads what it takes."""
        return {}

    @cached_property
    def digest(self) -> str:
        """Names the content of the file, and the definition above it."""
        content = self.model_dump_json(exclude={"snapshots": True}) + self.over.fingerprint
        return digest_of(content)

    @property
    def log_digest(self) -> str:
        """Names whose answers its log holds, and which columns of them: of one run, whoever asks.

        Logs of equal digests are the same.
        """
        said = self.model_dump_json(include={"micro_batch"})
        over = f"{self.other.log} {self.over.id} {self.over.fingerprint}"
        return digest_of(f"{over} {sorted(self.types.items())} {said}")


def columns_of_answers(step: StepSpec) -> dict[str, ColumnType]:
    """What can be taken of a step's answers."""
    found = {column.name: column.type for column in step.given}
    return found | {COUNT: ColumnType.LONG}


def of_every_log(names: Iterable[str]) -> list[str]:
    """Those of some names that no log can have for an answer's column: it has one itself."""
    return [name for name in names if name.lower() in RESERVED]


def _kept(pipeline: OverAnswers, above: Pipeline) -> Iterator[ConfigProblem]:
    """Audits compose what a step over answers must say from all events there were."""
    for one in (pipeline, above):
        if one.keep is not None:
            said = f"{one.name} keeps records for a while, and audits here go back to the first"
            where: Loc = ("keep",) if one.path == pipeline.path else pipeline.said_at("pipeline")
            yield problem(pipeline, where, said, "Delete keep")


def without_slack(content: dict[Any, Any], pipeline: Any, lines: Lines) -> list[ConfigProblem]:
    """Let the steps of a file wait for nobody; what they say of that is wrong."""
    steps, found = content.get("steps"), []
    for name, step in (steps if isinstance(steps, dict) else {}).items():
        if not isinstance(step, dict):
            continue
        for key in (name for name in UNSAID if name in step):
            where: Loc = ("steps", name, key)
            del step[key]
            found.append(ConfigProblem(pipeline, line_in(where, lines), dots(where), UNSAID[key],
                                       f"Delete {key}"))  # fmt: skip
        step["slack"] = {"fixed": "PT0S"}
    return found


def wrong_answers(
    pipeline: OverAnswers, ready: Mapping[str, Pipeline], every: Iterable[str]
) -> Iterator[ConfigProblem]:
    """Link it to the pipeline above, and say what is wrong with that.

    Args:
        pipeline: not linked yet.
        ready: pipelines that are, or need not be.
        every: names of those that are read.
    """
    source = pipeline.source
    above = ready.get(source.pipeline)
    if above is None:
        astray = pipeline.nothing_above(ready, every)
        yield problem(pipeline, pipeline.said_at("pipeline"), *astray)
        return
    step = next((spec for spec in above.specs if spec.name == source.step), None)
    if step is None:
        said = f"{above.name} has no step {source.step}"
        yield problem(pipeline, pipeline.said_at("step"), said, near(source.step, above.steps))
        return
    if not step.is_taken:
        said = f"{step.name} is no aggregate over windows of a size, nor a latest of events, and"
        said += " only such are read"
        yield problem(pipeline, pipeline.said_at("step"), said, "Name another step")
        return
    pipeline.link(above)
    yield from _kept(pipeline, above)
    yield from _wrong_columns(pipeline, above, step)
    if wrong := pipeline.unread():
        yield from wrong
        return
    for spec in pipeline.specs:
        yield from _wrong_step(pipeline, spec, step)


def _wrong_pairs(pipeline: OverAnswers, spec: StepSpec) -> Iterator[ConfigProblem]:
    """What a step over answers cannot say of two of them."""
    where: Loc = ("steps", spec.name)
    if spec.declares or spec.looked_up:
        said = "side data and queries take effect at a door, and answers come through none"
        yield problem(pipeline, where, said, "Say it in the condition")
    for name in spec.by_arrival:
        said = f"{name} is by arrival, and an answer that is corrected comes again"
        yield problem(pipeline, where, said, "Compare by event time: earlier and later")


def _wrong_columns(
    pipeline: OverAnswers, above: Pipeline, step: StepSpec
) -> Iterator[ConfigProblem]:
    known = columns_of_answers(step)
    for name, column in pipeline.columns.items():
        where: Loc = ("columns", name)
        taken = column.source or name
        if taken not in known:
            said = f"{taken} is no column of the answers of {step.name}"
            yield problem(pipeline, where, said, near(taken, known))
        elif of_every_log([taken]):
            said = f"{taken}: every log has a column of this name itself, and cannot have two"
            remedy = f"Rename the measure {taken} of {step.name} in {above.path.name}"
            yield problem(pipeline, where, said, remedy)
        elif name != taken:
            said = f"answers keep their names: {taken} cannot be called {name} here"
            yield problem(pipeline, where, said, f"Write {taken}: {known[taken]}")
        elif column.type is not known[name]:
            said = f"is {known[name]} in the answers of {step.name}, not {column.type}"
            yield problem(pipeline, where, said, f"Declare it as {known[name]}")


def _wrong_step(pipeline: OverAnswers, spec: StepSpec, step: StepSpec) -> Iterator[ConfigProblem]:
    """What a step over answers cannot be."""
    windows: Loc = ("steps", spec.name, pipeline.steps[spec.name].windows)
    if not spec.takes:
        said = f"{spec.kind}: such steps read no answers"
        yield problem(pipeline, ("steps", spec.name, "kind"), said, "Take another kind")
        return
    if spec.window.landmark:
        said = "windows since an instant read no answers"
        yield problem(pipeline, windows, said, "Give them a size, as in {size: P1D}")
        return
    yield from _wrong_pairs(pipeline, spec)
    slide, own = step.window.slide, spec.window
    apart = own.size % slide or own.slide % slide or (own.origin - step.window.origin) % slide
    if apart and not spec.by_key:
        said = f"windows of {step.name} would lie in two of its own: it moves by {slide / 1e6:g} s"
        yield problem(pipeline, windows, said, "Take multiples of that")
    called = type(pipeline.steps[spec.name]).model_fields["keys"].alias or "keys"
    for key in spec.key_names:
        if key not in step.key_names:
            said = f"{key} is no key of {step.name}, and may change when an answer is corrected"
            remedy = f"Its keys are: {', '.join(step.key_names) or 'none'}"
            yield problem(pipeline, ("steps", spec.name, called), said, remedy)
    for name in sorted(columns_of(spec.where) - {*step.key_names}):
        said = f"{name} is no key of {step.name}, and may change when an answer is corrected"
        yield problem(pipeline, ("steps", spec.name, "where"), said, "Compare keys alone")
