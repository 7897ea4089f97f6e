"""What the demo asks of the product's own tables and status files: the one place that does."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.step import StepSpec
from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.history.view import answers_at, preloaded
from penstock.lake.proof.worth import Worth, all_worths
from penstock.lake.storage import read
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.runtime.demo.truth import TIMELY
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.terminal.progress import Look


@dataclass(frozen=True, slots=True)
class Account:
    """Where every record, and every (record, window) pair, of one step has gone.

    Attributes:
        step: its name.
        counted: what its balance counts: pairs, or of a look-up records.
        received: records that came to the door.
        parts_of_received: what became of them.
        pairs: (record, window) pairs there are.
        parts_of_pairs: what became of them.
    """

    step: str
    counted: str
    received: int
    parts_of_received: dict[str, int]
    pairs: int
    parts_of_pairs: dict[str, int]

    @property
    def balanced(self) -> bool:
        """Whether nothing is lost and nothing is there twice."""
        return self.received == sum(self.parts_of_received.values()) and self.pairs == sum(
            self.parts_of_pairs.values()
        )


def in_force(settings: Settings, pipeline: Pipeline, step: StepSpec) -> pa.Table:
    """The answers of a step now."""
    return answers_in_force(_tables(settings, pipeline), step)


def first(settings: Settings, pipeline: Pipeline, step: StepSpec) -> pa.Table:
    """What the stream answered when a window closed, and the preload before it (see reason)."""
    tables = _tables(settings, pipeline)
    at = position(tables, step)
    if at is None:
        return tables.answers(step).schema.empty_table()
    answers = answers_at(tables, step, at)
    timely = answers.filter(pc.equal(answers["reason"], TIMELY))
    return pa.concat_tables([timely, preloaded(tables, step, at)])


def account(settings: Settings, pipeline: Pipeline, step: StepSpec, pairs: int) -> Account:
    """Where everything has gone.

    Args:
        settings: where the tables are.
        pipeline: the pipeline.
        step: one of its steps.
        pairs: how many (record, window) pairs there are, counted elsewhere.
    """
    known = balance(_tables(settings, pipeline), step)
    counted = "records" if step.by_key else "(record, window) pairs"
    if known is None:
        return Account(step.name, counted, 0, {}, pairs, {})
    return Account(
        step=step.name,
        counted=counted,
        received=known.received,
        parts_of_received={"accepted": known.accepted, "quarantined": known.quarantined},
        pairs=pairs,
        parts_of_pairs={
            "on time": known.on_time,
            "late": known.late,
            "shed": known.shed,
            "open": known.open,
            "preloaded": known.preloaded,
            "excluded": known.excluded,
        },
    )


def worths(settings: Settings, pipeline: Pipeline) -> dict[str, Worth]:
    """What the slack of each step cost and brought."""
    return all_worths(_tables(settings, pipeline), pipeline)


def preload_progress(settings: Settings, pipeline: Pipeline, history: int) -> Look:
    """How far the preload is.

    Args:
        settings: where the tables are.
        pipeline: the pipeline.
        history: records of the history.
    """
    done = _sealed(settings, pipeline, "history")
    if done < history:
        return Look(f"{done:,} of {history:,} records taken in", done, history)
    return Look(f"{done:,} records taken in, answering their windows", done, history)


def stream_progress(settings: Settings, pipeline: Pipeline, live: int) -> Look:
    """How far the stream is: the slowest step counts.

    Args:
        settings: where the tables and the status files are.
        pipeline: the pipeline.
        live: records its source holds.
    """
    tables = _tables(settings, pipeline)
    blocks = read.read_table(Table(tables.blocks()), ["origin", "first_seq", "last_seq"])
    ours = blocks.filter(pc.equal(blocks["origin"], "live"))
    taken, done, answers, late = _sealed(settings, pipeline, "live"), [], 0, 0
    for step in pipeline.specs:
        sealed = read.read_table(
            Table(tables.control(step)), ["through_seq", "answers", "pairs_late"]
        )
        through = pc.max(sealed["through_seq"]).as_py()
        first = pc.min(ours["first_seq"]).as_py()
        done.append(0 if None in (through, first) else max(0, through + 1 - first))
        answers += pc.sum(sealed["answers"]).as_py() or 0
        late += pc.sum(sealed["pairs_late"]).as_py() or 0
    if not taken:
        known = control.status(StreamPaths(settings.streams, pipeline.log))
        return Look(f"stream {known.state}" + (f": {known.error}" if known.error else ""))
    return Look(
        f"{min(done):,} of {live:,} records, {answers:,} answers, {late:,} pairs late",
        min(done),
        live,
    )


def said_of(job: str, outcome: dict[str, Any]) -> str:
    """What a job did, in words, from the outcome it left with Airflow."""
    answers, changed = outcome.get("answers", 0), outcome.get("changed", 0)
    if job == "preload":
        received = outcome.get("received", 0)
        nothing = "" if received or answers else "nothing was left to do: "
        return f"{nothing}{received:,} records taken in, {answers:,} answers"
    if job == "correct":
        nothing = "" if answers else "nothing was left to do: "
        return f"{nothing}{answers:,} answers computed again, {changed:,} of them changed"
    if job == "audit":
        if outcome.get("state") == "nothing":
            return "no answer could be compared: nothing to say"
        return f"{outcome.get('audited', 0)} steps, nothing amiss"
    return "done"


def _sealed(settings: Settings, pipeline: Pipeline, origin: str) -> int:
    """Records of one origin that are through the door."""
    table = Table(_tables(settings, pipeline).blocks())
    blocks = read.read_table(table, ["origin", "accepted", "quarantined"])
    ours = blocks.filter(pc.equal(blocks["origin"], origin))
    return sum(pc.sum(ours[name]).as_py() or 0 for name in ("accepted", "quarantined"))


def _tables(settings: Settings, pipeline: Pipeline) -> Tables:
    return Tables(settings.lake_uri, pipeline.log)
