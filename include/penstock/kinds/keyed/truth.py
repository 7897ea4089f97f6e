"""Side data beside rows, in plain Spark SQL, for the audits of kinds that go by keys."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.core import expression
from penstock.core.side import SideJoin


def beside(rows: DataFrame, join: SideJoin, side: DataFrame, seq: str) -> DataFrame:
    """Rows with what side data said when a record came, as ``table.column``.

    Args:
        rows: with the columns that the join goes by.
        join: which table, by which columns.
        side: its rows, each with ``first$`` and ``until$``, the positions for which it counts.
        seq: the column of ``rows`` that holds the record's position.
    """
    name = join.table.name
    named = [F.col(c).alias(f"{name}.{c}") for c in (*join.table.names, "first$", "until$")]
    alike = F.col(seq) >= F.col(f"`{name}.first$`")
    alike &= F.col(seq) < F.col(f"`{name}.until$`")
    for key, column in join.on:
        alike &= F.col(f"`{name}.{key}`") == F.col(f"`{column}`")
    return rows.join(side.select(*named), alike, "left")


def same(value: expression.Column) -> Column:
    """Whether a found value is the recomputed one."""
    return F.col(value.name).eqNullSafe(F.col(f"found${value.name}"))
