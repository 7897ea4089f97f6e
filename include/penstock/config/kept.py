"""The last definition of each pipeline: it stays in force while its file has problems.

Or, where that is asked for, while its edit waits for approval.
"""

import os
from pathlib import Path

from penstock.config.catalog import Catalog, file_state, read_pipeline
from penstock.config.linked import link_as
from penstock.config.links import linked
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import changing, remember, shared, shares_of
from penstock.core.errors import ConfigError


def catalog_in_force(settings: Settings) -> Catalog:
    """All pipelines: those of valid files, and of the others as their files last were valid.

    Only a file that is there and has problems is stood in for: one that was removed, or has
    another name, is meant to be gone. Steps know their runs.
    """
    found = _in_force(settings)
    shared(found.pipelines, shares_of(settings))
    return found


def catalog_to_run(settings: Settings) -> Catalog:
    """The same, for whoever runs steps: which runs they have is remembered first."""
    with changing(settings):
        found = _in_force(settings)
        remember(settings, shared(found.pipelines, shares_of(settings)))
    return found


def state_in_force(settings: Settings) -> tuple[object, ...]:
    """Changes when the catalog in force may; much cheaper than reading it."""
    return file_state(settings.pipelines), file_state(_folder(settings))


def _in_force(settings: Settings) -> Catalog:
    read = Catalog.read(settings.pipelines)
    valid = {pipeline.name for pipeline in read.pipelines}
    standing_in = []
    for path in sorted({problem.path for problem in read.errors}):
        if path.stem not in valid and (former := _kept(settings, path)) is not None:
            valid.add(former.name)
            standing_in.append(former)
    held = {} if not settings.approve else {
        pipeline.name: former for pipeline in read.pipelines
        if not _same(pipeline.path, kept_file(settings, pipeline.name))
        and (former := _kept(settings, pipeline.path)) and _computes_anew(former, pipeline)
    }  # fmt: skip
    mine = (held.get(pipeline.name, pipeline) for pipeline in read.pipelines)
    every, astray = linked([*mine, *standing_in])
    pipelines = sorted(every, key=lambda pipeline: pipeline.name)
    errors = tuple(dict.fromkeys((*read.errors, *astray)))
    return Catalog(
        tuple(pipelines), errors, frozenset(p.name for p in standing_in), frozenset(held)
    )


def _computes_anew(former: Pipeline, now: Pipeline) -> bool:
    """Whether steps mean something else than before, so that their past is computed again."""
    try:
        link_as(former, now)
    except ValueError:  # it stands on another one, which has other columns now
        return True
    known = {step.name: step.fingerprint for step in former.own_specs}
    return any(known.get(step.name) != step.fingerprint for step in now.own_specs)


def approve(settings: Settings, name: str, digest: str) -> None:
    """Let the definition of a pipeline's file be in force.

    Raises:
        ConfigError: the file says something else than what was approved.
        UnknownPipelineError: it is gone, or has problems.
    """
    pipeline = Catalog.read(settings.pipelines).pipeline(name)
    if pipeline.digest != digest:
        raise ConfigError(
            f"{pipeline.path} was edited since that was planned. Trigger apply__topology again"
        )
    keep(settings, Catalog((pipeline,)))


def keep(settings: Settings, catalog: Catalog) -> None:
    """Remember the definitions that are in use; does nothing for those that are known already.

    What is kept is read again before it counts: its file may be edited meanwhile.
    """
    for pipeline in catalog.pipelines:
        copy = kept_file(settings, pipeline.name)
        if pipeline.name in catalog.standing_in | catalog.held or _same(pipeline.path, copy):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        fresh = copy.with_name(f".{copy.name}.{os.getpid()}")
        try:
            with fresh.open("wb") as file:
                file.write(pipeline.path.read_bytes())
                file.flush()
                os.fsync(file.fileno())
            found, _ = read_pipeline(pipeline.path, fresh)
            if found is None:
                continue
            link_as(found, pipeline)
            if found.digest == pipeline.digest:
                fresh.replace(copy)
        finally:
            fresh.unlink(missing_ok=True)


def kept_file(settings: Settings, name: str) -> Path:
    """Where a pipeline's last valid definition is."""
    return _folder(settings) / f"{name}.yaml"


def _folder(settings: Settings) -> Path:
    return settings.home / "definitions"


def _kept(settings: Settings, path: Path) -> Pipeline | None:
    copy = kept_file(settings, path.stem)
    return read_pipeline(path, copy)[0] if copy.is_file() else None


def _same(path: Path, copy: Path) -> bool:
    try:
        return path.read_bytes() == copy.read_bytes()
    except OSError:
        return False
