"""Writing the answers in force to plain Parquet files, one a step, all as of the same record."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.lake.history.merged import in_force_at
from penstock.lake.history.standing import Standing, standing, told
from penstock.lake.serve.fetch import fetched
from penstock.lake.serve.moments import moment
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Exported:
    """One file that was written.

    Attributes:
        step: its name.
        path: the file.
        answers: how many.
        seq: the record it is as of; none: the step has sealed nothing.
        note: which definition's answers these are, if not the pipeline file's.
    """

    step: str
    path: Path
    answers: int
    seq: int | None
    note: str = ""


def export(
    tables: Tables,
    pipeline: Pipeline,
    folder: Path,
    *,
    empty: bool = False,
    asked: str | None = None,
) -> list[Exported]:
    """Write ``<step>.parquet`` for each step, replacing former files as a whole, all or none.

    Args:
        tables: of the pipeline.
        pipeline: the pipeline.
        folder: made if need be.
        empty: also where no answers would replace a file that holds some.
        asked: as of this moment; none: of the newest record that all steps have.

    Raises:
        ConfigError: the folder cannot be written, a file with answers would become empty, or there
            is no such moment.
    """
    shown = {step.name: standing(tables, step) for step in pipeline.specs}
    seq = min((one.at.seq for one in shown.values() if one is not None), default=-1)
    seq = seq if asked is None else moment(tables, pipeline, asked, seq)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _drafts() as drafts:
            written = []
            for step in pipeline.specs:
                one = shown[step.name]
                one = None if one is None else one.up_to(seq)
                rows, path = _public(tables, step, one), folder / f"{step.name}.parquet"
                if not (empty or rows.num_rows):
                    _require_no_answers(path)
                drafts[path] = folder / f".{step.name}.{uuid4().hex[:8]}.new"
                pq.write_table(rows, drafts[path])
                note = "" if one is None else told(step, one)
                at = None if one is None else seq
                written.append(Exported(step.name, path, rows.num_rows, at, note))
            for path, new in drafts.items():
                new.replace(path)
    except OSError as wrong:
        raise ConfigError(
            f"{folder} cannot be written: {wrong.strerror}. Name another folder."
        ) from wrong
    return written


@contextmanager
def _drafts() -> Iterator[dict[Path, Path]]:
    """Files to be, by the path they will have; none of them stays."""
    drafts: dict[Path, Path] = {}
    try:
        yield drafts
    finally:
        for new in drafts.values():
            new.unlink(missing_ok=True)


def _public(tables: Tables, step: StepSpec, shown: Standing | None) -> pa.Table:
    if shown is None:
        one, rows = step, tables.answers(step).schema.empty_table()
    else:
        one, rows = shown.step, fetched(in_force_at(tables, shown.step, shown.at))
    values = [value.name for value in one.values]
    columns = ["window_start", "window_end", *one.identity_names, *values]
    return rows.select([*columns, "n_records", "revision", "reason", "through_seq"])


def _require_no_answers(path: Path) -> None:
    if not path.is_file():
        return
    try:
        there = pq.read_metadata(path).num_rows
    except pa.ArrowException:  # not ours: not to be lost either
        there = -1
    if there:
        held = f"{there:,} answers" if there > 0 else "something else"
        raise ConfigError(
            f"{path} holds {held}, and its step has no answers now (penstock show says why)."
            " Nothing was written. To replace it by an empty file: --empty"
        )
