"""Snapshots that a pipeline file names: records at which answers are wanted as they then stood."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from penstock.config.expression import parse_where
from penstock.config.model import Model, Name
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.core.expression import Expression
from penstock.core.measure import ColumnType
from penstock.core.step import ONLY


class SnapshotConfig(Model):
    """A punctuation of the stream: each record for which the condition holds (S2J)."""

    where: str = Field(description="Condition over the record's columns.")
    stream: Name | None = Field(
        default=None, description="Whose records, where there are several sources."
    )

    @property
    def of(self) -> str:
        """The stream, by the name that it has everywhere."""
        return self.stream or ONLY

    def condition(self, types: Mapping[str, ColumnType]) -> Expression:
        """The condition; ``types``: of the stream's columns.

        Raises:
            ValueError: it cannot be read; ``Catalog`` reports it with its line.
        """
        return parse_where(self.where, types)


class Snapshots(Model):
    """The part of a pipeline file that names moments."""

    snapshots: dict[Name, SnapshotConfig] = Field(
        default_factory=dict,
        description="Records that mark a moment, by name: `query --as-of NAME` answers as of the"
        " newest of them. Short form: `name: condition`.",
    )

    @field_validator("snapshots", mode="before")
    @classmethod
    def _conditions_alone(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: {"where": v} if isinstance(v, str) else v for k, v in value.items()}


def wrong_snapshots(
    snapshots: Mapping[str, SnapshotConfig],
    types: Mapping[str, Mapping[str, ColumnType]],
    path: Path,
    lines: dict[Loc, int],
) -> Iterator[ConfigProblem]:
    """What is wrong with them; ``types``: of the declared columns, by stream."""
    for name, snapshot in snapshots.items():
        whole: Loc = ("snapshots", name)
        loc, said, remedy = (*whole, "where"), "", ""
        if snapshot.of not in types:
            names = ", ".join(n for n in types if n != ONLY)
            loc = (*whole, "stream")
            said = "no source is called so" if snapshot.stream else "is missing"
            said = said if names else "the pipeline has one source"
            remedy = f"Name one of {names}" if names else "Delete stream"
        else:
            try:
                snapshot.condition(types[snapshot.of])
            except ValueError as wrong:
                said = str(wrong)
        if said:
            yield ConfigProblem(path, line_in(loc, lines), dots(loc), said, remedy)
