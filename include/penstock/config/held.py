"""Which edits wait for approval: those by which a past is computed anew, their own or another's.

Each is judged by itself: where steps would have their past if it alone were followed, beside where
they have it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.config.answers import OverAnswers
from penstock.config.links import linked, stands_on
from penstock.config.pipeline import Pipeline
from penstock.config.shares import Shares, shared


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where a pipeline has its past.

    Attributes:
        events: the log of events that all its answers are made of.
        on: the pipelines that it stands on.
        means: what each step computes, by its name.
        pasts: the same with the log and the run that have it.
    """

    events: str
    on: tuple[str, ...]
    means: frozenset[tuple[str, str]]
    pasts: frozenset[tuple[str, str, str]]

    @classmethod
    def of(cls, pipeline: Pipeline) -> "_Stand":
        """Of one that knows its runs."""
        bottom = pipeline
        while isinstance(bottom, OverAnswers):
            bottom = bottom.other
        means = frozenset((step.name, step.fingerprint) for step in pipeline.specs)
        pasts = frozenset((pipeline.log, step.id, step.fingerprint) for step in pipeline.specs)
        return cls(bottom.log, stands_on(pipeline), means, pasts)


def waiting(
    files: Sequence[Pipeline],
    former: Mapping[str, Pipeline],
    logs: Sequence[Pipeline],
    known: Shares,
    new: Collection[str],
) -> frozenset[str]:
    """Names of those whose edit waits; pipelines are to be linked again afterwards.

    Args:
        files: what each file says, or last said.
        former: what is in force in place of those that were edited.
        logs: on which some stand, of pipelines that are gone.
        known: which run each step has so far.
        new: names of those that were never in force: they have no past.
    """
    in_force = {each.name: former.get(each.name, each) for each in files}
    before, known = _stands(in_force.values(), logs, known)
    found = set[str]()
    for edited in (each for each in files if each.name in former):
        after, _ = _stands((in_force | {edited.name: edited}).values(), logs, known)
        if _anew(edited.name, before, after, new):
            found.add(edited.name)
    return frozenset(found)


def _stands(
    pipelines: Iterable[Pipeline], logs: Sequence[Pipeline], known: Shares
) -> tuple[dict[str, _Stand], Shares]:
    """Where those that can be in force together have their pasts, and which runs they have then."""
    gone = {log.name for log in logs}
    every = [each for each in linked([*pipelines, *logs])[0] if each.name not in gone]
    known = shared(every, known)
    return {each.name: _Stand.of(each) for each in every}, known


def _anew(
    name: str, before: Mapping[str, _Stand], after: Mapping[str, _Stand], new: Collection[str]
) -> bool:
    """Whether following an edit computes a past anew, or ends one that stands on it.

    A step that goes to a run that has its past computes nothing.
    """
    if name not in before or name not in after or before[name].events != after[name].events:
        return True
    there = {past for stand in before.values() for past in stand.pasts}
    touched = [other for other, stand in before.items() if name in stand.on and other not in new]
    return any(
        other not in after or after[other].means - before[other].means
        or after[other].pasts - there for other in (name, *touched)
    )  # fmt: skip
