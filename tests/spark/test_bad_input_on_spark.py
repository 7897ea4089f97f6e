"""Bad input through the whole stream: it goes on, and every answer is exact."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import position
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.correct import correct_pipeline
from tests.answers import blocks_of
from tests.doubles import RisingClock
from tests.spark.conftest import flow, make_scene
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark
COUNT, EACH = 4_000, 500
SPOILT: list[Any] = [
    "", "no", "[1]", '{"site": ', '{"site": "\\ud800"}', "9" * 5_000, "[" * 100_000,
    {"site": None}, {"site": " "}, {"code": 2**63}, {"delay": "much"}, {"delay": float("nan")},
    {"delay": float("-inf")}, {"event_time": None}, {"event_time": "9999-12-31T23:59:59Z"},
    {"event_time": "0001-01-01T00:00:00Z"}, {"event_time": "2024-02-30T00:00:00Z"},
]  # fmt: skip


def test_a_stream_of_bad_input_goes_on_and_what_is_good_is_answered_exactly(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    scene = make_scene(tmp_path, source=source, skew="PT5M", not_before="2000-01-01T00:00:00Z")
    lines: list[Any] = []
    for number, row in enumerate(flow(COUNT)):
        lines.append(row | ({"added": [number]} if number % 7 == 0 else {}))
        if number % 40 == 0:
            wrong = SPOILT[number // 40 % len(SPOILT)]
            lines.append(wrong if isinstance(wrong, str) else json.dumps(row | wrong, default=str))
        if number % 90 == 0:
            lines.append(row)  # a duplicate is a record like any other
    for at in range(0, len(lines), EACH):
        write_jsonl(tmp_path / "live" / f"{at:05}.jsonl", lines[at : at + EACH])
    (tmp_path / "live" / "00250.jsonl").write_bytes(b"\xff\xfe\0\0\n\x1f\x8b")
    scene.answer(spark, blocks=5)
    lake = scene.lake("hourly")
    blank = sum(not line for line in lines)
    received = sum(len(block.records) for block in blocks_of(lake.tables, lake.pipeline))
    assert received == len(lines) - blank + 2
    clock = RisingClock()
    correct_pipeline(spark, lake.tables, lake.pipeline, clock, "r")
    for each in scene.lakes.values():
        each.check()
        at = position(each.tables, each.step)
        assert at is not None
        assert not each.pending(at)
    audit = Audit(spark, lake.tables, lake.pipeline, clock)
    for row in audit.comparisons(correction_interval(lake.pipeline)):
        assert row["received"] == received == row["accepted"] + row["quarantined"]
        bad = ("wrong_answers", "missing_answers", "extra_answers", "pairs_unaccounted",
               "numbers_missing", "numbers_doubled")  # fmt: skip
        assert {name: row[name] for name in bad} == dict.fromkeys(bad, 0)
