"""Generations of a step: where a run of its query starts, and from which state.

An *epoch* is the first generation of a definition: everything sealed before it is history to
the step (answered by the correction runner, open panes seeded). A later generation of the same
epoch goes on at the sealed position with its state rebuilt from the log.
See docs/concepts/timely-answers.md.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import TransientError
from penstock.core.slack import BlockSummary, SlackChange, SlackPolicy, WatermarkState
from penstock.core.step import StepSpec
from penstock.lake.commit import Table
from penstock.lake.log import SLACK, Seen, decisions_of, read_summaries, watermarks
from penstock.lake.proposed import DECLARED, declared
from penstock.lake.read import read_table
from penstock.lake.tables import Tables, local

FORM = 5
"""Of what a checkpoint holds: the source's offsets and the reducer's state. Raise it with any
change of either: a checkpoint of another form is not gone on with, but rebuilt from the log."""
SEALED = ("generation", "micro_batch", "block", "through_seq", "watermark_us", "t_max_us", "k_us",
          "slack_us", "pairs_open")  # fmt: skip
FAILED = "penstock_failed"
FAILURES = 3


@dataclass(frozen=True, slots=True)
class Generation:
    """One row of ``registry``.

    Attributes:
        number: of this generation, rising over all definitions of the step.
        epoch: number of the definition's first generation.
        block: the first block its query takes.
        seq: last ``arrival_seq`` before that block; -1: none.
        state: the watermark fold before that block.
    """

    step: str
    fingerprint: str
    number: int
    epoch: int
    block: int
    seq: int
    state: WatermarkState


@dataclass(frozen=True, slots=True)
class Sealed:
    """The last row of ``control`` of an epoch: the step is sealed up to ``seq``."""

    generation: int
    micro_batch: int
    block: int
    seq: int
    state: WatermarkState
    open_pairs: int


def generations(tables: Tables, step: StepSpec) -> list[Generation]:
    """All generations of a step's name, in order."""
    rows = read_table(Table(tables.registry())).filter(pc.field("step") == step.name)
    return [
        Generation(
            r["step"],
            r["fingerprint"],
            r["generation"],
            r["epoch"],
            r["start_block"],
            r["start_seq"],
            WatermarkState(r["watermark_us"], r["t_max_us"], r["k_us"], 0),
        )
        for r in rows.sort_by("generation").to_pylist()
    ]


def current(tables: Tables, step: StepSpec) -> tuple[Generation, Generation] | None:
    """The epoch and the newest generation of this definition, if it was ever started last."""
    found = generations(tables, step)
    if not found or found[-1].fingerprint != step.fingerprint:
        return None
    newest = found[-1]
    epoch = next(g for g in found if g.number == newest.epoch)
    return epoch, newest


def sealed_rows(tables: Tables, step: StepSpec, epoch: int) -> list[Sealed]:
    """The ``control`` rows of an epoch, in the order of their positions.

    What a replaced generation still sealed beyond the start of the next one does not count: its
    sink looked for a newer one before that was registered, and committed after.
    """
    starts = [(g.number, g.block) for g in generations(tables, step)]
    rows = read_table(Table(tables.control(step)), SEALED).filter(pc.field("generation") >= epoch)
    found = [
        Sealed(
            r["generation"],
            r["micro_batch"],
            r["block"],
            r["through_seq"],
            WatermarkState(r["watermark_us"], r["t_max_us"], r["k_us"], r["slack_us"]),
            r["pairs_open"],
        )
        for r in rows.to_pylist()
    ]
    counts = [s for s in found if all(s.block <= b for n, b in starts if n > s.generation)]
    return sorted(counts, key=lambda s: (s.block, s.generation, s.micro_batch))


def controller_before(tables: Tables, step: StepSpec, generation: Generation) -> str:
    """The slack's controller where a generation starts; empty: an epoch's has seen nothing.

    All rows of one position hold the same: it is a function of the log.
    """
    if generation.number == generation.epoch:
        return ""
    return controller_at(tables, step, generation.epoch, generation.block)


def controller_at(tables: Tables, step: StepSpec, epoch: int, block: int) -> str:
    """The slack's controller where a sealed micro-batch of an epoch ended before a block."""
    rows = read_table(
        Table(tables.control(step)),
        ["controller"],
        (pc.field("block") == block) & (pc.field("generation") >= epoch),
    )
    return next(filter(None, rows["controller"].to_pylist()), "")


def lived(
    tables: Tables,
    seen: Seen,
    start: Generation | Sealed,
    before: int,
    changes: Sequence[SlackChange],
    controller: str = "",
) -> Iterator[tuple[BlockSummary, WatermarkState, WatermarkState]]:
    """The fold from an epoch's start, or from a sealed micro-batch's end, up to a block.

    Args:
        tables: of the pipeline.
        seen: nothing yet.
        start: where the fold starts.
        before: it ends before this block.
        changes: slack decisions.
        controller: as it was written down at the start.
    """
    blocks = read_summaries(tables)
    seen.pass_by(b for b in blocks if b.number < start.block)
    seen.go_on(controller, seen.newest)
    own = [b for b in blocks if start.block <= b.number < before]
    return watermarks(start.state, own, changes, seen)


class Registry:
    """Decides with which generation a step's query starts, and writes it down first."""

    def __init__(self, tables: Tables, clock: Clock, events: Table) -> None:
        self.tables, self.clock, self.events = tables, clock, events
        self.registry = Table(tables.registry())
        self.decisions = Table(tables.decisions())

    def start(self, step: StepSpec) -> Generation:
        """Go on where that is a plain continuation, else begin a new generation."""
        found = current(self.tables, step)
        if found is None:
            return self.begin_epoch(step)
        self._decide_slack(step)
        epoch, newest = found
        if self._goes_on(step, newest):
            return newest
        rows = sealed_rows(self.tables, step, epoch.number)
        if not rows:
            block, seq, state = epoch.block, epoch.seq, epoch.state
        else:
            block, seq, state = rows[-1].block, rows[-1].seq, rows[-1].state
        again = Generation(
            step.name, step.fingerprint, newest.number + 1, epoch.number, block, seq, state
        )
        return self._register(again, "state rebuilt from the log")

    def begin_epoch(self, step: StepSpec) -> Generation:
        """Make everything sealed so far the step's history."""
        blocks = read_summaries(self.tables)
        past = generations(self.tables, step)
        number = past[-1].number + 1 if past else 0
        block = blocks[-1].number + 1 if blocks else 0
        seq = blocks[-1].last_seq if blocks else -1
        state = WatermarkState()
        seen = Seen(self.events, step.window)
        fold = watermarks(state, blocks, [SlackChange(0, step.slack)], seen)
        for _, _, after in fold:
            state = after
        history = [b.t_max for b in blocks if not b.live and b.t_max is not None]
        if history and not state.ended:
            fixed = step.slack.policy is SlackPolicy.FIXED
            newest = max(history) - (step.slack.span if fixed else 0)
            mark = max(state.watermark, step.window.floor(newest))
            state = WatermarkState(mark, max(state.t_max, mark), state.k, state.slack)
        self._decide_slack(step, block)
        first = Generation(step.name, step.fingerprint, number, number, block, seq, state)
        return self._register(first, "first start" if not past else "changed definition")

    def _register(self, generation: Generation, reason: str) -> Generation:
        row = {
            "step": generation.step,
            "fingerprint": generation.fingerprint,
            "generation": generation.number,
            "epoch": generation.epoch,
            "start_block": generation.block,
            "start_seq": generation.seq,
            "watermark_us": generation.state.watermark,
            "t_max_us": generation.state.t_max,
            "k_us": generation.state.k,
            "reason": reason,
            "started_at": self.clock.now(),
        }
        table = pa.Table.from_pylist([row], schema=self.registry.spec.schema)
        if not self.registry.append(table, f"registry:{generation.step}", generation.number):
            raise TransientError(
                f"{generation.step}: another process began generation {generation.number} at the"
                " same moment; only one may run it. Start again if no other stream host does"
            )
        return generation

    def _decide_slack(self, step: StepSpec, block: int | None = None) -> None:
        """Write down the slack of the pipeline file; it holds from the next block."""
        rows = decisions_of(self.decisions, step.name)
        if declared(rows) == step.slack:
            return
        changes = [row for row in rows if row["what"] == SLACK]
        if block is None:
            blocks = read_summaries(self.tables)
            block = blocks[-1].number + 1 if blocks else 0
        row = {
            "step": step.name,
            "block": block if changes else 0,
            "what": SLACK,
            "value": step.slack.to_text(),
            "reason": DECLARED,
            "decided_at": self.clock.now(),
        }
        self.decisions.append(
            pa.Table.from_pylist([row], schema=self.decisions.spec.schema),
            f"slack:{step.name}",
            len(changes),
        )

    def _goes_on(self, step: StepSpec, newest: Generation) -> bool:
        """Whether Spark's checkpoint is a plain continuation of what is sealed."""
        own = [
            s for s in sealed_rows(self.tables, step, newest.epoch)
            if s.generation == newest.number
        ]  # fmt: skip
        micro_batch = max((s.micro_batch + 1 for s in own), default=0)
        at = max((s.block for s in own), default=newest.block)
        begun = any(
            self._reached(Table(spec), newest.number, micro_batch)
            for spec in (self.tables.late(step, []), self.tables.answers(step))
        )
        logged, committed = spark_progress(self.tables.checkpoint(step, newest.number))
        if _failures(self.tables.checkpoint(step, newest.number), committed) >= FAILURES:
            return False
        if max(logged, default=0) > (-1 if committed is None else committed) + 1:
            return False  # Spark repeats one micro-batch, never two
        if committed is None and not own:
            fresh = not _remembers(self.tables.checkpoint(step, newest.number))
            return 0 in logged or (fresh and not begun)
        replays = committed == micro_batch - 2 or (committed is None and micro_batch == 1)
        stands = committed == micro_batch - 1
        known = not begun or micro_batch in logged  # else it would be cut anew, and lose answers
        return (replays or stands) and logged.get(micro_batch - 1) == at and known

    def _reached(self, table: Table, generation: int, micro_batch: int) -> bool:
        if not table.exists():
            return False
        table.refresh()
        last = table.last(f"speed:{generation}")
        return last is not None and last >= micro_batch


def spark_progress(checkpoint: str) -> tuple[dict[int, int], int | None]:
    """What Spark's checkpoint knows.

    Returns:
        Micro-batches in its offset log with the block each ends before, and its last committed
        micro-batch; none: none. Of another form than this code's it knows nothing.
    """
    filesystem, root = _filesystem(checkpoint)
    logged = {}
    for number, path in _numbered(filesystem, f"{root}/offsets"):
        with filesystem.open_input_file(path) as stream:
            lines = stream.read().decode().splitlines()
        offset = _offset(lines)
        if offset is not None:
            if offset.get("form") != FORM:
                return {}, None
            logged[number] = int(offset["block"])
    committed = [n for n, _ in _numbered(filesystem, f"{root}/commits")]
    return logged, max(committed, default=None)


def note_failure(tables: Tables, step: StepSpec) -> None:
    """Count a failed run of the newest generation's query at the micro-batch it stands at.

    After ``FAILURES`` at the same one its checkpoint is taken for damaged: the next start
    rebuilds the state from the log.
    """
    found = current(tables, step)
    if found is None:
        return
    folder = local(tables.checkpoint(step, found[1].number))
    _, committed = spark_progress(str(folder))
    path = folder / FAILED
    count = _failures(str(folder), committed) + 1
    folder.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    reached("before failure")
    new.write_text(f"{committed} {count}")
    new.replace(path)  # a file written in part would end every later start
    reached("after failure")


def drop_former_checkpoints(tables: Tables, step: StepSpec) -> int:
    """Remove the checkpoints of generations that were replaced; how many there were."""
    removed = 0
    if not Table(tables.registry()).exists():
        return removed
    for former in generations(tables, step)[:-1]:
        uri = tables.uri("checkpoints", step.name, former.fingerprint, str(former.number))
        filesystem, root = _filesystem(uri)
        if filesystem.get_file_info(root).type is pa.fs.FileType.Directory:
            filesystem.delete_dir(root)
            removed += 1
    return removed


def _failures(checkpoint: str, committed: int | None) -> int:
    """How often in a row the query failed at the micro-batch after the committed one."""
    path = local(checkpoint) / FAILED
    if not path.exists():
        return 0
    at, _, count = path.read_text().partition(" ")  # of an emptied file: nothing
    return int(count) if count.isdigit() and at == str(committed) else 0


def _offset(lines: list[str]) -> dict[str, Any] | None:
    try:
        offset = json.loads(lines[2])
    except (IndexError, ValueError):  # written in part: as good as not there
        return None
    return offset if isinstance(offset, dict) and "block" in offset else None


def _remembers(checkpoint: str) -> bool:
    """Whether there is any offset or state in a checkpoint, of use or not."""
    filesystem, root = _filesystem(checkpoint)
    folders = (f"{root}/offsets", f"{root}/state")
    return any(
        info.type is pa.fs.FileType.File
        for folder in folders
        for info in filesystem.get_file_info(
            pa.fs.FileSelector(folder, allow_not_found=True, recursive=True)
        )
    )


def _filesystem(uri: str) -> tuple[pa.fs.FileSystem, str]:
    found = pa.fs.FileSystem.from_uri(uri if "://" in uri else f"file://{uri}")
    return found[0], found[1]


def _numbered(filesystem: pa.fs.FileSystem, folder: str) -> list[tuple[int, str]]:
    selector = pa.fs.FileSelector(folder, allow_not_found=True)
    infos = filesystem.get_file_info(selector)
    return sorted((int(i.base_name), i.path) for i in infos if i.base_name.isdigit())
