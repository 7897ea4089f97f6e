"""What shards of a step have given away, on its way to others: a file beside the checkpoint.

It is there before the micro-batch that gives is sealed, and read in the next one; Spark may repeat
either. It lasts until the step's shards have given twice more.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.core.crash import reached
from penstock.lake.history.offset import StepOffset

FOLDER = "moved"
"""In the checkpoint."""


def moved_file(checkpoint: Path, step: str, at: StepOffset) -> Path:
    """Of a step's micro-batch that gives."""
    return checkpoint / FOLDER / f"{step}-{at.generation}-{at.number}.arrow"


def write_moved(file: Path, parts: pa.Table, step: str) -> None:
    """Replace the file, and remove those of the step's earlier moves but the last."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    reached("before moved")
    with fresh.open("wb") as out:
        with pa.ipc.new_file(out, parts.schema) as writer:
            writer.write_table(parts)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    reached("after moved")
    for former in _of(file.parent, step)[:-2]:
        former.unlink(missing_ok=True)


def read_moved(file: str) -> pa.Table:
    """What ``write_moved`` wrote."""
    with pa.memory_map(file) as source:
        return pa.ipc.open_file(source).read_all()


def _of(folder: Path, step: str) -> Sequence[Path]:
    """Of a step, the oldest first."""
    numbered = ((path.stem.rsplit("-", 2), path) for path in folder.glob("[!.]*.arrow"))
    mine = [(int(generation), int(number), path)
            for (name, generation, number), path in numbered if name == step]  # fmt: skip
    return [path for *_, path in sorted(mine)]
