"""Which pipelines stand on others, and those that cannot."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.config.answers import OverAnswers, wrong_answers
from penstock.config.guest import Guest, wrong_guest
from penstock.config.linked import LinkedPipeline, problem
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem


def model_of(content: Mapping[Any, Any]) -> type[LinkedPipeline] | None:
    """What a pipeline file is whose source is another pipeline; none: it is none."""
    source = content.get("source")
    if not isinstance(source, dict) or not {"pipeline", "step"} & source.keys():
        return None
    return OverAnswers if "step" in source else Guest


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
            found = [*link_to(pipeline, ready)]
            problems += found
            if not found:
                ready[pipeline.name] = pipeline
    for pipeline in left.values():
        said = f"{pipeline.name} stands on itself"
        problems.append(problem(pipeline, ("source", "pipeline"), said, "Name another one"))
    return [every[name] for name in every if name in ready], problems


def link_to(pipeline: Pipeline, ready: Mapping[str, Pipeline]) -> Iterable[ConfigProblem]:
    """Link a pipeline that stands on another one, and say what is wrong with that."""
    if isinstance(pipeline, OverAnswers):
        return wrong_answers(pipeline, ready)
    return wrong_guest(pipeline, ready) if isinstance(pipeline, Guest) else ()
