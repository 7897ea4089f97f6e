"""From which state a step's fold starts: everything that came before its epoch is its history."""

from collections.abc import Iterable
from dataclasses import replace

from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
)
from penstock.lake.log.fold import Fold


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
