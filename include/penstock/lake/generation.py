"""Generations of a step: where a run of its query starts, and from which state.

An *epoch* is the first generation of a definition: everything sealed before it is history to
the step (answered by the correction runner, open panes seeded). A later generation of the same
epoch goes on at the sealed position with its state rebuilt from the log.
See docs/concepts/timely-answers.md.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
import pyarrow.fs

from penstock.core.crash import reached
from penstock.core.place import path_of
from penstock.core.slack import SlackChange, SlackSpec, WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec
from penstock.lake.commit import Table
from penstock.lake.fold import Fold
from penstock.lake.log import newest_live_before, read_summaries
from penstock.lake.read import read_table
from penstock.lake.tables import Definition, Tables, opened

FORM = 7
"""Of what a checkpoint holds: the source's offsets and the reducer's state. Raise it with any
change of either: a checkpoint of another form is not gone on with, but rebuilt from the log."""
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
        slack: in force there when it was registered; none: a former version wrote down neither it
            nor K.
        controller: of the slack there; empty: it has seen nothing, or needs none.
        live: the source was to go on: an end before the epoch is none to it.
        started: when it was registered.
    """

    step: str
    fingerprint: str
    number: int
    epoch: int
    block: int
    seq: int
    state: WatermarkState
    slack: SlackSpec | None
    controller: str
    live: bool
    started: datetime


@dataclass(frozen=True, slots=True)
class Sealed:
    """A row of ``control`` that counts: the step is sealed up to ``seq``."""

    generation: int
    micro_batch: int
    block: int
    seq: int
    state: WatermarkState
    open_pairs: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Rows of an epoch in the order of their positions."""
        return self.block, self.generation, self.micro_batch


def generations(tables: Tables, step: Definition) -> list[Generation]:
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
            WatermarkState(r["watermark_us"], r["t_max_us"], r["k_us"], r["slack_us"] or 0),
            None if r["slack"] is None else SlackSpec.from_text(r["slack"]),
            r["controller"] or "",
            bool(r["live"]),
            r["started_at"],
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


def controller_at(tables: Tables, step: StepSpec, epoch: int, block: int) -> str:
    """The slack's controller where a sealed micro-batch of an epoch ended before a block.

    All rows of one position hold the same: it is a function of the log.
    """
    rows = read_table(
        Table(tables.control(step)),
        ["controller"],
        (pc.field("block") == block) & (pc.field("generation") >= epoch),
    )
    return next(filter(None, rows["controller"].to_pylist()), "")


def lived(
    tables: Tables,
    events: Table,
    window: WindowSpec,
    start: Generation | Sealed,
    before: int,
    changes: Sequence[SlackChange],
    controller: str = "",
) -> Fold:
    """The fold from an epoch's start, or from a sealed micro-batch's end, up to a block.

    Args:
        tables: of the pipeline.
        events: the table of events.
        window: of the step.
        start: where the fold starts.
        before: it ends before this block.
        changes: slack decisions.
        controller: as it was written down at the start.
    """
    fold = Fold(events, window)
    fold.start(start.state, start.seq, newest_live_before(tables, start.block), controller)
    fold.take(read_summaries(tables, start.block, before), changes)
    return fold


def spark_progress(checkpoint: str) -> tuple[dict[int, int], int | None]:
    """What Spark's checkpoint knows.

    Returns:
        Micro-batches in its offset log with the block each ends before, and its last committed
        micro-batch; none: none. Of another form than this code's it knows nothing.
    """
    filesystem, root = opened(checkpoint)
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
    folder = path_of(tables.checkpoint(step, found[1].number))
    _, committed = spark_progress(str(folder))
    path = folder / FAILED
    count = failures(str(folder), committed) + 1
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
        filesystem, root = opened(uri)
        if filesystem.get_file_info(root).type is pyarrow.fs.FileType.Directory:
            filesystem.delete_dir(root)
            removed += 1
    return removed


def failures(checkpoint: str, committed: int | None) -> int:
    """How often in a row the query failed at the micro-batch after the committed one."""
    path = path_of(checkpoint) / FAILED
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


def remembers(checkpoint: str) -> bool:
    """Whether there is any offset or state in a checkpoint, of use or not."""
    filesystem, root = opened(checkpoint)
    folders = (f"{root}/offsets", f"{root}/state")
    return any(
        info.type is pyarrow.fs.FileType.File
        for folder in folders
        for info in filesystem.get_file_info(
            pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
        )
    )


def _numbered(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[tuple[int, str]]:
    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    infos = filesystem.get_file_info(selector)
    return sorted((int(i.base_name), i.path) for i in infos if i.base_name.isdigit())
