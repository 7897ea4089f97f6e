"""The controller of each policy that is steered."""

from penstock.core.controller import Controller, content_of
from penstock.core.damped import Damped
from penstock.core.paced import Paced
from penstock.core.required import Required
from penstock.core.slack import SlackPolicy, SlackSpec, WatermarkState
from penstock.core.window import WindowSpec

KINDS: dict[SlackPolicy, type[Controller]] = {
    SlackPolicy.PD: Damped,
    SlackPolicy.PD_FINAL: Paced,
    SlackPolicy.QUANTILE: Required,
}


def fresh(window: WindowSpec, spec: SlackSpec, state: WatermarkState | None = None) -> Controller:
    """A controller that has seen nothing; ``state``: where the fold stands, at its beginning."""
    at = state or WatermarkState()
    kind = KINDS[spec.policy]
    return kind(window, spec, at.slack, at.slack, t_max=at.t_max, watermark=at.watermark)


def under(
    known: Controller | None, window: WindowSpec, spec: SlackSpec, state: WatermarkState
) -> Controller:
    """The controller for a block: the one at hand, or for another policy a fresh one."""
    if known is None or known.spec.policy is not spec.policy:
        return fresh(window, spec, state)
    known.turn(spec)
    return known


def from_text(window: WindowSpec, spec: SlackSpec, text: str) -> Controller | None:
    """Read back what ``to_text`` wrote; none: another policy did, which says nothing here."""
    content = content_of(text, spec.policy)
    return None if content is None else KINDS[spec.policy].read(window, spec, content)
