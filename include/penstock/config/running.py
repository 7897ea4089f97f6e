"""The part of a pipeline file that says when its jobs run, and how much a micro-batch takes."""

from datetime import timedelta
from typing import Self

from pydantic import Field, PositiveInt, model_validator

from penstock.config.forms import Cron
from penstock.config.model import Model
from penstock.core.batch_size import Bounds
from penstock.core.urgency import Urgency
from penstock.core.window import micros


class Schedule(Model):
    """When a job runs by itself."""

    cron: Cron = Field(description="Five fields, UTC.")


class Soon(Model):
    """When late records are repaired before the next scheduled run."""

    span: timedelta | None = Field(
        default=None, ge=timedelta(0), description="Event time that unrepaired records may span."
    )
    within: timedelta = Field(
        default=timedelta(minutes=10),
        ge=timedelta(minutes=1),
        description="A late record is repaired this long after its arrival.",
    )

    @property
    def urgency(self) -> Urgency:
        """As the core knows it."""
        return Urgency(None if self.span is None else micros(self.span), micros(self.within))


class Correction(Schedule):
    """When late records are repaired."""

    soon: Soon | None = Field(
        default=None, description="Also before that, when much or old lateness waits."
    )


class MicroBatch(Model):
    """How many records the stream takes at once; equal bounds: always so many."""

    least: PositiveInt = Field(
        default=65_536, description="Records a micro-batch takes, if so many wait."
    )
    most: PositiveInt = Field(
        default=4_000_000, description="Records at which it takes no further block."
    )
    takes: timedelta | None = Field(
        default=None,
        gt=timedelta(0),
        description="How long it may take. None: as many records as make it fastest.",
    )

    @model_validator(mode="after")
    def _are_in_order(self) -> Self:
        if self.least > self.most:
            raise ValueError(
                f"least {self.least:,} is more than most {self.most:,}: a micro-batch takes at"
                " least the first and at most the second"
            )
        if self.takes is not None and self.least == self.most:
            raise ValueError(
                "takes has no effect where least and most are equal: the size is fixed."
                " Widen them, or delete takes"
            )
        return self

    @property
    def bounds(self) -> Bounds:
        """As the core knows them."""
        return Bounds(
            self.least, self.most, None if self.takes is None else self.takes.total_seconds()
        )
