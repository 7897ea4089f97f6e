"""What the page *Alarms* shows: what look-ups, joins and user code said last, of every pipeline."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.config.pipeline import Pipeline
from penstock.core.errors import PenstockError
from penstock.core.step import StepSpec
from penstock.lake.history.position import position
from penstock.lake.history.standing import standing, told
from penstock.lake.serve.effort import in_words, recent
from penstock.lake.serve.newest import newest_said
from penstock.lake.storage.definition import FormerStep
from penstock.lake.storage.tables import Tables
from penstock_airflow.web.cells import cell

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Said:
    """An alarm, or a change.

    Attributes:
        cells: its keys, positions and values, as they are shown.
        how: at once, of the history, by a correction, taken back.
    """

    cells: list[str]
    how: str


@dataclass(frozen=True, slots=True)
class StepAlarms:
    """Of one step.

    Attributes:
        pipeline, step: names.
        columns: of its answers, as in SQL.
        rows: the newest first.
        note: what there is to know beside them, such as why there is none.
        effort: of its last records, how many candidates were compared, and what was shed.
    """

    pipeline: str
    step: str
    columns: list[str]
    rows: list[Said]
    note: str
    effort: str = ""


def alarms(pipelines: Iterable[Pipeline], lake: str) -> Iterator[StepAlarms]:
    """Of every step that says something of keys, in the order of their files.

    Args:
        pipelines: all there are.
        lake: where their tables are.
    """
    for pipeline in pipelines:
        for step in pipeline.specs:
            if step.by_key:
                yield _alarms(Tables(lake, pipeline.log), pipeline.name, step)


def _alarms(tables: Tables, pipeline: str, step: StepSpec) -> StepAlarms:
    columns = [*step.identity_names, *(value.name for value in step.values)]
    effort = ""
    try:
        rows, note = _rows(tables, pipeline, step, columns)
        if (at := position(tables, step)) is not None:
            effort = "; ".join(in_words(tables, step, at, recent(tables, step, at)))
    except PenstockError as wrong:
        rows, note = [], f"cannot be read: {wrong}"
    return StepAlarms(pipeline, step.name, columns, rows, note, effort)


def _rows(
    tables: Tables, pipeline: str, step: StepSpec, columns: list[str]
) -> tuple[list[Said], str]:
    shown = standing(tables, step)
    if shown is None:
        dag = f"stream__{pipeline}"
        return [], f"Shown once its stream has sealed something: start {dag}."
    if isinstance(shown.step, FormerStep):
        return [], told(step, shown)
    found = newest_said(tables, shown, step.told_by, SHOWN).to_pylist()
    rows = [Said([cell(row[name]) for name in columns], row["how"]) for row in found]
    return rows, told(step, shown) or ("" if rows else "It has said nothing yet.")
