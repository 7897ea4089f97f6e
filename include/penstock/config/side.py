"""Side data in a pipeline file: small tables whose columns conditions may ask for."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from penstock.config.forms import Place
from penstock.config.model import ColumnName, Model, alike
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.side import VERSION, SideJoin, SideTable


class SideConfig(Model):
    """A small table beside the log. What a changed file holds counts from the next block on."""

    files: Place = Field(description="File, or folder of files; relative: below the home folder.")
    format: Literal["parquet", "csv"] = Field(
        default="parquet", description="Format of the files; csv: with a header."
    )
    columns: dict[ColumnName, ColumnType] = Field(
        min_length=1, description="Columns to read, with their types."
    )

    keys: tuple[ColumnName, ...] = Field(
        min_length=1, description="Columns that tell its rows apart: a step finds a row by them."
    )

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        if VERSION in self.columns:
            raise ValueError(f"columns: {VERSION} is the lake's own. Rename the column")
        if same := alike(self.columns):
            raise ValueError(f"columns {same} differ only in case")
        return self

    @model_validator(mode="after")
    def _keys_are_columns(self) -> Self:
        for key in self.keys:
            if key not in self.columns:
                there = ", ".join(self.columns)
                raise ValueError(f"keys: {key} is not among the columns ({there})")
            if self.keys.count(key) > 1:
                raise ValueError(f"keys: {key} stands twice. Delete one")
            if self.columns[key] is ColumnType.DOUBLE:
                raise ValueError(f"keys: {key} is a double, which does not compare safely")
        return self

    def table(self, name: str) -> SideTable:
        """As the core knows it."""
        columns = tuple(Column(*column) for column in self.columns.items())
        return SideTable(name, columns, self.keys)


def joins(
    load: Mapping[str, Mapping[str, str]], sides: Mapping[str, SideTable]
) -> tuple[SideJoin, ...]:
    """What a step loads, as the core knows it; arguments as of ``wrong_loads``."""
    return tuple(SideJoin(sides[name], tuple(on.items())) for name, on in load.items())


def wrong_loads(
    load: Mapping[str, Mapping[str, str]],
    sides: Mapping[str, SideTable],
    seen: Mapping[str, ColumnType],
    column: str,
    of: str,
) -> Iterator[tuple[str, str]]:
    """What is wrong with what a step loads: where, and what.

    Args:
        load: by side table, which of its columns equals which of those beside it.
        sides: side data by name.
        seen: columns beside it, with their types.
        column: what one of these is called in an example.
        of: whose they are.
    """
    for name, on in load.items():
        if name not in sides:
            there = ", ".join(sides) or "none"
            yield f"load.{name}", f"{name} is not among the side data at load (there: {there})"
        elif wrong := [*_wrong_keys(sides[name], on, seen, of)]:
            yield from ((f"load.{name}.{key}", said) for key, said in wrong)
        elif missing := [key for key in sides[name].keys if key not in on]:
            said = f"{name}: {{{missing[0]}: {column}}}"
            yield f"load.{name}", f"a row is found by {missing[0]}, too. Name it, as in {said}"


def _wrong_keys(
    table: SideTable, on: Mapping[str, str], seen: Mapping[str, ColumnType], of: str
) -> Iterator[tuple[str, str]]:
    known = {column.name: column.type for column in table.columns}
    for key, column in on.items():
        if key not in known:
            yield key, f"{table.name} has no column {key} (it has: {', '.join(known)})"
        elif column not in seen:
            there = ", ".join(seen) or "none: name some at columns"
            yield key, f"{column} is no column of {of} ({there})"
        elif known[key] is not seen[column]:
            both = f"{table.name}.{key} is {known[key].value}, {column} {seen[column].value}"
            yield key, f"{both}: they can never be equal. Make them alike"
        elif key not in table.keys:
            yield key, f"{key} is no key of {table.name} (keys: {', '.join(table.keys)})"
