from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.config.catalog import read_pipeline
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.runtime.demo.truth import Truth, Verdict

PIPELINE = """
source: {files: raw, mode: bounded}
columns: {place: {type: string, from: site}, delay: double}
event_time: seen
steps:
  per_place:
    keys: [place]
    where: delay is null or delay < 1000
    window: {size: PT1H, slide: PT30M}
    measures:
      {n: count(*), known: count(delay), mean: avg(delay), total: sum(delay), worst: max(delay)}
    slack: {fixed: PT0S}
"""
HALF = timedelta(minutes=30)
SCHEMA = pa.schema(
    [
        ("place", pa.string()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_end", pa.timestamp("us", tz="UTC")),
        ("n", pa.int64()),
        ("known", pa.int64()),
        ("mean", pa.float64()),
        ("total", pa.float64()),
        ("worst", pa.float64()),
        ("n_records", pa.int64()),
        ("reason", pa.string()),
    ]
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2013-10-01T{text}:00+00:00").astimezone(UTC)


def answer(place: str, start: str, delays: list[float | None], reason: str = "speed") -> Any:
    known = [delay for delay in delays if delay is not None]
    return {
        "place": place,
        "window_start": at(start),
        "window_end": at(start) + 2 * HALF,
        "n": len(delays),
        "known": len(known),
        "mean": sum(known) / len(known) if known else None,
        "total": sum(known) if known else None,
        "worst": max(known, default=None),
        "n_records": len(delays),
        "reason": reason,
    }


RAW = [
    # half an hour before each there is one more window
    ("JFK", "10:05", 4.0),
    ("JFK", "10:20", 8.0),
    ("JFK", "10:40", 5000.0),  # the condition leaves it out
    ("MIA", "11:00", None),
]
NOW = [
    answer("JFK", "09:30", [4.0, 8.0], "history"),
    answer("JFK", "10:00", [4.0, 8.0]),
    answer("MIA", "10:30", [None]),
    answer("MIA", "11:00", [None]),
]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "places.yaml").write_text(PIPELINE, encoding="utf-8")
    found, problems = read_pipeline(tmp_path / "places.yaml")
    assert found is not None, problems
    return found


@pytest.fixture
def truth(tmp_path: Path, pipeline: Pipeline) -> Iterator[Truth]:
    raw = pa.table(
        {
            "site": [site for site, _, _ in RAW],
            "seen": pa.array([at(seen) for _, seen, _ in RAW], pa.timestamp("us", tz="UTC")),
            "delay": pa.array([delay for _, _, delay in RAW], pa.float64()),
        }
    )
    pq.write_table(raw.slice(0, 2), tmp_path / "a.parquet")
    pq.write_table(raw.slice(2), tmp_path / "b.parquet")
    judge = Truth(pipeline, [tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path)
    yield judge
    judge.close()


def judged(truth: Truth, pipeline: Pipeline, first: list[Any], now: list[Any]) -> Verdict:
    tables = (pa.Table.from_pylist(rows, SCHEMA) for rows in (first, now))
    return truth.judge(pipeline.spec("per_place"), *tables)


def test_answers_that_are_right_are_not_wrong(truth: Truth, pipeline: Pipeline) -> None:
    verdict = judged(truth, pipeline, NOW, NOW)

    assert truth.records() == len(RAW)
    assert verdict.pairs == 6
    assert (verdict.windows, verdict.wrong, verdict.changed, verdict.unanswered) == (4, 0, 0, 0)
    assert (verdict.preloaded, verdict.timely) == (1, 3)


def test_first_answers_are_sorted_by_what_became_of_them(truth: Truth, pipeline: Pipeline) -> None:
    first = [NOW[0], answer("JFK", "10:00", [4.0]), NOW[2]]

    verdict = judged(truth, pipeline, first, NOW)

    assert (verdict.windows, verdict.wrong) == (4, 0)
    assert (verdict.preloaded, verdict.timely, verdict.unanswered) == (1, 2, 1)
    assert verdict.changed == 1


def test_examples_show_all_three_sides_of_what_changed_most(
    truth: Truth, pipeline: Pipeline
) -> None:
    first = [NOW[0], answer("JFK", "10:00", [4.0]), NOW[2]]

    changed, same = judged(truth, pipeline, first, NOW).examples

    assert (changed.key, changed.changed) == ("JFK", True)
    assert changed.window == "10-01 10:00-11:00"
    assert changed.values == {
        "n": (1, 2, 2),
        "known": (1, 2, 2),
        "mean": (4.0, 6.0, 6.0),
        "total": (4.0, 12.0, 12.0),
        "worst": (4.0, 8.0, 8.0),
    }
    assert (same.key, same.changed) == ("MIA", False)
    assert same.values["mean"] == (None, None, None)


@pytest.mark.parametrize(
    "now",
    [
        NOW[1:],  # missing
        [*NOW, answer("JFK", "10:30", [5000.0])],  # extra: the condition leaves its record out
        [*NOW, NOW[0]],  # doubled
        [*NOW[:3], NOW[3] | {"n": 2}],
        [*NOW[:3], NOW[3] | {"n_records": 2}],
        [*NOW[:3], NOW[3] | {"mean": 0.0}],  # not null
        [*NOW[:3], NOW[3] | {"window_end": at("12:01")}],
        [NOW[0] | {"mean": None}, *NOW[1:]],
        [NOW[0] | {"mean": float("nan")}, *NOW[1:]],
        [NOW[0] | {"mean": 6.0 + 1e-7}, *NOW[1:]],
        [NOW[0] | {"total": 12.0 + 1e-7}, *NOW[1:]],
        [NOW[0] | {"worst": 8.0 + 1e-12}, *NOW[1:]],
    ],
)
def test_whatever_is_not_the_truth_is_wrong(
    truth: Truth, pipeline: Pipeline, now: list[Any]
) -> None:
    assert judged(truth, pipeline, NOW, now).wrong >= 1


def test_the_last_digits_of_sums_and_means_may_differ(truth: Truth, pipeline: Pipeline) -> None:
    now = [NOW[0] | {"mean": 6.0 + 1e-12, "total": 12.0 - 1e-12}, *NOW[1:]]

    assert judged(truth, pipeline, NOW, now).wrong == 0


def test_no_answer_at_all_is_wrong(truth: Truth, pipeline: Pipeline) -> None:
    verdict = judged(truth, pipeline, [], [])

    assert (verdict.wrong, verdict.unanswered, verdict.examples) == (4, 4, ())


def test_a_landmark_window_is_refused(tmp_path: Path, truth: Truth) -> None:
    text = PIPELINE.replace("size: PT1H, slide: PT30M", "since: 2013-01-01T00:00:00Z, period: P1D")
    (tmp_path / "mark.yaml").write_text(text, encoding="utf-8")
    pipeline, problems = read_pipeline(tmp_path / "mark.yaml")
    assert pipeline is not None, problems

    with pytest.raises(ConfigError, match="landmark"):
        judged(truth, pipeline, NOW, NOW)
