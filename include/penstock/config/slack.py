"""How long a step waits for late records, and how good its timely answers must be."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from penstock.config.model import ColumnName, Model
from penstock.core.coverage import BOUNDED, TOTALS, QualityTarget, coverage_threshold
from penstock.core.errors import ConfigError
from penstock.core.expression import MeasureSpec
from penstock.core.measure import ColumnType, Function
from penstock.core.slack import SlackPolicy, SlackSpec, Tuning
from penstock.core.window import micros


class MaxDelay(Model):
    """K is the greatest lateness seen so far."""

    bound: timedelta = Field(gt=timedelta(0), description="Greater lateness does not count.")


class Bound(Model):
    """The target of one measure."""

    epsilon: float | None = Field(default=None, description="Relative error; none: the step's.")
    delta: float | None = Field(default=None, description="Share further off; none: the step's.")


class Quality(Model):
    """P(relative error of a closed window's answer >= epsilon) <= delta."""

    epsilon: float = Field(description="Relative error to stay below; of quantiles, by rank.")
    delta: float = Field(description="Share of answers that may be further off.")
    measures: dict[ColumnName, Bound] = Field(
        default={}, description="By name: another target for some measures."
    )
    records: int = Field(
        default=100,
        ge=2,
        description="Records an answer (of: total: a window) is expected to hold, at least.",
    )
    least: int = Field(
        default=1, ge=1, description="Answers of fewer records do not count as violations."
    )
    cv: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="Expected standard deviation of the values, of their mean.",
    )

    of: Literal["answer", "total", "pairs"] = Field(
        default="answer",
        description="Whether each key's answer is bound, or a window's total; total goes without"
        " measures and least. Of a join always pairs: how many of a window's are missing at first.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        try:
            for name in ("", *self.measures):
                self.target(name)
        except ConfigError as wrong:
            raise ValueError(str(wrong)) from wrong
        if self.of == "total" and (self.measures or self.least > 1):
            raise ValueError(
                "measures and least are about answers, but of: total binds a window's total. Delete"
                " them or of"
            )
        return self

    @property
    def counted(self) -> str:
        """What may be off."""
        return {"answer": "answers", "total": "windows' totals", "pairs": "windows' pairs"}[self.of]

    def target(self, measure: str = "") -> QualityTarget:
        """As the core knows it, of a measure; without a name the step's own."""
        own = self.measures.get(measure, Bound())
        return QualityTarget(
            self.epsilon if own.epsilon is None else own.epsilon,
            self.delta if own.delta is None else own.delta,
        )

    def targets(self, measures: Iterable[MeasureSpec]) -> list[tuple[MeasureSpec, QualityTarget]]:
        """Of each measure; of those that have totals, if these are bound; of pairs, of a count."""
        if self.of == "pairs":
            return [(PAIRS, self.target().for_pairs())]
        bound = [m for m in measures if self.of == "answer" or m.function in TOTALS]
        return [(measure, self.target(measure.name)) for measure in bound]

    def threshold(self, measures: Collection[MeasureSpec]) -> float:
        """Coverage that is enough for all of these measures."""
        return coverage_threshold(self.targets(measures), self.records, self.cv**2)

    def share(self, measures: Collection[MeasureSpec]) -> float:
        """Of windows that may hold less: the smallest delta of a measure with a bound."""
        bound = [t.delta for m, t in self.targets(measures) if m.function in BOUNDED]
        return min(bound, default=self.delta)


PAIRS = MeasureSpec("pairs", Function.COUNT, None, ColumnType.LONG)
USUAL = Quality(epsilon=0.05, delta=0.05)
"""What a step without a target is looked at with."""


class Steered(Model):
    """K follows coverage: what a window held when it closed, of all that came for it."""

    SIZES: ClassVar[int | None] = None

    measure_after: timedelta | None = Field(
        default=None,
        ge=timedelta(0),
        description="How long after its end a window is measured, event time; none: 5 sizes for pd,"
        " for the others once hardly a record still comes.",
    )
    recent: timedelta | None = Field(
        default=None,
        gt=timedelta(0),
        description="Event time that is remembered; none: all for pd, which one ancient record then"
        " holds back for good, the last windows for the others.",
    )

    def tuning(self, quality: Quality, measures: Collection[MeasureSpec], size: int) -> Tuning:
        """As the core knows it; ``size`` of a window, us."""
        horizon = self.SIZES and self.SIZES * size
        if self.measure_after is not None:
            horizon = micros(self.measure_after)
        recent = None if self.recent is None else micros(self.recent)
        threshold, share = quality.threshold(measures), quality.share(measures)
        return Tuning(threshold, share, horizon, recent)


class Pd(Steered):
    """K = alpha k: a share of the greatest lateness, steered by coverage, as published (HPM)."""

    SIZES: ClassVar[int | None] = 5

    kp: float = Field(default=0.2, ge=0, description="Weight of the error.")
    kd: float = Field(default=4.0, ge=0, description="Weight of the error's change.")

    def tuning(self, quality: Quality, measures: Collection[MeasureSpec], size: int) -> Tuning:
        """As the core knows it; without ``recent`` the lateness of all time counts."""
        plain = super().tuning(quality, measures, size)
        return replace(plain, kp=self.kp, kd=self.kd)


class PdFinal(Steered):
    """K = alpha k as for ``pd``, of final coverage and with gains from the delay of its loop."""


class Quantile(Steered):
    """K is the slack that the last windows turned out to need, steered by what came of it."""


class SlackConfig(Model):
    """How far the watermark stays behind the newest event time."""

    fixed: timedelta | None = Field(default=None, ge=timedelta(0), description="K, as given.")
    max_delay: MaxDelay | None = Field(default=None, description="K = greatest lateness so far.")
    pd: Pd | None = Field(
        default=None, description="K is steered by coverage, as published (HPM); needs quality."
    )
    pd_final: PdFinal | None = Field(
        default=None,
        description="As pd, but of final coverage and with gains from the delay of its loop;"
        " needs quality.",
    )
    quantile: Quantile | None = Field(
        default=None, description="K as the last windows turned out to need; needs quality."
    )

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        named = [p for p in SlackPolicy if getattr(self, p.value) is not None]
        if len(named) != 1:
            raise ValueError(
                "name one policy: {fixed: PT5M}, {max_delay: {bound: PT12H}}, {quantile: {}},"
                " {pd_final: {}} or {pd: {}}"
            )
        return self

    @property
    def steered(self) -> Steered | None:
        """The policy, if it is one that needs a quality target."""
        return self.pd or self.pd_final or self.quantile

    def spec(
        self, quality: Quality | None, measures: Collection[MeasureSpec], size: int
    ) -> SlackSpec:
        """As the core knows it; ``size`` of a window, us."""
        if self.steered is not None and quality is not None:
            policy = next(p for p in SlackPolicy if getattr(self, p.value) is not None)
            return SlackSpec(policy, 0, self.steered.tuning(quality, measures, size))
        if self.max_delay is not None:
            return SlackSpec(SlackPolicy.MAX_DELAY, micros(self.max_delay.bound))
        return SlackSpec(SlackPolicy.FIXED, micros(self.fixed or timedelta()))
