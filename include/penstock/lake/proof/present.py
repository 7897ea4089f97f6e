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
from penstock.lake.log.joint import controllers_in
from penstock.lake.storage.tables import Tables


def patients_at(tables: Tables, step: StepSpec, at: Position) -> dict[str, Patient]:
    """The controllers as they were left, by stream; of the only stream: by no name.

    Nothing: no policy is in force that measures final windows.
    """
    spec = slack_changes(tables, step.id)[-1].spec
    kind = KINDS.get(spec.policy)
    if kind is None or not issubclass(kind, Patient):
        return {}
    text = controller_at(tables, step, at.epoch.number, at.sealed.block)
    found = dict[str, Patient]()
    for stream, own in controllers_in(text, step).items():
        content = content_of(own, spec.policy) if own else None
        patient = (
            fresh(step.window, spec) if content is None else kind.read(step.window, spec, content)
        )
        assert isinstance(patient, Patient)  # noqa: S101
        found[stream] = patient
    return found


def since(tables: Tables, step: StepSpec, at: Position) -> int:
    """Windows that end after this instant closed under the policy in force, us.

    Under ``quantile`` and ``pd_final`` once it knows enough: before that K is the greatest lateness
    so far.
    """
    if known := patients_at(tables, step, at).values():
        return max(FOREVER if each.since is None else each.since for each in known)
    changes = slack_changes(tables, step.id)
    policy = changes[-1].spec.policy
    same = [*takewhile(lambda change: change.spec.policy is policy, reversed(changes))]
    if len(same) == len(changes):
        return BEGINNING
    return newest_live_before(
        tables, same[-1].block, step.streams
    )  # the watermark then was not beyond
