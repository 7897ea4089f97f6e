"""Versions of a pipeline: an edit is built beside the definition in force, and then they switch.

A version is a definition in a file beside those in force. It runs as one more pipeline on the same
log: steps that mean the same share a run with the one in force, the others have runs of their own.
So a switch is one rename: each process gives the pipeline the version's runs from then on. Source:
EMR (jobs that share steps) for how they run side by side; how they switch is ours.
"""

from collections.abc import Sequence
from pathlib import Path

from penstock.config.answers import OverAnswers
from penstock.config.catalog import read_copy
from penstock.config.linked import LinkedPipeline
from penstock.config.links import link_to
from penstock.config.pipeline import Pipeline
from penstock.core.version import FORMER, NEXT, version_of


def versions(
    folder: Path, in_force: Sequence[Pipeline], logs: Sequence[Pipeline] = ()
) -> list[Pipeline]:
    """Those of some pipelines that can run.

    An edit is one that was let be built, as long as the pipeline's file says it. What was in force
    before is one until it is removed, or the log has become another one.

    Args:
        folder: where definitions are kept.
        in_force: all pipelines, linked.
        logs: on which some of them stand, of pipelines that are gone.
    """
    ready = {pipeline.name: pipeline for pipeline in (*in_force, *logs)}
    found = []
    for pipeline in in_force:
        for which in (NEXT, FORMER):
            file = definition_in(folder, version_of(pipeline.name, which))
            if file.is_file() if which == FORMER else is_built(folder, pipeline):
                one = read_copy(pipeline.path, file, pipeline.name)
                if one is not None and not [*link_to(one, ready)] and fits(one, pipeline):
                    found.append(one.beside(pipeline, file.stem))
    return found


def is_built(folder: Path, pipeline: Pipeline) -> bool:
    """Whether what a pipeline's file says now was let be built beside it, or was taken back.

    Raises:
        OSError: one of both cannot be read: an edit would be in force that nobody approved.
    """
    file = definition_in(folder, version_of(pipeline.name, NEXT))
    if not file.is_file():
        return False
    built, said = (read_copy(pipeline.path, it, pipeline.name) for it in (file, pipeline.path))
    return built is not None and said is not None and built.said == said.said


def fits(version: Pipeline, in_force: Pipeline) -> bool:
    """Whether a definition is another one of the same log, which keeps all of its records."""
    if _log_of(version) != _log_of(in_force) or version.keep or in_force.keep:
        return False
    return version.digest != in_force.digest


def _log_of(pipeline: Pipeline) -> list[str]:
    """What a file says of its log, but for keys: these are the steps'."""
    said = [pipeline.model_dump_json(include={"load", "micro_batch", "source"})]
    if isinstance(pipeline, LinkedPipeline):  # the other one says on which log it stands
        step = pipeline.source.step if isinstance(pipeline, OverAnswers) else ""
        over = [spec.fingerprint for spec in pipeline.other.specs if spec.name == step]
        return [*said, pipeline.model_dump_json(include={"columns"}), *over]
    every = pipeline.definitions.values()
    return said + [each.model_copy(update={"keys": ()}).to_text() for each in every]


def definition_in(folder: Path, name: str) -> Path:
    """Where the definition of a pipeline that is in force, or of a version, is kept."""
    return folder / f"{name}.yaml"
