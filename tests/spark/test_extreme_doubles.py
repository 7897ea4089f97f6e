"""Sums of the largest doubles: the product, the audit's plain Spark SQL and the oracle agree."""

import math
import random
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.core.batch_size import Bounds
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.spark.audit import Audit
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests import reference as ref
from tests.doubles import FixedClock, RecordingPulse, RisingClock
from tests.lakes import Lake, make_lake
from tests.spark.test_correct_and_audit import GOOD
from tests.steps import over
from tests.streams import BEGIN, SECOND, write_jsonl

pytestmark = pytest.mark.spark

GREATEST = sys.float_info.max
TINY = [1e-300, 2.3e-308, 5e-324, 0.0, -0.0]
EXTREMES = [GREATEST, 1e308, 6e307, 2.0**960, 1e290, 1.0, *TINY]
STEP = {
    "keys": ["site"],
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {"n": "count(*)", "total": "sum(delay)", "mean": "avg(delay)",
                 "low": "min(delay)", "high": "max(delay)", "middle": "median(delay)",
                 "ratio": "sum(delay / bags)"},
    "slack": {"fixed": "PT10S"},
}  # fmt: skip


def _ratio(record: ref.Record) -> float | None:
    delay, bags = record["delay"], record["bags"]
    found = float(delay) / float(bags) if bags else math.inf
    return found if math.isfinite(found) else None


ORACLE = ref.Step(
    ("site",),
    ref.Window(60 * SECOND, 20 * SECOND),
    (
        ref.Measure("n", "count"),
        ref.Measure("total", "sum", over("delay")),
        ref.Measure("mean", "avg", over("delay")),
        ref.Measure("low", "min", over("delay")),
        ref.Measure("high", "max", over("delay")),
        ref.Measure("middle", "quantile", over("delay")),
        ref.Measure("ratio", "sum", _ratio),
    ),
    (ref.Slack("fixed", 10 * SECOND),),
)


def records(count: int) -> list[dict]:
    """A second apart, some late: every window holds several extremes, of site c tiny ones."""
    draw = random.Random(3)  # noqa: S311
    rows = []
    for i in range(count):
        late = draw.random() < 0.2
        at = BEGIN + timedelta(seconds=i - (draw.randint(20, 80) if late else 0))
        site = draw.choice("abc")
        size = draw.choice(TINY if site == "c" else EXTREMES) * draw.choice([1, -1])
        rows.append({"event_time": at, "site": site, "code": 1, "delay": size,
                     "bags": draw.choice([0, 1, 2, None]), "live": True})  # fmt: skip
    return rows


def test_the_largest_doubles_pass_the_stream_the_correction_and_the_audit(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 80)  # late is what an earlier block has closed
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(tmp_path, (STEP, ORACLE), source=source)
    rows = records(240)
    for i in range(0, len(rows), 60):
        write_jsonl(tmp_path / "live" / f"{i}.jsonl", rows[i : i + 60])
    StreamHost(quick, lake.tables, lake.pipeline, tmp_path, lake.clock, RecordingPulse()).run(
        Bounds.fixed(1)
    )
    lake.check()
    correct_pipeline(quick, lake.tables, lake.pipeline, RisingClock(), "r")
    lake.check()
    answers = answers_in_force(lake.tables, lake.step)
    totals = answers["total"].to_pylist()
    assert any(math.isinf(x) for x in totals)
    assert any(0 < abs(x) < 1e-200 for x in answers["low"].to_pylist())
    assert all(math.isfinite(x) for x in answers["mean"].to_pylist())
    large = pa.array([math.isfinite(x) and abs(x) > 1e307 for x in totals])
    wrong = forged(lake, answers.filter(large).to_pylist()[0])
    (row,) = Audit(quick, lake.tables, lake.pipeline, FixedClock()).comparisons(
        timedelta(minutes=9)
    )
    assert row["pairs_late"] > 0
    found = {name: row[name] for name in GOOD if row[name]}
    said = ("wrong_answers", "doubled_answers", "forged_answers", "corrections_wrong")
    assert found == dict.fromkeys(said, 1), row["examples"]
    assert str(wrong) in row["examples"], "the size of the numbers hides nothing"


def forged(lake: Lake, row: dict[str, Any]) -> float:
    """A finished correction says that a total is a millionth less; returns what it says."""
    at = position(lake.tables, lake.step)
    assert at is not None
    total = float(row["total"]) * (1 - 1e-6)
    row |= {"total": total, "reason": "late", "revision": 9, "through_seq": at.sealed.seq,
            "generation": None, "micro_batch": None, "plan": max(at.done)}  # fmt: skip
    table = Table(lake.tables.answers(lake.step))
    table.append(pa.Table.from_pylist([row], schema=table.spec.schema), "forger", 0)
    return total
