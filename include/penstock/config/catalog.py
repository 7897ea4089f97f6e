"""All pipeline files of a folder: those that are valid, and every problem of those that are not."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from penstock.config import guest
from penstock.config.answers import OverAnswers, without_slack
from penstock.config.floors import Floor, parts
from penstock.config.guest import Guest
from penstock.config.linked import LinkedPipeline
from penstock.config.links import linked, misspelt, model_of
from penstock.config.model import SUFFIXES
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, line_in, problem_in
from penstock.config.readable import of_no_kind, readable_sides, readable_steps, readable_types
from penstock.config.snapshots import wrong_snapshots
from penstock.config.streams import SeveralSources, several
from penstock.config.view_names import hidden_views
from penstock.config.wrong_steps import wrong_steps
from penstock.config.yaml_file import Unreadable, read_yaml
from penstock.core.errors import ConfigError, TransientError
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of
from penstock.core.window import micros


class UnknownPipelineError(ConfigError):
    """No valid pipeline has this name."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known) or 'none'}."
        if " " in name:  # SQL, most likely
            hint = f"The pipeline comes first, as in: penstock query PIPELINE '{name}'. {hint}"
        super().__init__(f"no pipeline is called {name}. {hint} See: penstock validate")


class ConfigDriftError(TransientError):
    """The pipeline file changed between the scheduling of a job and its start."""

    def __init__(self, pipeline: str, expected: str, found: str) -> None:
        self.pipeline, self.expected, self.found = pipeline, expected, found
        super().__init__(
            f"{pipeline}: scheduled with file {expected}, started with {found}."
            " The next try takes the new file; after the last one, clear the task."
        )


@dataclass(frozen=True)
class Catalog:
    """What a folder of pipeline files says.

    Attributes:
        pipelines: those in force.
        errors: every problem of every file.
        standing_in: names of pipelines whose file has problems; their last valid definition is
            in force.
        held: names of those whose edit waits for approval; so is theirs.
        versions: definitions that run beside those in force (``core/version``).
        logs: what files of pipelines that are gone said of logs on which others stand.
    """

    pipelines: tuple[Pipeline, ...] = ()
    errors: tuple[ConfigProblem, ...] = field(default=())
    standing_in: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    versions: tuple[Pipeline, ...] = ()
    logs: tuple[Pipeline, ...] = ()

    @property
    def every(self) -> tuple[Pipeline, ...]:
        """All that run: pipelines and their versions."""
        return (*self.pipelines, *self.versions)

    @classmethod
    def read(cls, folder: Path, gone: Callable[[str], Pipeline | None] = lambda _: None) -> Self:
        """Read every pipeline file of a folder; one bad file never hides the others.

        Args:
            folder: of the files.
            gone: what a file that is not there any more last said of a log; none: not known.
        """
        pipelines: list[Pipeline] = []
        errors: list[ConfigProblem] = []
        paths = files_in(folder)
        for path in paths:
            found, problems = read_file(path)
            errors.extend(problems)
            if found and path.stem in {p.name for p in pipelines}:
                said = f"another file is called {path.stem} too"
                errors.append(ConfigProblem(path, 1, "file", said, "Rename one"))
            else:
                pipelines.extend(found)
        there = {path.stem for path in paths}
        logs = gone_logs(pipelines, there, gone)
        pipelines, astray = linked([*pipelines, *logs])
        mine = tuple(pipeline for pipeline in pipelines if pipeline.path.stem in there)
        return cls(mine, (*errors, *astray), logs=logs)

    def why_former(self, name: str) -> str:
        """Why a former definition of a pipeline is in force; empty: it is that of its file."""
        if name in self.held:
            return "its edit waits for apply__topology, its former definition stays in force"
        return "its last valid definition stays in force" if name in self.standing_in else ""

    def pipeline(self, name: str, digest: str | None = None) -> Pipeline:
        """The pipeline of that name.

        Args:
            name: of the pipeline, of a version, or of a log that others stand on.
            digest: of what a job was scheduled for: the file, or what that says of the log; none:
                whatever it says.

        Raises:
            UnknownPipelineError: there is none, or its file has problems.
            ConfigDriftError: the file says something else by now.
            ConfigError: its records would come among answers that others take.
        """
        for pipeline in (*self.every, *self.logs):
            if pipeline.name == name:
                self._require_no_answers_in(pipeline)
                if digest is not None and digest not in {pipeline.digest, pipeline.log_digest}:
                    raise ConfigDriftError(name, digest, pipeline.digest)
                return pipeline
        raise UnknownPipelineError(name, tuple(p.name for p in self.pipelines))

    def _require_no_answers_in(self, pipeline: Pipeline) -> None:
        """Its name may be that of a log that pipelines over the same answers have in common."""
        here = [] if isinstance(pipeline, OverAnswers) else [
            each.name for each in self.every
            if each.log == pipeline.log and isinstance(each, OverAnswers)
        ]  # fmt: skip
        if here:
            raise ConfigError(
                f"{pipeline.path}: the log {pipeline.log} has the answers that {', '.join(here)}"
                f" takes, and no records can come among them. Give {pipeline.log}.yaml another name"
            )

    def of_log(self, log: str, digest: str | None = None) -> Pipeline:
        """A pipeline that says what a log is: its own, or one of those that stand on its answers.

        Args:
            log: its name.
            digest: of what a job was scheduled for; none: whatever it is.

        Raises:
            UnknownPipelineError, ConfigDriftError: as ``pipeline``.
        """
        here = (each.name for each in self.pipelines
                if each.log == log and isinstance(each, OverAnswers))  # fmt: skip
        return self.pipeline(min(here, key=lambda name: (name != log, name), default=log), digest)


def gone_logs(
    pipelines: Iterable[Pipeline], there: Set[str], gone: Callable[[str], Pipeline | None]
) -> tuple[Pipeline, ...]:
    """Logs on which some pipelines stand, and that no file says any more.

    Args:
        pipelines: that may stand on others.
        there: names that need not be asked for.
        gone: as of ``Catalog.read``.
    """
    asked = {each.source.pipeline for each in pipelines if isinstance(each, Guest)} - there
    return tuple(log for name in sorted(asked) if (log := gone(name)) is not None)


def files_in(folder: Path) -> list[Path]:
    """The pipeline files of a folder; hidden ones are an editor's, or half written."""
    every = sorted(file for suffix in SUFFIXES for file in folder.glob(f"*{suffix}"))
    return [file for file in every if not file.name.startswith(".")]


def file_state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes when a pipeline file does; much cheaper than reading them."""
    found = []
    for file in files_in(folder):
        with suppress(FileNotFoundError):  # gone since it was listed
            state = file.stat()
            found.append((file.name, state.st_mtime_ns, state.st_size))
    return tuple(found)


def spec_of(pipeline: Pipeline, step: str) -> StepSpec:
    """One step of a pipeline.

    Raises:
        ConfigError: there is none of that name.
    """
    try:
        return pipeline.spec(step)
    except KeyError:
        known = ", ".join(pipeline.steps)
        meant = "".join(
            f" {step} is a step of {each.name}: name that in place of {pipeline.name}."
            for each in others_of(pipeline)
            if step in each.steps
        )
        raise ConfigError(
            f"{pipeline.name} has no step {step}. Its steps: {known}.{meant}"
        ) from None


def others_of(pipeline: Pipeline) -> list[Pipeline]:
    """What else its file is: floors, and what they stand on."""
    mine = pipeline_of(pipeline.name)
    return [each for each in read_file(pipeline.path)[0] if each.name != mine]


def read_pipeline(
    path: Path, copy: Path | None = None, name: str = ""
) -> tuple[Pipeline | None, list[ConfigProblem]]:
    """One pipeline of a file, if there is such a one, and the file's problems.

    Args:
        path: the file.
        copy: a file that holds what that one held.
        name: of the pipeline; empty: that of the file itself.

    Raises:
        OSError: the copy cannot be read.
    """
    found, problems = read_file(path, copy)
    return next((each for each in found if each.name == (name or path.stem)), None), problems


def read_copy(path: Path, copy: Path, name: str) -> Pipeline | None:
    """One pipeline of a file as a copy holds it; none: there is no such copy, or it has problems.

    Raises:
        OSError: it is there, and cannot be read.
    """
    with suppress(FileNotFoundError):
        return read_pipeline(path, copy, name)[0]
    return None


def read_file(path: Path, copy: Path | None = None) -> tuple[list[Pipeline], list[ConfigProblem]]:
    """The pipeline of a file and its floors, or all problems in the order of their lines.

    Args:
        path: the file that names the pipeline.
        copy: a file that holds what that one held.

    Raises:
        OSError: the copy cannot be read.
    """
    try:
        file = read_yaml(path, copy)
    except Unreadable as broken:
        return [], [broken.problem]
    content, lines = file.content, file.lines
    problems = [
        ConfigProblem(path, line_in((name,), lines), name, "unknown key", "Name the file instead")
        for name in ("name", "path")
        if name in content
    ]
    floors, astray = parts(content, path, lines)
    problems += [*astray, *misspelt(content, path, lines)]
    model = model_of(content) or (SeveralSources if "sources" in content else Pipeline)
    found = list[Pipeline]()
    for name, said in {path.stem: content, **floors}.items():
        said |= {"name": name, "path": path}
        one, wrong = _read(Floor if name in floors else model, said, lines)
        problems += [each for each in wrong if not (astray and each.where == "steps")]
        found += [] if one is None else [one]
    problems = [*file.wrong, *(each for each in problems if not _within(each, file.wrong))]
    return ([], sorted(problems, key=lambda p: p.line)) if problems else (found, [])


def _within(problem: ConfigProblem, others: Iterable[ConfigProblem]) -> bool:
    """Whether it hangs on what others say: once is enough."""
    return any(f"{problem.where}.".startswith(f"{other.where}.") for other in others)


def _read(
    model: type[Pipeline], content: dict[Any, Any], lines: dict[Loc, int]
) -> tuple[Pipeline | None, list[ConfigProblem]]:
    """One pipeline, or its problems."""
    path, twice, over = content["path"], list[ConfigProblem](), issubclass(model, OverAnswers)
    if over:
        twice += without_slack(content, path, lines)
    waits = guest.unsaid_slack(content) if model is Guest else []
    steps = readable_steps(content)
    twice += hidden_views(steps, path, lines, over_answers=over)
    try:
        pipeline = model.model_validate(content)
    except ValidationError as wrong:
        strange = of_no_kind(content)
        found = [problem_in(dict(e), path, lines, model) for e in wrong.errors()
                 if e["loc"][1:2] not in strange or e["loc"][-1] == "kind"]  # fmt: skip
        if model in {Guest, Floor}:  # whose columns are not known by themselves
            return None, [*twice, *found, *guest.no_slack(waits, path, lines)]
        types = readable_types(content)
        found += wrong_steps(steps, types, readable_sides(content), path, lines)
        return None, [*twice, *found]
    if isinstance(pipeline, Guest):
        pipeline.let_say(waits)
    if isinstance(pipeline, Guest | Floor):
        return (None, twice) if twice else (pipeline, [])
    types = {stream: intake.types for stream, intake in pipeline.intakes.items()}
    problems = [
        *twice,
        *several(pipeline, lines),
        *wrong_steps(pipeline.steps, types, {**pipeline.sides}, path, lines),
        *wrong_snapshots(pipeline.snapshots, types, path, lines),
    ]
    if not isinstance(pipeline, LinkedPipeline):  # whose steps are not known by themselves
        problems = problems or [*_kept_too_short(pipeline, lines), *_kept_for_ever(pipeline, lines)]
    return (None, problems) if problems else (pipeline, [])


def _kept_too_short(pipeline: Pipeline, lines: dict[Loc, int]) -> Iterator[ConfigProblem]:
    least, step = pipeline.least_kept
    if pipeline.keep is not None and micros(pipeline.keep) < least:
        reach = "reach" if pipeline.spec(step).by_reach else "window"
        said = f"records of open windows would go: the {reach} and slack of {step} are longer"
        span = TypeAdapter(timedelta).dump_python(timedelta(microseconds=least), mode="json")
        remedy = f"Keep at least {span}"
        yield ConfigProblem(pipeline.path, line_in(("keep",), lines), "keep", said, remedy)


def _kept_for_ever(pipeline: Pipeline, lines: dict[Loc, int]) -> Iterator[ConfigProblem]:
    every = (spec.name for spec in pipeline.specs if spec.by_key and not spec.by_reach)
    by_key = next(every, None)
    if pipeline.keep is not None and by_key is not None:
        said = f"{by_key} may compare a late record with any other of its key, however old"
        remedy = "Delete keep, or give the step a pipeline of its own"
        yield ConfigProblem(pipeline.path, line_in(("keep",), lines), "keep", said, remedy)
