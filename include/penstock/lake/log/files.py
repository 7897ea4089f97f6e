"""What a person decided about files of a source, as rows of ``decisions``.

A decision names a file by plan and path, so that whoever carries out the plan, or makes the next
one, or audits, sees the same.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.lake.storage.commit import RACES, ConflictError, Table
from penstock.lake.storage.read import read_table

GIVEN_UP, AS_IT_IS, AGAIN, ACCEPTED = "given up", "as it is", "taken again", "accepted"
OTHER_FOLDER = "other folder"
APPLICATION = "file"
DETAIL = "unreadable: given up"
"""What quarantine says of a file that was given up."""

Place = tuple[int, str]
"""A plan's number and a path as the plan names it."""
State = tuple[int, int]
"""What a file is: bytes, and its modification in nanoseconds since the epoch."""
GONE: State = (-1, -1)
"""It is not there."""


@dataclass
class Decided:
    """All of them.

    Attributes:
        given_up: of their plan they are one refused record each.
        as_it_is: what is to be read instead of the file as it was planned.
        again: what these plans took of these files counts as not taken.
        accepted: arrival numbers of unreadable files that a person has seen.
        seen: what a file has become after it was taken, as far as a person has seen it.
        read_as: number on the disk and end of files that are read as they were then.
        lies: numbers on the disk of files that were decided on as they were then.
        other: source folders whose files are not those that other folders had by their names.
    """

    given_up: set[Place] = field(default_factory=set)
    as_it_is: dict[Place, State] = field(default_factory=dict)
    again: set[Place] = field(default_factory=set)
    accepted: set[int] = field(default_factory=set)
    seen: dict[Place, State] = field(default_factory=dict)
    other: set[str] = field(default_factory=set)
    lies: dict[Place, int] = field(default_factory=dict)
    read_as: dict[Place, tuple[int, str]] = field(default_factory=dict)

    @property
    def steers(self) -> bool:
        """Whether what the next plan takes depends on one of them."""
        return bool(self.again or self.other or self.seen)

    def concerns(self, place: Place) -> bool:
        """Whether somebody decided anything of a file."""
        mine = self.given_up, self.as_it_is, self.again, self.seen, self.lies, self.read_as
        return any(place in some for some in mine)

    def known(self, place: Place, planned: State) -> list[State]:
        """What a file was taken as, and what of it since a person has seen."""
        taken = self.as_it_is.get(place, planned)
        return [taken, *(state for state in [self.seen.get(place)] if state is not None)]

    def of(self, plan: int) -> "Decided":
        """What concerns the files that a plan is about to read."""
        return Decided(
            {place for place in self.given_up if place[0] == plan},
            {place: now for place, now in self.as_it_is.items() if place[0] == plan},
        )


def planned_path(
    place: str, paths: Collection[str], wholes: Mapping[str, str] | None = None
) -> str | None:
    """Which file of a plan a refused record's place names, wherever the source lay then.

    Args:
        place: of the record.
        paths: of the plan's files, as it names them.
        wholes: by such a path where its file lies; where that is the place, it is this file, even
            if the place ends like another's path (``live/a`` and ``a`` in a folder ``live``).
    """
    ends = [path for path in paths if place.endswith(f"/{path.lstrip('/')}")]
    exact = [path for path in ends if wholes is not None and wholes.get(path) == place]
    return max(exact or ends, key=len, default=None)


def decided(table: Table) -> Decided:
    """All decisions on files, as of the snapshot at hand."""
    found = Decided()
    mine = {GIVEN_UP, AS_IT_IS, AGAIN, ACCEPTED, OTHER_FOLDER}
    rows = [row for row in read_table(table).to_pylist() if row["what"] in mine]
    values = [(json.loads(row["value"]), row) for row in rows]
    for value, row in sorted(values, key=lambda pair: pair[0]["order"]):  # clocks may step back
        places = [(number, path) for number, path in value["items"]]
        if row["what"] == GIVEN_UP:
            found.given_up |= {*places}
        elif row["what"] == AS_IT_IS:
            found.as_it_is |= dict.fromkeys(places, (value["size"], value["modified"]))
            found.read_as |= dict.fromkeys(places, (value.get("inode", 0), value.get("ending", "")))
        elif row["what"] == AGAIN:
            found.again |= {*places}
        elif row["what"] == OTHER_FOLDER:
            found.other.add(value["folder"])
        found.accepted |= {*value["numbers"]}
        found.seen |= dict(zip(places, map(tuple, value.get("seen", ())), strict=False))
        found.lies |= dict(zip(places, value.get("inodes", ()), strict=False))
    return found


def decide(
    table: Table,
    what: str,
    items: Sequence[Place],
    reason: str,
    at: datetime,
    *,
    block: int,
    numbers: Sequence[int] = (),
    **value: Any,
) -> None:
    """Write a decision down; it lasts when this returns.

    Args:
        table: of decisions.
        what: which one.
        items: what it concerns.
        reason: in the person's words.
        at: when.
        block: the first one for which it can mean something.
        numbers: arrival numbers of unreadable files that it settles.
        **value: more of it.

    Raises:
        ConflictError: other writers won every race.
    """
    for _ in range(RACES):
        table.refresh()
        last = table.last(APPLICATION)
        order = 0 if last is None else last + 1
        said = {"order": order, "items": [*items], "numbers": [*numbers], **value}
        row = {"step": "", "block": block, "what": what, "value": json.dumps(said),
               "reason": reason, "decided_at": at}  # fmt: skip
        try:
            table.swap(pa.Table.from_pylist([row], schema=table.spec.schema), APPLICATION, order)
        except ConflictError:
            continue
        return
    raise ConflictError(f"{table.spec.uri}: {RACES} races for one commit were lost; try again")
