"""What is to be removed with a pipeline: of logs on which it stands, or stood, and beside them."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.config.catalog import UnknownPipelineError
from penstock.config.feeds import OVER, Lodging
from penstock.config.kept import catalog_in_force, kept_file, read_files
from penstock.config.links import stands_on
from penstock.config.model import PIPELINE_RULE
from penstock.config.settings import Settings
from penstock.config.shares import Shares, shares_of
from penstock.core.errors import ConfigError
from penstock.core.floor import file_of
from penstock.core.version import FORMER, NEXT, pipeline_of, version_of, which_of
from penstock.lake.history.standing import ever_run, named_after
from penstock.lake.storage.remove import Stored, steps_in, stored
from penstock.lake.storage.spec import logs_in
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.out_of_force import out_of_force


class StoodOnError(ConfigError):
    """A pipeline cannot be removed while others take its answers."""

    def __init__(self, pipeline: str, others: Sequence[str], absent: Sequence[str] = ()) -> None:
        self.pipeline, self.others = pipeline, tuple(others)
        super().__init__(
            f"{pipeline}: it is what {', '.join(others)} is made of, and nothing there could be"
            " corrected or audited without it. Remove that first, with its file or its steps"
            + (f". Files have problems (penstock validate): mended, {', '.join(absent)} goes on"
               if absent else "")
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """What will be removed from a log on which a pipeline stands, or stood.

    Attributes:
        log: the log.
        steps: runs that end there, since it stays for others; none: the log ends, too.
    """

    log: Tables
    steps: tuple[str, ...] | None

    @property
    def stored(self) -> Stored:
        """How much that is now."""
        return stored(self.log, self.steps)


@dataclass(frozen=True, slots=True)
class Removal:
    """What will be removed.

    Attributes:
        parts: of logs.
        reports: folders of audit reports.
        files: of streams, and its links to them.
        stays: who else stands on a log of its own, which stays; none: it goes.
        shares: what is remembered of its runs and logs.
        config: its pipeline file, which stays; none: there is none.
        definitions: where its last valid one is kept, and those of its versions.
    """

    parts: tuple[Part, ...]
    reports: tuple[Path, ...]
    files: tuple[Path, ...]
    stays: tuple[str, ...]
    shares: Shares
    config: Path | None
    definitions: tuple[Path, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is there."""
        if self.reports or self.files or self.shares != Shares() or self.forgotten:
            return False
        return not any(part.stored.files for part in self.parts)

    @property
    def forgotten(self) -> tuple[Path, ...]:
        """Definitions that are there, and that no file brings back."""
        mine = (file for file in self.definitions if which_of(file.stem) or self.config is None)
        return tuple(file for file in mine if file.exists())

    def is_still(self, shown: "Removal") -> bool:
        """Whether no log or run goes, or stays for others, that was not to when it was shown."""
        mine, then = ((each.parts, each.stays, each.definitions) for each in (self, shown))
        return mine == then

    def over(self, known: Shares) -> Shares:
        """What is remembered until all is gone: nobody shares it, and it is found once more."""
        return Shares(
            tuple(replace(each, meaning=OVER) if each in self.shares.runs else each
                  for each in known.runs),
            tuple(each.over if each in self.shares.logs or self._ends_run_of(each) else each
                  for each in known.logs),
        )  # fmt: skip

    def left(self, known: Shares) -> Shares:
        """What is remembered from then on."""
        gone = self.over(self.shares)
        return Shares(
            tuple(each for each in known.runs if each not in gone.runs),
            tuple(each for each in known.logs if each not in gone.logs),
        )

    def _ends_run_of(self, other: Lodging) -> bool:
        """Whether a log has answers that come to an end here."""
        return any(other.is_over(part.log.pipeline, part.steps) for part in self.parts)

    @property
    def ends(self) -> list[str]:
        """Names of the logs that end."""
        return [part.log.pipeline for part in self.parts if part.steps is None]


def to_be_removed(settings: Settings, name: str) -> Removal:
    """What there is; a name that no pipeline can have finds nothing, so no other folder.

    Raises:
        UnknownPipelineError: it is such a name.
        StoodOnError: others take its answers.
    """
    catalog, in_force = read_files(settings), catalog_in_force(settings)
    wrong = {e.path.stem: e.path for e in catalog.errors}
    files = wrong | {p.name: p.path for p in catalog.pipelines}
    versions = {version_of(pipeline_of(name), which) for which in (NEXT, FORMER)}
    mine = {name} & versions if which_of(name) else {name, *versions}
    if not mine or not re.fullmatch(PIPELINE_RULE, pipeline_of(name)):
        raise UnknownPipelineError(name, tuple(p.name for p in catalog.pipelines))
    shares = shares_of(settings)
    absent = [p for p in out_of_force(settings, in_force, shares) if p.name not in mine]
    said = (*catalog.pipelines, *in_force.pipelines)  # a former definition may be what runs
    direct = [p for p in said if name in stands_on(p)[:1]]
    above = {p.name for p in direct if p.log != name}
    over = [p.name for p in absent if p.takes_answers(name)]
    if above or over:
        raise StoodOnError(name, sorted({*above, *over}), over)
    guests = {p.name for p in direct} | {p.name for p in absent if p.is_guest_of(name)}
    others: dict[str, Collection[str]] = {p.name: p.logs for p in absent}
    others |= {p.name: {p.log} for p in in_force.every if p.name not in mine}
    mates = (each for each, logs in others.items() if name in logs)
    parts = tuple(_parts(settings.lake_uri, name, mine, shares, others, stays=bool(guests)))
    ends = {part.log.pipeline for part in parts if part.steps is None}
    hosts = ends | ({name} - {part.log.pipeline for part in parts})
    places = settings.docs, settings.docs / ".gx", settings.results
    reports = [place / each for each in sorted(mine) for place in places]
    names = (*(f"{log}.*" for log in hosts), f"*.link.{name}")  # of a host that ended by itself
    return Removal(
        parts=parts,
        stays=tuple(sorted(guests or mates)),
        shares=shares.of(mine, ends),
        reports=tuple(folder for folder in reports if folder.is_dir()),
        files=tuple(sorted({file for each in names for file in settings.streams.glob(each)})),
        definitions=tuple(
            kept_file(settings, each) for each in sorted(mine) if not guests or each != name
        ),
        config=files.get(name, wrong.get(file_of(name))),
    )


def of_a_former_log(settings: Settings, log: str) -> Removal:
    """A log of answers on which pipelines stood that have another one now."""
    in_force, shares = catalog_in_force(settings), shares_of(settings)
    here = [each.name for each in in_force.every if each.log == log]
    absent = [p.name for p in out_of_force(settings, in_force, shares) if log in p.logs]
    if here or absent:
        raise StoodOnError(log, [*here, *absent], absent)
    found = Removal(
        parts=(Part(Tables(settings.lake_uri, log), None),),
        stays=(),
        shares=shares.of((), (log,)),
        reports=(),
        files=tuple(settings.streams.glob(f"{log}.*")),
        config=None,
        definitions=(),
    )
    if not found.shares.logs:
        raise UnknownPipelineError(log, tuple(each.name for each in in_force.every))
    return found


def _parts(
    lake: str,
    name: str,
    mine: Collection[str],
    shares: Shares,
    others: Mapping[str, Collection[str]],
    *,
    stays: bool,
) -> Iterator[Part]:
    """The logs on which a pipeline stands or stood; of what stays for others what it alone runs.

    That of its own name goes unless others stand there now; any other stays, too, for those who
    stood there once: if they say again what they said, they are back.
    """
    stood, found = {each.log for each in shares.logs if each.pipeline in mine}, False
    stand = {log for logs in others.values() for log in logs}
    for folder in sorted({*logs_in(lake), *stood}):
        tables, here = Tables(lake, folder), [each for each in shares.runs if each.log == folder]
        runs, own = {share.run for share in here if share.pipeline in mine}, folder == name
        ran = {*ever_run(tables), *steps_in(tables)}  # one that is over may have tables still
        left = (run for run in ran if named_after(run) == ("" if own else name))
        steps = sorted({*left, *runs})
        once = {each.pipeline for each in shares.logs if each.log == folder} & others.keys()
        mates = folder in stand or (once and not own)
        if (own or folder in stood) and not stays and not mates:
            yield Part(tables, None)
        elif own or steps or runs:
            kept = {share.run for share in here if share.pipeline in others}
            yield Part(tables, tuple(run for run in steps if run not in kept))
        else:
            continue
        found = True
    if not found:
        yield Part(Tables(lake, name), None)
