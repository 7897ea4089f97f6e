"""Landmark answers: the periods since the landmark, merged when they are read."""

from datetime import UTC, datetime
from fractions import Fraction
from math import inf
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.config.catalog import read_pipeline
from penstock.core.step import StepSpec
from penstock.kinds.aggregate.views import so_far
from penstock.lake.storage.tables import Tables
from tests.reference import double

PIPELINE = """
source: {files: somewhere}
columns: {site: string, x: double}
event_time: at
steps:
  seen:
    keys: [site]
    window: {since: 2024-01-01T00:00:00Z, period: P1D}
    measures: {n: count(*), mean: avg(x), most: max(x), total: sum(x)}
    slack: {fixed: PT5M}
"""


def landmark_step(folder: Path) -> StepSpec:
    path = folder / "sites.yaml"
    path.write_text(PIPELINE)
    pipeline, problems = read_pipeline(path)
    assert pipeline is not None, problems
    return pipeline.specs[0]


def period(day: int, site: str, values: list[float | None]) -> dict[str, object]:
    seen = [v for v in values if v is not None]
    return {
        "site": site,
        "window_start": datetime(2024, 1, day, tzinfo=UTC),
        "window_end": datetime(2024, 1, day + 1, tzinfo=UTC),
        "n": len(values),
        "mean": sum(x / len(seen) for x in seen) if seen else None,
        "total": double(sum(map(Fraction, seen))) if seen else None,
        "mean_count": len(seen),
        "most": max(seen, default=None),
        "n_records": len(values),
    }


def test_an_average_of_a_landmark_brings_its_count_along(tmp_path: Path) -> None:
    names = [measure.name for measure in landmark_step(tmp_path).measures]
    assert names == ["n", "mean", "mean_count", "most", "total"]


def test_the_answer_as_of_a_period_is_the_merge_of_all_up_to_it(tmp_path: Path) -> None:
    step = landmark_step(tmp_path)
    rows = [
        period(1, "a", [1.0, 3.0, None]),
        period(2, "a", [None]),
        period(4, "a", [8.0]),
        period(4, "b", [-1.0]),
    ]
    schema = Tables("lake", "sites").answers(step).schema
    merged = so_far(pa.Table.from_pylist(rows, schema=schema), step).to_pylist()
    found = [(r["as_of"].day, r["site"], r["n"], r["mean"], r["most"]) for r in merged]
    assert found == [
        (2, "a", 3, 2.0, 3.0),
        (3, "a", 4, 2.0, 3.0),
        (5, "a", 5, 4.0, 8.0),
        (5, "b", 1, -1.0, -1.0),
    ]


def test_sums_since_a_landmark_may_pass_through_what_no_double_holds(tmp_path: Path) -> None:
    step = landmark_step(tmp_path)
    days = [[1e308], [1e308], [-1e308], [5e-324], [1e308, 1e308], [-1e308, -1e308, -1e308]]
    rows = [period(day, "a", values) for day, values in enumerate(days, 1)]
    schema = Tables("lake", "sites").answers(step).schema
    merged = so_far(pa.Table.from_pylist(rows, schema=schema), step).to_pylist()
    assert [r["total"] for r in merged] == [1e308, inf, 1e308, 1e308, inf, None]
    means = [r["mean"] for r in merged]
    wanted = [1e308, 1e308, 1e308 / 3, 1e308 / 4, 1e308 / 2, 0.0]
    assert means == pytest.approx(wanted, rel=1e-12, abs=1e294)
    assert merged[3]["total"] == 1e308
