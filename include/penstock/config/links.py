"""Which pipelines stand on others, and those that cannot."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.config.answers import OverAnswers, wrong_answers
from penstock.config.guest import Guest, wrong_guest
from penstock.config.linked import LinkedPipeline, OfPipeline, problem
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, dots, line_in

STEP = "step"
"""Key of a source that is the answers of one."""


def model_of(content: Mapping[Any, Any]) -> type[LinkedPipeline] | None:
    """What a pipeline file is whose source is another pipeline; none: it is none."""
    source = content.get("source")
    if not isinstance(source, dict) or not {"pipeline", STEP} & source.keys():
        return None
    return OverAnswers if STEP in source else Guest


def misspelt(
    content: Mapping[Any, Any], path: Path, lines: dict[Loc, int]
) -> Iterator[ConfigProblem]:
    """Take a key of the source for the step that was meant: else the file would be another thing.

    All else that is said of it would lead away: what a log's guest must say, and must not.
    """
    source = content.get("source")
    if not isinstance(source, dict) or "pipeline" not in source or STEP in source:
        return
    strange = [key for key in source if key not in OfPipeline.model_fields]
    for key in difflib.get_close_matches(STEP, map(str, strange), 1, 0.6):
        source[STEP] = source.pop(key)
        where: Loc = ("source", key)
        said, remedy = "unknown key", f"Did you mean {STEP}?"
        yield ConfigProblem(path, line_in(where, lines), dots(where), said, remedy)


def stands_on(pipeline: Pipeline) -> tuple[str, ...]:
    """Names of the pipelines whose answers or records one is made of."""
    found = []
    while isinstance(pipeline, LinkedPipeline):
        found.append(pipeline.source.pipeline)
        pipeline = pipeline.other
    return tuple(found)


def linked(pipelines: Iterable[Pipeline]) -> tuple[list[Pipeline], list[ConfigProblem]]:
    """Pipelines that know on which others they stand, and why some do not."""
    every, problems = {p.name: p for p in pipelines}, list[ConfigProblem]()
    ready = {name: p for name, p in every.items() if not isinstance(p, LinkedPipeline)}
    left = {name: p for name, p in every.items() if isinstance(p, LinkedPipeline)}
    while some := [p for p in left.values() if p.source.pipeline not in left]:
        for pipeline in some:
            del left[pipeline.name]
            found = [*link_to(pipeline, ready, every)]
            problems += found
            if not found:
                ready[pipeline.name] = pipeline
    for pipeline in left.values():
        said = f"{pipeline.name} stands on itself"
        problems.append(problem(pipeline, ("source", "pipeline"), said, "Name another one"))
    return [every[name] for name in every if name in ready], problems


def link_to(
    pipeline: Pipeline, ready: Mapping[str, Pipeline], every: Iterable[str] = ()
) -> Iterable[ConfigProblem]:
    """Link a pipeline that stands on another one, and say what is wrong with that.

    Args:
        pipeline: not linked yet.
        ready: pipelines that are, or need not be.
        every: names of those that are read.
    """
    if isinstance(pipeline, OverAnswers):
        return wrong_answers(pipeline, ready, every)
    return wrong_guest(pipeline, ready, every) if isinstance(pipeline, Guest) else ()
