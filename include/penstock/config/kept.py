"""The last definition of each pipeline: it stays in force while its file has problems.

Or, where that is asked for, while its edit waits for approval: then it is built beside it first.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.config.catalog import (
    Catalog,
    file_state,
    gone_logs,
    read_copy,
    read_file,
    read_pipeline,
)
from penstock.config.held import waiting
from penstock.config.linked import LinkedPipeline
from penstock.config.links import link_to, linked
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem
from penstock.config.settings import Settings
from penstock.config.shares import changing, remember, shared, shares_of
from penstock.config.versions import definition_in, fits, is_built, versions
from penstock.config.whole import alike, take_place, write_whole, written
from penstock.core.crash import reached
from penstock.core.errors import ConfigError
from penstock.core.version import FORMER, NEXT, version_of

LASTING = (PermissionError, IsADirectoryError)
"""A kept definition that no next try can read: it is missing to its own pipeline, and to no other.

While an error may pass whoever reads fails, and tries again.
"""


def catalog_in_force(settings: Settings) -> Catalog:
    """All pipelines: those of valid files, and of the others as their files last were valid.

    Only a file that is there and has problems is stood in for: one that was removed, or has
    another name, is meant to be gone. Steps know their runs.
    """
    found = _in_force(settings)
    shared(found.every, shares_of(settings))
    return found


def catalog_to_run(settings: Settings) -> Catalog:
    """The same, for whoever runs steps: which runs they have is remembered first."""
    with changing(settings):
        found = _in_force(settings)
        remember(settings, shared(found.every, shares_of(settings)))
    return found


def read_files(settings: Settings) -> Catalog:
    """What the files say now; a log stays as its file said it while others stand on it."""
    return Catalog.read(settings.pipelines, lambda name: _gone(settings, name))


def _gone(settings: Settings, name: str) -> Pipeline | None:
    """What a file that is not there any more last said of a log."""
    found = _kept(settings, settings.pipelines / f"{name}.yaml", name)
    return None if isinstance(found, LinkedPipeline) else found


def state_in_force(settings: Settings) -> tuple[object, ...]:
    """Changes when the catalog in force may; much cheaper than reading it."""
    return file_state(settings.pipelines), file_state(_folder(settings))


def _in_force(settings: Settings) -> Catalog:
    read, standing_in = _whole(settings, read_files(settings))
    held = _held(settings, read, standing_in) if settings.approve else {}
    logs, every, astray = _together(settings, read, standing_in, held)
    while lost := held.keys() - {each.name for each in every}:  # nothing is left to wait beside
        held = {name: former for name, former in held.items() if name not in lost}
        logs, every, astray = _together(settings, read, standing_in, held)
    names = {log.name for log in logs}
    pipelines = sorted((each for each in every if each.name not in names), key=lambda p: p.name)
    errors = tuple(dict.fromkeys((*read.errors, *astray)))
    former = {each.name for each in standing_in} & {each.name for each in pipelines}
    return Catalog(
        tuple(pipelines), errors, frozenset(former), frozenset(held),
        tuple(versions(_folder(settings), pipelines, logs)), logs,
    )  # fmt: skip


def _together(
    settings: Settings, read: Catalog, standing_in: list[Pipeline], held: Mapping[str, Pipeline]
) -> tuple[tuple[Pipeline, ...], list[Pipeline], list[ConfigProblem]]:
    """The logs whose files are gone, all that can be in force together, and why the others not."""
    mine = (held.get(pipeline.name, pipeline) for pipeline in read.pipelines)
    logs = _logs(settings, read, [*standing_in, *held.values()])
    return logs, *linked([*mine, *standing_in, *logs])


def _whole(settings: Settings, read: Catalog) -> tuple[Catalog, list[Pipeline]]:
    """What valid files say, and what stands in for the others: a file is valid as a whole."""
    wrong = sorted({problem.path for problem in read.errors})
    stay = tuple(pipeline for pipeline in read.pipelines if pipeline.path not in wrong)
    taken, standing_in = {pipeline.name for pipeline in stay}, list[Pipeline]()
    errors = [*read.errors]
    for path in wrong:
        try:
            formers = _formers(settings, path, taken)
        except LASTING as away:
            said = f"what it last said cannot be read: {away.filename}: {away.strerror}"
            errors.append(ConfigProblem(path, 1, "file", said, "See to both files"))
        else:
            taken |= {former.name for former in formers}
            standing_in += formers
    return replace(read, pipelines=stay, errors=tuple(errors)), standing_in


def _formers(settings: Settings, path: Path, taken: Container[str]) -> list[Pipeline]:
    """The pipelines that a file was when it last was valid, as kept; but for names taken."""
    with suppress(FileNotFoundError):
        once = read_file(path, kept_file(settings, path.stem))[0]
        kept = (_kept(settings, path, each.name) for each in once if each.name not in taken)
        return [former for former in kept if former is not None]
    return []


@dataclass(frozen=True, slots=True)
class PutOut:
    """A pipeline whose file has problems, and whose last valid definition cannot be in force.

    Attributes:
        pipeline: that definition, linked to nobody.
        why: in words.
    """

    pipeline: Pipeline
    why: str


def put_out(settings: Settings, catalog: Catalog) -> dict[str, PutOut]:
    """Those that are not in force although they once were, by name: another file puts them out.

    Args:
        settings: where definitions are kept.
        catalog: the one in force, or the one that would be.
    """
    ready, found = {each.name: each for each in (*catalog.pipelines, *catalog.logs)}, {}
    for path in sorted({problem.path for problem in catalog.errors}):
        with suppress(*LASTING):  # which is one of the catalog's problems
            for former in _formers(settings, path, ready):
                found[former.name] = PutOut(former, _why_out(settings, former, ready))
    return found


def _why_out(settings: Settings, former: Pipeline, ready: Mapping[str, Pipeline]) -> str:
    """What a definition that was valid does not fit; lines are those of its file as it is now."""
    if not isinstance(former, LinkedPipeline):
        return "its last valid definition cannot be in force"
    below = former.source.pipeline
    if below not in ready:
        return f"what it stands on is not in force: {below}"
    why = [
        f"{each.path.name}:{each.line} {each.where} {each.problem}"
        if alike(each.path, kept_file(settings, former.name)) else f"{each.where} {each.problem}"
        for each in link_to(former, ready)
    ]  # fmt: skip
    file = ready[below].path.name
    return f"its last valid definition does not fit what {file} says now ({'; '.join(why)})"


def catalog_of_files(settings: Settings, in_force: Catalog) -> Catalog:
    """What would be in force if no edit waited."""
    if not in_force.held:
        return in_force
    return _in_force(settings.model_copy(update={"approve": False}))


def _logs(settings: Settings, read: Catalog, former: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """On which pipelines stand, and no file says any more; also by former definitions."""
    there = {pipeline.path.stem for pipeline in read.pipelines}
    there |= {problem.path.stem for problem in read.errors} | {log.name for log in read.logs}
    return (*read.logs, *gone_logs(former, there, lambda name: _gone(settings, name)))


def _held(settings: Settings, read: Catalog, others: Sequence[Pipeline]) -> dict[str, Pipeline]:
    """What stays in force of those whose edit waits, by name; it is linked to nobody yet."""
    kept = {each.name: _kept(settings, each.path, each.name) for each in read.pipelines}
    former = {each.name: found for each in read.pipelines
              if (found := kept[each.name]) is not None and found.said != each.said}  # fmt: skip
    if not former:
        return {}
    files, new = [*read.pipelines, *others], {name for name, found in kept.items() if not found}
    logs = _logs(settings, read, [*others, *former.values()])
    waits = waiting(files, former, logs, shares_of(settings), new)
    return {each.name: former[each.name] for each in read.pipelines if each.name in former
            and (each.name in waits or is_built(_folder(settings), each))}  # fmt: skip


def build(settings: Settings, name: str, digest: str) -> Pipeline | None:
    """Let the definition of a pipeline's file run beside the one in force.

    Returns:
        The version; none: it says another log, and there is nothing to build beside.

    Raises:
        ConfigError, UnknownPipelineError: as ``approve``.
    """
    version = version_of(name, NEXT)
    edited, file = _edited(settings, name, digest), kept_file(settings, version)
    in_force = {each.name: each for each in catalog_in_force(settings).pipelines}
    if name not in in_force or not fits(edited, in_force[name]):
        return None
    reached("before next")
    with _checked(edited, file) as fresh:
        take_place(fresh, file)
    reached("after next")
    found = {each.name: each for each in catalog_to_run(settings).versions}
    if version not in found:
        file.unlink(missing_ok=True)
    return found.get(version)


def approve(settings: Settings, name: str, digest: str) -> None:
    """Let the definition of a pipeline's file be in force: readers switch to what it runs.

    What was in force before is a version from then on, if it fits the log.

    Raises:
        ConfigError: the file says something else than what was approved.
        UnknownPipelineError: it is gone, or has problems.
    """
    edited, kept = _edited(settings, name, digest), kept_file(settings, name)
    found = catalog_in_force(settings)
    now = [each for each in found.pipelines if each.name == name and name in found.held]
    with _checked(edited, kept) as fresh:
        if any(fits(each, edited) for each in now):
            reached("before former")
            write_whole(kept_file(settings, version_of(name, FORMER)), kept.read_bytes())
            reached("after former")
        take_place(fresh, kept)
    reached("after switch")
    kept_file(settings, version_of(name, NEXT)).unlink(missing_ok=True)


def take_back(settings: Settings, name: str) -> None:
    """Let what was in force before the last switch be so again; the edit is a version then.

    Raises:
        ConfigError: there is no such version, or edits are followed by themselves.
        UnknownPipelineError: there is no such pipeline, or its file has problems.
    """
    file, former = read_files(settings).pipeline(name), version_of(name, FORMER)
    catalog, kept = catalog_in_force(settings), kept_file(settings, former)
    if alike(kept, kept_file(settings, name)) or (name in catalog.held and not kept.is_file()):
        kept.unlink(missing_ok=True)  # it is done
        return
    known = {each.name for each in catalog.versions}
    if former not in known:
        raise ConfigError(
            f"{name} has no former version. There are: {', '.join(sorted(known)) or 'none'}"
        )
    if not settings.approve:
        raise ConfigError(f"edits of files are followed by themselves: change {file.path} back")
    if name not in catalog.held:
        with _checked(file, edit := kept_file(settings, version_of(name, NEXT))) as fresh:
            take_place(fresh, edit)
    reached("before taken back")
    write_whole(kept_file(settings, name), kept.read_bytes())
    reached("after taken back")
    kept.unlink()


def _edited(settings: Settings, name: str, digest: str) -> Pipeline:
    """What a pipeline's file says, as it was planned."""
    pipeline = read_files(settings).pipeline(name)
    if pipeline.digest != digest:
        raise _edited_since(pipeline)
    return pipeline


def _edited_since(pipeline: Pipeline) -> ConfigError:
    return ConfigError(
        f"{pipeline.path} was edited since that was planned. Trigger apply__topology again"
    )


def keep(settings: Settings, catalog: Catalog) -> None:
    """Remember the definitions that are in use; does nothing for those that are known already."""
    for pipeline in catalog.pipelines:
        if pipeline.name not in catalog.standing_in | catalog.held:
            _copy(pipeline, kept_file(settings, pipeline.name))


def _copy(pipeline: Pipeline, copy: Path) -> None:
    """Keep what a pipeline's file holds, if that is not known already."""
    if not alike(pipeline.path, copy):
        with suppress(ConfigError), _checked(pipeline, copy) as fresh:
            take_place(fresh, copy)


@contextmanager
def _checked(pipeline: Pipeline, copy: Path) -> Iterator[Path]:
    """A draft of a copy of a pipeline's file, which says what was read of it.

    Raises:
        ConfigError: it was edited meanwhile.
    """
    fresh = written(copy, pipeline.path.read_bytes())
    try:
        found, _ = read_pipeline(pipeline.path, fresh, pipeline.name)
        if found is None or found.said != pipeline.said:
            raise _edited_since(pipeline)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def kept_file(settings: Settings, name: str) -> Path:
    """Where the definition of a pipeline that is in force, or of a version, is kept."""
    return definition_in(_folder(settings), name)


def _folder(settings: Settings) -> Path:
    return settings.home / "definitions"


def _kept(settings: Settings, path: Path, name: str) -> Pipeline | None:
    return read_copy(path, kept_file(settings, name), name)
