"""Which windows speak for the slack policy that is in force now."""

from itertools import takewhile

from penstock.core.controller import content_of
from penstock.core.controllers import KINDS, fresh
from penstock.core.patient import Patient
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import controller_at
from penstock.lake.history.position import Position
from penstock.lake.log.blocks import newest_live_before, slack_changes
from penstock.lake.storage.tables import Tables


def patient_at(tables: Tables, step: StepSpec, at: Position) -> Patient | None:
    """The controller as it was left; none: no policy is in force that measures final windows."""
    spec = slack_changes(tables, step.name)[-1].spec
    kind = KINDS.get(spec.policy)
    if kind is None or not issubclass(kind, Patient):
        return None
    text = controller_at(tables, step, at.epoch.number, at.sealed.block)
    content = content_of(text, spec.policy) if text else None
    if content is None:
        found = fresh(step.window, spec)
        assert isinstance(found, Patient)  # noqa: S101
        return found
    return kind.read(step.window, spec, content)


def since(tables: Tables, step: StepSpec, at: Position) -> int:
    """Windows that end after this instant closed under the policy in force, us.

    Under ``quantile`` and ``pd_final`` once it knows enough: before that K is the greatest lateness
    so far.
    """
    known = patient_at(tables, step, at)
    if known is not None:
        return FOREVER if known.since is None else known.since
    changes = slack_changes(tables, step.name)
    policy = changes[-1].spec.policy
    same = [*takewhile(lambda change: change.spec.policy is policy, reversed(changes))]
    if len(same) == len(changes):
        return BEGINNING
    return newest_live_before(
        tables, same[-1].block, step.streams
    )  # the watermark then was not beyond
