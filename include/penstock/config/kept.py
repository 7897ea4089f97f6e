"""The last valid definition of each pipeline: it stays in force while its file has problems."""

import os
from pathlib import Path

from penstock.config.catalog import Catalog, read_pipeline
from penstock.config.linked import link_as
from penstock.config.links import linked
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings


def catalog_in_force(settings: Settings) -> Catalog:
    """All pipelines: those of valid files, and of the others as their files last were valid.

    Only a file that is there and has problems is stood in for: one that was removed, or has
    another name, is meant to be gone.
    """
    read = Catalog.read(settings.pipelines)
    valid = {pipeline.name for pipeline in read.pipelines}
    standing_in = []
    for path in sorted({problem.path for problem in read.errors}):
        if path.stem not in valid and (former := _kept(settings, path)) is not None:
            valid.add(former.name)
            standing_in.append(former)
    every, astray = linked([*read.pipelines, *standing_in])
    pipelines = sorted(every, key=lambda pipeline: pipeline.name)
    errors = tuple(dict.fromkeys((*read.errors, *astray)))
    return Catalog(tuple(pipelines), errors, frozenset(p.name for p in standing_in))


def keep(settings: Settings, catalog: Catalog) -> None:
    """Remember the definitions that are in use; does nothing for those that are known already.

    What is kept is read again before it counts: its file may be edited meanwhile.
    """
    for pipeline in catalog.pipelines:
        copy = kept_file(settings, pipeline.name)
        if pipeline.name in catalog.standing_in or _same(pipeline.path, copy):
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
    return settings.home / "definitions" / f"{name}.yaml"


def _kept(settings: Settings, path: Path) -> Pipeline | None:
    copy = kept_file(settings, path.stem)
    return read_pipeline(path, copy)[0] if copy.is_file() else None


def _same(path: Path, copy: Path) -> bool:
    try:
        return path.read_bytes() == copy.read_bytes()
    except OSError:
        return False
