"""A question of a reader, as the command line and Airflow's form put it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.lake.serve import moments
from penstock.lake.serve.asked import NAME, asked
from penstock.lake.serve.query import as_of
from penstock.lake.serve.views import View, views
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        sql: one statement over the views; none: the pairs alone, or which views there are.
        pairs: ask the log, once, for pairs of this join.
        where: their condition, in place of the join's; none: all that are near.
        between: left records from an event time on, and before another one; none: all.
        moment: as of it; none: of the newest record that all views have.
    """

    sql: str | None = None
    pairs: str | None = None
    where: str | None = None
    between: tuple[datetime | None, datetime | None] = (None, None)
    moment: str | None = None

    @property
    def about(self) -> str:
        """What is asked beside the SQL, in words; empty: nothing."""
        said = [] if self.pairs is None else [f"pairs of {self.pairs}"]
        said += [f"where {self.where}"] if self.where else []
        for word, at in zip(("from", "to"), self.between, strict=True):
            said += [f"{word} {at.isoformat()}"] if at else []
        return ", ".join([*said, *([f"as of {self.moment}"] if self.moment else [])])

    @property
    def statement(self) -> str | None:
        """The SQL; of pairs alone all of them; none: nothing is asked."""
        return self.sql or (None if self.pairs is None else f"FROM {NAME}")


def known(tables: Tables, pipeline: Pipeline, question: Question) -> Mapping[str, View]:
    """What the question's SQL can name, as of its moment.

    Raises:
        ConfigError: there is no such step or moment, a condition cannot be read, or something is
            given that nobody would read.
    """
    found = views(tables, pipeline)
    if pipeline.snapshots:
        found.setdefault(moments.NAME, moments.snapshots(tables, pipeline))
    if question.pairs is not None:
        once = asked(tables, pipeline, question.pairs, question.where, question.between)
        found = {NAME: once, **found}
    elif question.where or any(question.between):
        raise ConfigError("a condition and a period go with pairs of a join. Or write SQL alone")
    sql = question.statement
    if sql is None and question.moment is not None:
        raise ConfigError("a moment goes with SQL, which is answered as of it. Write some as well")
    if sql is None or question.moment is None:
        return found
    newest = as_of(found, sql)
    if newest is None:
        return found
    return moments.up_to(found, moments.moment(tables, pipeline, question.moment, newest))
