"""Side data in a pipeline file: small tables whose columns conditions may ask for."""

from typing import Literal, Self

from pydantic import Field, model_validator

from penstock.config.forms import Place
from penstock.config.model import ColumnName, Model, alike
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.side import VERSION, SideTable


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
