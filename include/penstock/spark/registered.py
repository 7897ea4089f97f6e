"""What a stream host says of itself in the register."""

from collections.abc import Iterable, Mapping

from penstock.config.pipeline import Pipeline
from penstock.lake.log.register import PIPELINES, SHARES, STEPS, TASKS, Rows
from penstock.spark.hosted import Hosted
from penstock.spark.query import LogQuery
from penstock.spark.running import Running

RUNS, STILL = "runs", "stands still"
NOTHING: Mapping[str, Rows] = {name: [] for name in (PIPELINES, STEPS, TASKS, SHARES)}


def facts(pipelines: Iterable[Pipeline], hosted: Hosted) -> Mapping[str, Rows]:
    """Rows of each table, as it is now.

    Args:
        pipelines: that are linked.
        hosted: what runs.
    """
    every = [*pipelines]
    steps = [_step(each, hosted.queries.get(each.query)) for each in [*hosted.steps.values()]]
    return {
        PIPELINES: [{"pipeline": each.name, "digest": each.digest} for each in every],
        STEPS: steps,
        TASKS: [{"run": row["run"], "task": task, "generation": row["generation"]}
                for row in steps if row["state"] == RUNS for task in range(row["tasks"])],
        SHARES: [{"pipeline": each.name, "step": step.name, "run": step.id}
                 for each in every for step in each.specs],
    }  # fmt: skip


def _step(running: Running, query: LogQuery | None) -> dict[str, str | int]:
    step = running.step
    begun = None if query is None else query.generation_of(step.id)
    tasks = 0 if query is None or begun is None else running.shards or query.shards_of(step.id)
    return {
        "run": step.id, "kind": step.kind, "fingerprint": step.fingerprint, "query": running.query,
        "epoch": -1 if begun is None else begun.epoch,
        "generation": -1 if begun is None else begun.number,
        "tasks": tasks,
        "state": STILL if running.error or begun is None else RUNS, "why": running.error,
    }  # fmt: skip
