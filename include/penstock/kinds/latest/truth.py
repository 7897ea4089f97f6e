"""What a latest must answer: of the records of a window and key Spark's own greatest.

Nothing of it is shared with what answers in the stream and in corrections.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.core import expression
from penstock.kinds.latest.spec import LatestSpec


def values(step: LatestSpec) -> list[Column]:
    """Of the newest record its instant, its position and what is kept."""
    age = F.struct("event_time", "arrival_seq")
    return [F.max_by(value.name, age).alias(value.name) for value in step.values]


def same(value: expression.Column) -> Column:
    """Whether a found value is the recomputed one."""
    return F.col(value.name).eqNullSafe(F.col(f"found${value.name}"))
