"""What a pipeline file says of the columns of a source."""

from datetime import timedelta

from pydantic import Field

from penstock.config.model import ColumnName, Model
from penstock.core.measure import ColumnType


class ColumnConfig(Model):
    """A declared column."""

    type: ColumnType = Field(description="string, long, double, boolean or timestamp.")
    source: str = Field(default="", alias="from", description="Its name in the source.")


class Id(Model):
    """Which column names a record, and how long a repeated one is refused."""

    column: ColumnName = Field(description="A declared column.")
    horizon: timedelta = Field(
        default=timedelta(days=1),
        gt=timedelta(0),
        description="Arrivals of one id so far apart, or less, are one record.",
    )
