"""How much a step may leave to the correction while the stream cannot keep up."""

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator

from penstock.config.model import Model
from penstock.config.step import StepConfig
from penstock.core.errors import ConfigError
from penstock.core.shedding import Model as Rise
from penstock.core.shedding import Shedding
from penstock.core.window import micros


class Shed(Model):
    """Records left out of timely answers under load; the correction takes them as late ones."""

    model: Rise = Field(
        default=Rise.LINEAR, description="How the share rises from 0 to base: linear or quadratic."
    )
    base: float = Field(default=0.3, description="Greatest share of the records.")
    begins: float = Field(
        default=0.8, alias="from", description="Utilisation above which records are shed."
    )
    within: timedelta = Field(
        default=timedelta(seconds=10),
        description="Time that a sealed record has until it is answered; utilisation is the time"
        " that it takes, over this one.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        try:
            _ = self.spec
        except ConfigError as wrong:
            raise ValueError(str(wrong)) from wrong
        return self

    @property
    def spec(self) -> Shedding:
        """As the core knows it."""
        return Shedding(self.model, self.base, self.begins, micros(self.within))


class SheddingConfig(StepConfig):
    """A step of a kind that may shed."""

    shed: Shed | None = Field(
        default=None,
        exclude_if=lambda shed: shed is None,
        description="Leave a share of the records to the correction while the stream cannot keep"
        " up: {} for the usual bounds.",
    )

    @property
    def shedding(self) -> Shedding | None:
        """What it may shed."""
        return None if self.shed is None else self.shed.spec
