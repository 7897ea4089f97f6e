"""Which run answers for each step of the pipelines on one log: steps of equal meaning have one.

A run is what a stream host runs and tables hold. A step has one of its own, by its own name, unless
another step on its log means the same already: then it shares that one's (EMR, JSP). Whoever edits
or leaves changes nothing for the others: they keep their run. So it is remembered which run each
step has, in a file beside the definitions in force, and on which log pipelines over answers stand.
"""

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from operator import itemgetter
from pathlib import Path

from penstock.config.answers import OverAnswers
from penstock.config.feeds import Lodging, floor, lodged, runs_of
from penstock.config.model import digest_of
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.whole import write_whole
from penstock.core.crash import reached
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of


@dataclass(frozen=True, slots=True)
class Share:
    """That a step has a run.

    Attributes:
        log: where the run is.
        pipeline, step: whose step it is.
        run: its name on the log.
        meaning: names what makes the step another one to a run.
    """

    log: str
    pipeline: str
    step: str
    run: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Shares:
    """What is remembered.

    Attributes:
        runs: which each step has.
        logs: on which pipelines over answers stand, or stood.
    """

    runs: tuple[Share, ...] = ()
    logs: tuple[Lodging, ...] = ()

    def of(self, pipelines: Collection[str], logs: Collection[str]) -> "Shares":
        """What is remembered of some pipelines, and of whomever on some logs."""
        return Shares(
            tuple(each for each in self.runs if each.pipeline in pipelines or each.log in logs),
            tuple(each for each in self.logs if each.pipeline in pipelines or each.log in logs),
        )


def shared(pipelines: Iterable[Pipeline], known: Shares) -> Shares:
    """Give each step its run, and each pipeline over answers its log.

    Args:
        pipelines: all there are; they know their runs and logs from then on.
        known: what holds so far; of pipelines and steps that are gone, too.

    Returns:
        What holds now.
    """
    floors = defaultdict[int, list[Pipeline]](list)
    for pipeline in pipelines:
        floors[floor(pipeline)].append(pipeline)
    lodgings, runs = known.logs, dict[str, str]()
    found, there = list[Share](), set[str]()
    for number in sorted(floors):  # what is above is known by what is below
        over = [each for each in floors[number] if isinstance(each, OverAnswers)]
        lodgings = lodged(over, lodgings, runs)
        logs = defaultdict[str, list[Pipeline]](list)
        for pipeline in floors[number]:
            logs[pipeline.log].append(pipeline)
        for log, some in logs.items():
            some.sort(key=lambda each: (each.name != log, each.name))
            found += _of_a_log(some, [share for share in known.runs if share.log == log])
        runs |= runs_of(floors[number])
        there |= logs.keys()
    found += [share for share in known.runs if share.log not in there]
    return Shares(
        tuple(sorted(found, key=lambda share: (share.log, share.pipeline, share.step))),
        tuple(sorted(lodgings, key=lambda each: (each.log, each.pipeline))),
    )


def _of_a_log(pipelines: Sequence[Pipeline], known: Sequence[Share]) -> list[Share]:
    """The runs of one log: who means the same as before keeps the run."""
    former = {(share.pipeline, share.step): share for share in known}
    fresh, asks = dict[tuple[str, str], Share](), dict[tuple[str, str], object]()
    for pipeline in pipelines:
        for step in pipeline.own_specs:
            key, meaning = (pipeline.name, step.name), _meaning(pipeline, step)
            fresh[key] = Share(pipeline.log, *key, step.id, meaning)
            asks |= {key: step.declares} if step.declares else {}
    kept = {key: former[key] for key, share in fresh.items()
            if key in former and former[key].meaning == share.meaning}  # fmt: skip
    gone = {key: share for key, share in former.items() if key not in fresh}
    left = {key: share for key, share in former.items() if key in fresh and key not in kept}
    found, runs = dict(kept), {share.run: share.meaning for share in kept.values()}
    for key, share in fresh.items():
        if key not in kept:
            own = {one.run for (name, _), one in found.items() if name == share.pipeline}
            every = chain(found.items(), gone.items(), left.items())
            mates = [(_far(key, other), one.run) for other, one in every
                     if one.meaning == share.meaning == runs.get(one.run, share.meaning)
                     and _may_share(key, other, asks) and one.run not in own]  # fmt: skip
            before = former[key].run if key in former else share.run
            alone = before if before not in runs else _free(share.run, runs)
            _, run = min(mates, key=itemgetter(0), default=(0, alone))
            found[key] = replace(share, run=run)
            runs[found[key].run] = share.meaning
            gone = {other: one for other, one in gone.items()
                    if (one.pipeline, one.run) != (share.pipeline, found[key].run)}  # fmt: skip
    for pipeline in pipelines:
        mine = {step: share.run for (name, step), share in found.items() if name == pipeline.name}
        pipeline.share(mine)
    left_behind = (s for s in gone.values() if runs.get(s.run, s.meaning) == s.meaning)
    return [*found.values(), *left_behind]


def _far(key: tuple[str, str], other: tuple[str, str]) -> int:
    """Which of several steps that mean the same it goes with: itself in another version first."""
    mine = pipeline_of(key[0]) == pipeline_of(other[0])
    return 0 if mine and key[1] == other[1] else 1 if mine else 2


def _may_share(
    key: tuple[str, str], other: tuple[str, str], asks: Mapping[tuple[str, str], object]
) -> bool:
    """Whether two steps may have one run; one with queries only with a version that has the same.

    Args:
        key: one of them.
        other: the other one; it may be gone.
        asks: what is asked of those that are there and have queries.
    """
    if key not in asks:
        return other not in asks
    return pipeline_of(key[0]) == pipeline_of(other[0]) and asks.get(other, asks[key]) == asks[key]


def _free(own: str, runs: Mapping[str, str]) -> str:
    """A name for a run that nobody has."""
    if own not in runs:
        return own
    return next(name for n in count(2) if (name := f"{own}.{n}") not in runs)


def _meaning(pipeline: Pipeline, step: StepSpec) -> str:
    """Steps that a run tells apart have another one."""
    apart = pipeline.steps[step.name].apart
    return digest_of(f"{step.fingerprint} {step.slack.to_text()} {step.shed} {apart}")


def shares_of(settings: Settings) -> Shares:
    """What is remembered."""
    return shares_in(shares_file(settings))


def shares_in(file: Path) -> Shares:
    """What a file says; nothing if there is none.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        said = said if isinstance(said, dict) else {"runs": said}  # it has none of logs
        return Shares(
            tuple(Share(**each) for each in said["runs"]),
            tuple(Lodging(**each) for each in said.get("logs", ())),
        )
    except FileNotFoundError:
        return Shares()
    except (ValueError, TypeError, KeyError) as broken:
        raise ConfigError(
            f"{file} is damaged: {broken}. Put it back from a backup, where it is below"
            " at-N/pipelines; if there is none, delete it: steps that share a run, or have another"
            " name than their run, answer all of their past again"
        ) from broken


@contextmanager
def changing(settings: Settings) -> Iterator[None]:
    """Nobody else changes what is remembered meanwhile."""
    file = shares_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remember(settings: Settings, shares: Shares) -> None:
    """Replace what is remembered, if it is something else; within ``changing``."""
    if shares == shares_of(settings):
        return
    content = json.dumps(asdict(shares), indent=1)
    reached("before shares")
    write_whole(shares_file(settings), content.encode())
    reached("after shares")


def shares_file(settings: Settings) -> Path:
    """Where it is remembered."""
    return settings.home / "definitions" / "shares.json"
