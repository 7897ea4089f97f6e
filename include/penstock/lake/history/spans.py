"""In which span of the watermark records came, for steps whose answers wait for its end."""

from penstock.columns.marks import NO_MARKS, Marks
from penstock.columns.watermark import Mark
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import Generation, Sealed, controller_at, lived, numbered
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import BACKFILL
from penstock.lake.history.sealed import last_under
from penstock.lake.log.blocks import slack_changes
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables


def marks_of(tables: Tables, events: Table, step: StepSpec, plan: CorrectionPlan) -> Marks:
    """Watermarks in force up to a plan's position, as far as its answers hang on them."""
    if not step.by_span or plan.reason == BACKFILL:
        return NO_MARKS
    return marks_since(tables, events, step, plan.epoch)


def marks_since(tables: Tables, events: Table, step: StepSpec, epoch: int) -> Marks:
    """Watermarks of an epoch up to the end of the log; what came before it is one span.

    Args:
        tables: of the pipeline.
        events: the table of events, of the step's streams.
        step: the step.
        epoch: number of the epoch.
    """
    marks = _marks(tables, events, step, numbered(tables, step, epoch), FOREVER)
    return Marks.of([(0, BEGINNING), *marks])


def marks_before(tables: Tables, events: Table, step: StepSpec, start: Generation) -> Marks:
    """Which records before a generation came in the span that has not ended there.

    All others have been told: those of the history with it.

    Args:
        tables: of the pipeline.
        events: the table of events, of the step's streams.
        step: the step.
        start: the generation.
    """
    if start.number == start.epoch:
        return NO_MARKS
    watermark, ends = start.state.watermark, step.window.ends
    since = last_under(tables, step, start, step.window.floor(watermark))
    since = since or numbered(tables, step, start.epoch)
    text = ""
    if isinstance(since, Sealed):
        text = controller_at(tables, step, start.epoch, since.block)
    marks = _marks(tables, events, step, since, start.block, text)
    began = next(seq for seq, mark in marks if ends(mark) == ends(watermark))
    return Marks.of([(0, BEGINNING), (began, watermark)])


def _marks(
    tables: Tables, events: Table, step: StepSpec, since: Generation | Sealed, before: int,
    text: str = "",
) -> list[Mark]:  # fmt: skip
    """Watermarks from a start of the fold on, up to a block."""
    changes = slack_changes(tables, step.id)
    return lived(tables, events, step, since, before, changes, text).marks
