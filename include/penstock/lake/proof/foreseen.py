"""What stands against a quality target already on a sample of the source, in words.

The same doubts as ``penstock.lake.proof.doubts`` has of a pipeline that runs, as far as records
tell before any answer was corrected.
"""

from math import sqrt
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import evaluate, true_for
from penstock.config.pipeline import Pipeline
from penstock.core.controller import Controller
from penstock.core.expression import Expression
from penstock.core.patient import Patient
from penstock.core.step import StepSpec
from penstock.lake.ingest.sample import Sample
from penstock.lake.proof.doubts import OF_VALUES, few, no_feedback, unknown, values_decide
from penstock.lake.proof.figures import LEAST_WINDOWS, fed_back, named
from penstock.lake.storage.tables import Tables

LATEST = 0.05
"""Share of the records, the latest, whose values are compared with those of all."""
ERRORS = 4.0
"""Standard errors by which the mean of late values must differ: less may be chance."""


def foreseen(
    tables: Tables,
    pipeline: Pipeline,
    step: StepSpec,
    sample: Sample,
    controller: Controller | None,
) -> list[str]:
    """A sentence each; none: it has no quality target, or nothing stands against it.

    Args:
        tables: of the pipeline, where some may have been corrected already.
        pipeline: the pipeline.
        step: one of its steps.
        sample: of the source, not empty.
        controller: of the slack, as the sample left it; none: the slack is not steered.
    """
    quality, found = pipeline.steps[step.name].quality, []
    if quality is None:
        return []
    if isinstance(controller, Patient) and not controller.steady:
        found.append(unknown(controller, " in the sample"))
    recorded = len(fed_back(tables, step, quality))
    if recorded < LEAST_WINDOWS:
        found.append(no_feedback(recorded, quality, pipeline.name))
    kept = np.asarray(true_for(step.where, sample.columns), dtype=bool)
    if not kept.any():
        return found
    held = _records(sample, step, kept, of_answers=quality.of == "answer")
    counted = [records for records in held if records >= quality.least]
    if counted:
        found += few(round(median(counted)), quality, step)
    else:
        found.append(
            f"too few records: no answer of the sample holds the {quality.least} from which on it"
            f" counts, the largest {max(held):,}. Longer windows, fewer keys or a smaller least"
            " help"
        )
    return found + values_decide(_late_values(sample, step, kept))


def _records(sample: Sample, step: StepSpec, kept: np.ndarray, *, of_answers: bool) -> list[int]:
    """Of each answer, or of each window; windows one after the other stand for those that slide."""
    rows = sample.columns.filter(pa.array(kept))
    by = {"window": pa.array((sample.times[kept] - step.window.origin) // step.window.size)}
    if of_answers:
        by |= {f"key {i}": evaluate(key, rows) for i, key in enumerate(step.keys)}
    counted = pa.table(by).group_by([*by]).aggregate([([], "count_all")])
    found: list[int] = counted["count_all"].to_pylist()
    return found


def _late_values(sample: Sample, step: StepSpec, kept: np.ndarray) -> dict[str, float]:
    """By measures of values: the mean of the latest records' over that of all, if not by chance."""
    lags = sample.lateness[kept]
    late = lags > max(0, int(np.quantile(lags, 1 - LATEST)))
    rows, found = sample.columns.filter(pa.array(kept)), {}
    for over, name in named(m for m in step.judged if m.function in OF_VALUES).items():
        values = _plain(over, rows)
        there = np.isfinite(values)
        some = values[there & late]
        mean, spread = _moments(values[there])
        if not len(some) or not mean:
            continue
        if abs(some.mean() - mean) > ERRORS * spread / sqrt(len(some)):
            found[name] = float(some.mean() / mean)
    return found


def _moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation; no double holds the square of the largest."""
    if not len(values):
        return 0.0, 0.0
    unit = float(np.abs(values).max()) or 1.0
    return float((values / unit).mean()) * unit, float((values / unit).std()) * unit


def _plain(over: Expression, rows: pa.Table) -> np.ndarray:
    """Numbers, not one where there is no value; nothing of what is the same for all."""
    values = evaluate(over, rows)
    if isinstance(values, pa.Scalar):
        return np.full(rows.num_rows, np.nan)
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64(), safe=False), np.nan), float)
