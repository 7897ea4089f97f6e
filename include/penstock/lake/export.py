"""Writing the answers in force to plain Parquet files, one a step."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.lake.tables import Tables
from penstock.lake.view import answers_in_force


@dataclass(frozen=True, slots=True)
class Exported:
    """One file that was written."""

    step: str
    path: Path
    answers: int


def export(tables: Tables, pipeline: Pipeline, folder: Path) -> list[Exported]:
    """Write ``<step>.parquet`` for each step, replacing former files as a whole.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(tables, step, folder) for step in pipeline.specs]
    except OSError as wrong:
        raise ConfigError(
            f"{folder} cannot be written: {wrong.strerror}. Name another folder."
        ) from wrong


def _write(tables: Tables, step: StepSpec, folder: Path) -> Exported:
    answers = answers_in_force(tables, step)
    measures = [m.name for m in step.measures]
    columns = ["window_start", "window_end", *step.key_names, *measures]
    columns += ["n_records", "revision", "reason", "through_seq"]
    path = folder / f"{step.name}.parquet"
    fresh = path.with_suffix(".parquet.new")
    pq.write_table(answers.select(columns), fresh)
    fresh.replace(path)
    return Exported(step.name, path, answers.num_rows)
