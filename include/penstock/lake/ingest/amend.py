"""What a person may decide about a file: give it up, take it as it is now, accept what it is.

Each is refused where it would lose or double a record.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from penstock.config.answers import OverAnswers
from penstock.config.intake import Definition
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.lake.ingest.item import FIRST, Item, change, opened, stat_of
from penstock.lake.ingest.origins import Origin, take_all, waiting_of
from penstock.lake.ingest.plan import Plan, Terms, last_plan, today
from penstock.lake.ingest.planned import as_decided
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.received import UNREADABLE
from penstock.lake.ingest.source import Waiting
from penstock.lake.log import files
from penstock.lake.log.files import (
    ACCEPTED,
    AGAIN,
    AS_IT_IS,
    GIVEN_UP,
    OTHER_FOLDER,
    Decided,
)
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Taken:
    """An item of a plan.

    Attributes:
        plan: which one.
        item: as the plan names it.
        whole: with its whole path.
        file: which file it is, however plans name it.
    """

    plan: Plan
    item: Item
    whole: Item
    file: str

    @property
    def head(self) -> str:
        """The file of which it is a part: names are given again; a former version's by its name."""
        first = f"{self.plan.number}:{self.item.path}"
        return first if self.item.head == FIRST else self.item.head

    @property
    def place(self) -> files.Place:
        """What decisions call it."""
        return self.plan.number, self.item.path


class Amendment:
    """Decisions about the files of one pipeline, as of now."""

    def __init__(self, tables: Tables, pipeline: Pipeline, home: Path, clock: Clock) -> None:
        if isinstance(pipeline, OverAnswers):
            raise ConfigError(f"{pipeline.name} takes answers of a step, and no files")
        self.tables, self.pipeline, self.home, self.clock = tables, pipeline, home, clock
        self.decisions, self.quarantine = Table(tables.decisions()), Table(tables.quarantine())
        self._sources: dict[tuple[str, str], Waiting] = {}

    def give_up(self, file: str, reason: str) -> str:
        """Count a planned file that cannot be read as one unreadable record; returns its path.

        Raises:
            ConfigError: nothing waits for it, it can be read, or its plan is begun.
        """
        open_ = self._open(file)
        for taken in open_:
            if _can_be_read(taken.whole):
                raise ConfigError(
                    f"{taken.whole.path} is there as it was planned, and can be read: nothing is"
                    " given up. Start the stream, or the preload, which take it."
                )
        return self._decide(GIVEN_UP, open_, reason)

    def retake(self, file: str, reason: str) -> str:
        """Take a file as it is now; returns its path.

        One that its plan waits for is read as it is instead of as planned; one of which nothing
        could be read counts as not taken, so that the next plan takes it whole. Of the folder of a
        source that was exchanged, the files are others than those taken under their names.

        Raises:
            ConfigError: records of it were accepted, or there is nothing to take.
        """
        if (waiting := self._exchanged(file)) is not None:
            self._write(OTHER_FOLDER, [], reason, folder=waiting.known.folder)
            return waiting.root
        if any(taken.plan.number > self._sealed for taken in self._named(file)):
            return self._as_it_is(self._open(file, [self.quarantine]), reason)
        known = self._decided.again
        found = [taken for taken in self._named(file) if taken.place not in known]
        path = found[0].whole.path if found else file
        if not found:
            raise ConfigError(f"{file} counts as not taken already: the next plan takes it.")
        if found[0].item.version >= 0 or self._waiting(found[0].plan).config.delta is not None:
            raise ConfigError(f"{path} belongs to a Delta table: write its records as a new commit")
        numbers = self._unreadable(found)
        if len(numbers) < len(found):
            raise ConfigError(
                f"{path}: records of it were taken already and would count twice. Write the ones"
                " that are missing to a new file; the refused ones stand in quarantine, raw."
            )
        if not (Path(path).exists() or Path(self._now(found[0])).exists()):
            raise ConfigError(f"{self._now(found[0])} is not there: put the mended file there")
        return self._decide(AGAIN, found, reason, numbers=numbers)

    def accept(self, file: str, reason: str) -> str:
        """Settle that a file is unreadable, or was changed after it was taken; returns its path.

        Audits do not name it until it changes again. Of a folder: all changed files in it; of one
        that a source was exchanged for: its files are those that were taken under their names.

        Raises:
            ConfigError: no unreadable or changed file of that name waits for it.
        """
        if (waiting := self._exchanged(file)) is not None:
            same = [(p, f) for f in waiting.unclear() for p in waiting.known.namesakes(f)]
            self._write(ACCEPTED, [place for place, _ in same], reason,
                        seen=[(found.size, found.modified) for _, found in same])  # fmt: skip
            return waiting.root
        known = self._decided.accepted
        rows = [r for r in self._refused if _is_named(r["place"], file)]
        open_ = [r for r in rows if r["arrival_seq"] not in known]
        changed = self._changed(file)
        if not open_ and not changed:
            said = "quarantine holds no such unreadable file, and no such file is other than taken"
            said = "it was accepted already" if rows else said
            raise ConfigError(f"{file}: {said}. The audit names those that wait for an answer.")
        paths = {r["place"] for r in open_} | {path for _, _, path in changed}
        inside = {path for path in paths if not _is_named(path, file)}
        path = file if inside == paths else _one_of(paths - inside, file)
        seen = [(place, now) for place, now, at in changed if inside or at == path]
        numbers = [r["arrival_seq"] for r in open_ if r["place"] == path]
        states, inodes = [now[:2] for _, now in seen], [now[2] for _, now in seen]
        self._write(ACCEPTED, [place for place, _ in seen], reason, numbers=numbers,
                    seen=states, inodes=inodes)  # fmt: skip
        return path

    def _changed(self, file: str) -> list[tuple[files.Place, tuple[int, int, int], str]]:
        """What was taken of a file, or of files in a folder, and is other now: what, and where."""
        found = []
        for waiting in self._present.values():
            with suppress(SourceError):  # it is away: nothing to be seen
                for now, taken in waiting.unlike() if waiting.config.files else ():
                    state = (*files.GONE, 0) if now is None else (now.size, now.modified, now.inode)
                    for had in waiting.known.counting(taken) or taken.parts:
                        path = f"{waiting.root}/{had.item.path if now is None else now.path}"
                        found.append((had.place, state, path))
        named = [each for each in found if _is_named(each[2], file)]
        return named or [each for each in found if f"/{file.strip('/')}/" in each[2]]

    def _exchanged(self, file: str) -> Waiting | None:
        """The source in a folder of this name, if it has names of files of a former folder."""
        whole = str((self.home / file).absolute()).rstrip("/")
        for waiting in self._present.values():
            if waiting.root == whole and waiting.config.files is not None:
                return waiting if waiting.unclear() else None
        return None

    def _as_it_is(self, open_: list[Taken], reason: str) -> str:
        whole = open_[0].whole
        try:
            about = stat_of(whole)
        except OSError as away:
            raise ConfigError(
                f"{whole.path}: {away}. Put it back, or give it up: penstock giveup"
                f" {self.pipeline.name} {open_[0].file}"
            ) from away
        if not any(change(taken.whole) for taken in open_):
            raise ConfigError(f"{whole.path} is there as it was planned: the plan takes it.")
        now = {"size": about.st_size, "modified": about.st_mtime_ns, "inode": about.st_ino}
        end = self._waiting(open_[0].plan).places.end_of(whole.real or whole.path, about.st_size)
        return self._decide(AS_IT_IS, open_, reason, ending=end, **now)

    def _open(self, file: str, may_stand: Sequence[Table] = ()) -> list[Taken]:
        """What unfinished plans read of a file, as far as nothing of them is committed.

        What stands in quarantine the door compares with what it reads, so that only a file which
        gives the same goes on.
        """
        named = (taken for taken in self._named(file) if taken.plan.number > self._sealed)
        found = [self._looked_up(taken) for taken in named]
        if not found:
            raise ConfigError(
                f"{file}: nothing waits for it, its plan is finished. Where it is unreadable,"
                f" penstock accept {self.pipeline.name} FILE settles it, and penstock retake takes"
                " it again once it is mended."
            )
        for table in (self._terms(found[0].plan).events, self.quarantine):
            begun = last_plan(table)
            if table not in may_stand and begun >= found[0].plan.number:
                raise ConfigError(
                    f"{file}: a part of plan {found[0].plan.number} is committed already"
                    f" ({table.spec.name}), by the file as it was. Put it back as it was planned."
                )
        return found

    def _looked_up(self, taken: Taken) -> Taken:
        """With the place where the door would read it, moved or renamed as it may be."""
        mine = self._present.get(taken.plan.source)
        now = None if mine is None else mine.places
        item = as_decided(taken.item, taken.plan.number, self._decided)
        return replace(taken, whole=self._waiting(taken.plan).places.full(item, now))

    @cached_property
    def _present(self) -> dict[Origin, Waiting]:
        """The sources as the pipeline file says them now."""
        found = waiting_of(self.pipeline, self.home, self.tables.lake)
        take_all(found, self.tables)
        return found

    def _decide(self, what: str, taken: list[Taken], reason: str, **value: Any) -> str:
        self._write(what, [t.place for t in taken], reason, **value)
        return taken[0].whole.path

    def _write(self, what: str, items: list[files.Place], reason: str, **value: Any) -> None:
        block = self._blocks["block"]
        first = (pc.max(block).as_py() + 1) if len(block) else 0
        now = self.clock.now()
        settle(self.tables.plans(), self.tables.quarantine(), self.tables.blocks())
        files.decide(self.decisions, what, items, reason, now, block=first, **value)

    @cached_property
    def _blocks(self) -> Any:
        table = Table(self.tables.blocks())
        if not table.exists():
            return table.spec.schema.empty_table()
        return read_table(table, ["block", "plan"])

    @cached_property
    def _sealed(self) -> int:
        return last_plan(Table(self.tables.blocks()))

    @cached_property
    def _decided(self) -> Decided:
        if not self.decisions.exists():
            return Decided()
        self.decisions.refresh()
        return files.decided(self.decisions)

    @cached_property
    def _refused(self) -> list[dict[str, Any]]:
        """The unreadable files in quarantine, sealed or not."""
        if not self.quarantine.exists():
            return []
        self.quarantine.refresh()
        rows = read_table(
            self.quarantine, ["arrival_seq", "place"], pc.field("reason") == UNREADABLE
        )
        return [*rows.sort_by("arrival_seq").to_pylist()]

    @cached_property
    def _taken(self) -> list[Taken]:
        table = Table(self.tables.plans())
        rows = read_table(table).sort_by("number").to_pylist() if table.exists() else []
        found = []
        for row in rows:
            plan = Plan.of(row, today(self.pipeline), 1)
            if plan.items:
                waiting = self._waiting(plan)
                for item in plan.items:
                    own, whole = waiting.places.own(item), waiting.places.full(item)
                    found.append(Taken(plan, item, whole, own.real or own.path))
        return found

    def _terms(self, plan: Plan) -> Terms:
        definition = Definition.from_text(plan.definition)
        return Terms(definition, self.tables, self.home, plan.stream)

    def _waiting(self, plan: Plan) -> Waiting:
        """The source of a plan, made once a definition and origin."""
        key = plan.definition, plan.origin  # places, which no two streams share
        if key not in self._sources:
            self._sources[key] = self._terms(plan).waiting(plan)
        return self._sources[key]

    def _now(self, taken: Taken) -> str:
        """Where a file would lie in the folder of its source as the pipeline file says it now."""
        mine = self._present.get(taken.plan.source)
        return taken.whole.path if mine is None else f"{mine.root}/{taken.item.path}"

    def _named(self, file: str) -> list[Taken]:
        found = [taken for taken in self._taken if _is_named(taken.whole.path, file)]
        found = found or [taken for taken in self._taken if _is_named(self._now(taken), file)]
        if not found:
            raise ConfigError(
                f"{file}: no plan of {self.pipeline.name} has taken such a file. Name it as the"
                " stream's log, the audit or quarantine do, or by its path from the source."
            )
        one = _one_of({taken.file for taken in found}, file)
        mine = [taken for taken in found if taken.file == one]
        return [taken for taken in mine if taken.head == mine[-1].head]

    def _unreadable(self, taken: list[Taken]) -> list[int]:
        """Arrival numbers of the items of which nothing could be read."""
        firsts = sorted({t.plan.first_seq for t in self._taken})
        numbers = set()
        for one in taken:
            later = [first for first in firsts if first > one.plan.first_seq]
            end = min(later, default=None)
            same = [t for t in self._taken if t.plan.number == one.plan.number]
            wholes = {t.item.path: t.whole.path for t in (*same, one)}
            numbers |= {
                r["arrival_seq"]
                for r in self._refused
                if files.planned_path(r["place"], wholes, wholes) == one.item.path
                and one.plan.first_seq <= r["arrival_seq"]
                and (end is None or r["arrival_seq"] < end)
            }
        return sorted(numbers)


def _can_be_read(item: Item) -> bool:
    try:
        if change(item) is not None:
            return False
        with opened(item) as file:
            while file.read(1 << 20):
                pass
    except SourceError:
        return False
    return True


def _is_named(path: str, file: str) -> bool:
    return path == file or path.endswith(f"/{file.strip('/')}")


def _one_of(found: set[str], file: str) -> str:
    if len(found) > 1:
        some = ", ".join(sorted(found)[:5])
        raise ConfigError(f"{file} names {len(found)} files: {some}. Name one of them.")
    return found.pop()
