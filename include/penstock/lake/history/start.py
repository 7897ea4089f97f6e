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
from penstock.core.window import BEGINNING
from penstock.lake.log.fold import Fold
from penstock.lake.log.joint import Joint


def after_history(
    blocks: Iterable[BlockSummary], slack: SlackSpec, fold: Fold | Joint, *, live: bool
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
    history = dict[str, int]()
    for block in taken:
        if not block.live and block.t_max is not None:
            history[block.stream] = max(history.get(block.stream, BEGINNING), block.t_max)
    for stream, newest in history.items():
        fold.stand(stream, newest - (slack.span if slack.policy is SlackPolicy.FIXED else 0))
    return fold.state
