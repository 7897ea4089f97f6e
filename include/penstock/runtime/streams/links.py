"""Which pipelines are linked to the stream host of a log: their steps run there. Standard library.

A link is a file beside the stream's others, there from the start of a pipeline's stream to its end,
whoever dies meanwhile. The host follows them. Source: EMR (steps of jobs that share a stream).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from penstock.core.crash import reached
from penstock.core.version import pipeline_of
from penstock.runtime.streams.control import request_stop, status
from penstock.runtime.streams.paths import StreamPaths, read_json, write_json


def linked(paths: StreamPaths) -> list[str]:
    """Names of the pipelines that are linked to a log."""
    before = f"{paths.name}.link."
    found = (file.name.removeprefix(before) for file in paths.folder.glob(f"{before}*"))
    return sorted(name for name in found if "." not in name)  # drafts of links have one


def runs(paths: StreamPaths, pipeline: str) -> bool:
    """Whether the steps of a pipeline are to run with a log; by hand that of the log alone does.

    Those of a version do with its pipeline's.
    """
    return pipeline_of(pipeline) in (linked(paths) or [paths.name])


def running(folder: Path, logs: Mapping[str, str]) -> frozenset[str]:
    """Pipelines whose steps a stream host runs now.

    Args:
        folder: ``settings.streams``.
        logs: on which each pipeline stands.
    """
    alive = {log for log in {*logs.values()} if status(StreamPaths(folder, log)).alive}
    return frozenset(name for name, log in logs.items()
                     if log in alive and runs(StreamPaths(folder, log), name))  # fmt: skip


def reasons(folder: Path, log: str, pipeline: str) -> dict[str, str] | None:
    """Why steps stand still, by id; by the empty name, why nothing is taken in.

    Args:
        folder: ``settings.streams``.
        log: on which the pipeline stands.
        pipeline: the pipeline.

    Returns:
        None: its steps are not to run; the log may go on for others.
    """
    if not runs(paths := StreamPaths(folder, log), pipeline):
        return None
    driver = status(paths).driver
    found = {"": driver.get("fails")}
    found |= {step: said.get("error") for step, said in driver.get("steps", {}).items()}
    return {step: str(why) for step, why in found.items() if why}


def link(paths: StreamPaths, pipeline: str, wanted: Callable[[], bool] = lambda: True) -> bool:
    """Link a pipeline to a log, and to no other; False: nobody wants that any more.

    Args:
        paths: files of the log's stream.
        pipeline: the pipeline.
        wanted: asked at the last moment. Whoever withdraws the wish first makes this false, and
            then unlinks: no order of events leaves a link that nobody wants.
    """
    paths.folder.mkdir(parents=True, exist_ok=True)
    if not _file(paths, pipeline).exists():
        write_json(_file(paths, pipeline), {})
    _unlink(paths.folder, pipeline, "moved", [name for name in linked_to(paths.folder, pipeline)
                                              if name != paths.name])  # fmt: skip
    if wanted():
        return True
    _file(paths, pipeline).unlink(missing_ok=True)
    return False


def mark(paths: StreamPaths, pipeline: str, who: str) -> None:
    """Write into a link that somebody has seen to the host; not where it was taken meanwhile.

    Args:
        paths: files of the log's stream.
        pipeline: the pipeline.
        who: tells the task's try from every other one.
    """
    with suppress(FileNotFoundError), _file(paths, pipeline).open("r+", encoding="utf-8") as file:
        file.write(json.dumps({"who": who}))
        file.truncate()


def marked_by(paths: StreamPaths, pipeline: str) -> str:
    """Who has last seen to the host that a pipeline is linked to; empty: nobody, or unknown."""
    return str(read_json(_file(paths, pipeline)).get("who", ""))


def unlink(folder: Path, pipeline: str, reason: str) -> None:
    """Unlink a pipeline from its log; the stream ends with the last one. Returns at once.

    Args:
        folder: ``settings.streams``.
        pipeline: the pipeline.
        reason: of the stream's end.
    """
    _unlink(folder, pipeline, reason, linked_to(folder, pipeline) or [pipeline])


def linked_to(folder: Path, pipeline: str) -> list[str]:
    """Logs to which a pipeline is linked: one, or two while it moves."""
    return [f.name.removesuffix(f".link.{pipeline}") for f in folder.glob(f"*.link.{pipeline}")]


def _unlink(folder: Path, pipeline: str, reason: str, logs: Iterable[str]) -> None:
    for name in logs:
        paths = StreamPaths(folder, name)
        _file(paths, pipeline).unlink(missing_ok=True)
        reached("after unlink")
        if not linked(paths):
            request_stop(paths, reason)


def _file(paths: StreamPaths, pipeline: str) -> Path:
    return paths.folder / f"{paths.name}.link.{pipeline}"
