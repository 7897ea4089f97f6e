"""From which state a step's fold starts: everything that came before its epoch is its history."""

from collections.abc import Iterable
from dataclasses import replace

from penstock.core.errors import ConfigError
from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
)
from penstock.core.step import StepSpec
from penstock.lake.history.generation import Generation, generations
from penstock.lake.log.blocks import EventTimes, decisions_of, read_summaries
from penstock.lake.log.fold import Fold
from penstock.lake.log.proposed import declared
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables


def after_history(
    blocks: Iterable[BlockSummary], slack: SlackSpec, fold: Fold, *, live: bool
) -> WatermarkState:
    """The state after an epoch's history.

    Live blocks move the watermark as always; what came as history lets it stand at the window that
    holds the newest record (less a fixed slack).

    Args:
        blocks: all before the epoch.
        slack: in force at its first block.
        fold: it has taken nothing yet.
        live: the source goes on: where it once ended, it was only silent.
    """
    taken = [
        replace(b, kind=BlockKind.IDLE) if live and b.kind is BlockKind.END else b for b in blocks
    ]
    fold.take(taken, [SlackChange(0, slack)])
    state: WatermarkState = fold.state
    history = [b.t_max for b in taken if not b.live and b.t_max is not None]
    if not history or state.ended:
        return state
    newest = max(history) - (slack.span if slack.policy is SlackPolicy.FIXED else 0)
    mark = max(state.watermark, fold.window.floor(newest))
    return replace(state, watermark=mark, t_max=max(state.t_max, mark))


def epoch_of(tables: Tables, step: StepSpec, generation: Generation) -> Generation:
    """The first generation of a generation's epoch, with all that its fold starts from.

    Raises:
        ConfigError: a former version wrote the start down, and not as its log says.
    """
    first = next(g for g in generations(tables, step) if g.number == generation.epoch)
    found = completed(tables, step, first)
    if found is None:
        raise ConfigError(
            f"{step.name}: generation {first.number} does not start where its log says. Start the"
            " stream: it begins a new epoch, and the correction answers what was there before"
        )
    return found


def completed(tables: Tables, step: StepSpec, epoch: Generation) -> Generation | None:
    """An epoch with all that its fold starts from.

    Versions up to 0.1 wrote a start without its slack. It is folded again from the history, under
    the slack that the pipeline file asked for then, and must give what they did write.

    Returns:
        None: it does not; what was folded from there cannot be told.
    """
    if epoch.slack is not None:
        return epoch
    rows = decisions_of(Table(tables.decisions()), step.name)
    slack = declared([row for row in rows if row["decided_at"] <= epoch.started])
    if slack is None:
        return None
    blocks = read_summaries(tables, before=epoch.block)
    fold = Fold(EventTimes(Table(tables.events({}))), step.window)
    state = after_history(blocks, slack, fold, live=epoch.live)
    if replace(state, slack=epoch.state.slack) != epoch.state:
        return None
    return replace(epoch, state=state, slack=slack)
