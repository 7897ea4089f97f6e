"""How far the start of a pipeline's steps has come. Source: EMR (OTIP): a start has stages.

Each is a fact that outlives whoever brought it about: a start that breaks off is gone on with, or
taken back with the link, by whoever looks next.
"""

from collections.abc import Sequence
from enum import StrEnum

from penstock.runtime.streams.control import StreamStatus
from penstock.runtime.streams.links import linked
from penstock.runtime.streams.paths import StreamPaths


class Stage(StrEnum):
    """The stages, one after the other."""

    PARSED = "parsed"
    LINKED = "linked"
    STARTED = "started"
    REGISTERED = "registered"
    ACKNOWLEDGED = "acknowledged"


MEANS = {
    Stage.PARSED: "its file is valid",
    Stage.LINKED: "its steps are to run with the log",
    Stage.STARTED: "the stream host runs",
    Stage.REGISTERED: "a generation of each step is written down",
    Stage.ACKNOWLEDGED: "each step has sealed records",
}


def stage_of(
    paths: StreamPaths, pipeline: str, runs: Sequence[str], known: StreamStatus
) -> tuple[Stage, str]:
    """The last stage that is reached, and what keeps it from the next; empty: nothing does.

    Args:
        paths: files of the log's stream.
        pipeline: whose start it is; its file is valid.
        runs: of its steps.
        known: of the stream.
    """
    if pipeline not in linked(paths):
        return Stage.PARSED, ""
    if not known.alive or not known.driver:
        return Stage.LINKED, known.wrong or ""
    steps = [(run, known.driver.get("steps", {}).get(run, {})) for run in runs]
    wrong = "; ".join(f"{run}: {said['error']}" for run, said in steps if said.get("error"))
    if not all("generation" in said for _, said in steps):
        return Stage.STARTED, wrong
    done = all("through_seq" in said for _, said in steps)
    return Stage.ACKNOWLEDGED if done else Stage.REGISTERED, wrong
