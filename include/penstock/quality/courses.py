"""Shares over event time, drawn below what a step said: efficiency, and what was shed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import instant
from penstock.lake.serve.effort import efficiency
from penstock.lake.serve.gaps import DOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 200
COLOR = "#5f3dc4"


@dataclass(frozen=True, slots=True)
class Course:
    """A share over event time, per cent; not a number where there is nothing to say.

    Attributes:
        label: what of what.
        when: points, ascending.
        shares: of each.
    """

    label: str
    when: Sequence[datetime]
    shares: Sequence[float]

    def draw(self, axes: "Axes") -> None:
        """As a line that begins at 0."""
        axes.plot(list(self.when), list(self.shares), color=COLOR, **DOT)
        axes.set_ylim(0, min(105.0, max(1.0, 1.05 * np.nanmax([0.0, *self.shares]))))
        axes.set_ylabel(self.label)


def courses(rows: pa.Table, step: StepSpec) -> list[Course]:
    """Of each micro-batch, several of them in one point where there are many.

    Args:
        rows: as of ``effort``.
        step: whose.
    """
    found, shed = list[Course](), np.nan_to_num(_floats(rows, "shed"))
    if not rows.num_rows:
        return found
    if step.by_reach and efficiency(rows) is not None:
        told, looked = _floats(rows, "answers"), _floats(rows, "compared")
        found.append(_course("pairs of candidates\ncompared, %", rows, told, looked))
    if step.above is None and (step.shed is not None or shed.any()):
        found.append(_course("shed, %", rows, shed, np.full(len(shed), 100.0)))
    return found


def titled(said: Sequence[str], notes: Sequence[str]) -> str:
    """What a picture says above all, and below it what there is to know besides."""
    return "\n".join("; ".join(some) for some in (said, notes) if some)


def _course(label: str, rows: pa.Table, part: np.ndarray, whole: np.ndarray) -> Course:
    t_max = np.asarray(rows["t_max_us"])
    runs = np.array_split(np.arange(len(t_max)), min(POINTS, len(t_max)))
    sums = [(np.nansum(part[run]), np.nansum(whole[run])) for run in runs]
    shares = [100.0 * some / all_ if all_ else float("nan") for some, all_ in sums]
    return Course(label, [instant(int(t_max[run[-1]])) for run in runs], shares)


def _floats(rows: pa.Table, name: str) -> np.ndarray:
    return np.asarray(pc.cast(rows[name], pa.float64()), float)
