"""Queries are added and removed while the stream runs: the others' answers stay as they were."""

import random
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door as door_module
from penstock.spark.correct import correct_pipeline
from tests.asking import ASKED, QUERIES, Asking, said
from tests.forgery import audited
from tests.joins import oracle_of, seen
from tests.lakes import Lake, make_lake
from tests.side import taken_at_once
from tests.spark.answering import answer
from tests.streams import write_jsonl

__all__ = ["taken_at_once"]
pytestmark = [pytest.mark.spark, pytest.mark.all]  # two minutes; the law holds in memory each time
EDITS, EACH, BLOCK = 20, 10, 5
STANDS = "far"
"""A query that is asked throughout."""


def fed(home: Path) -> tuple[Lake, Iterator[int]]:
    """A live stream of one query; each file comes when it is asked for."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live", "idle_after": "PT1H"}
    first = {"queries": {STANDS: QUERIES[STANDS][0]}}
    lake = make_lake(home, (ASKED | first, oracle_of("far")[1]), source=source)
    (home / "live").mkdir(parents=True)
    draw = random.Random(5)  # noqa: S311

    def files() -> Iterator[int]:
        for number in count():
            rows = seen(draw, EACH, 1.0, number * EACH)
            write_jsonl(home / "live" / f"{number:03d}.jsonl", rows)
            yield number + 1

    return lake, files()


def sealed(lake: Lake, files: int) -> bool:
    at = position(lake.tables, lake.step)
    return at is not None and at.sealed.seq == files * EACH - 1


def stood(rows: Any) -> set[tuple[int, int]]:
    """Pairs that satisfy the query that stands."""
    return {pair for pair, names in said(rows).items() if STANDS in names.split(",")}


def test_queries_that_come_and_go_twenty_times_leave_the_others_as_they_were(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake, files = fed(tmp_path / "edited")
    draw = random.Random(2)  # noqa: S311
    asking, others = Asking(lake, draw), sorted(QUERIES.keys() - {STANDS})
    asking.change([STANDS])
    asked, edits, came = set[str](), 0, 0

    def goes_on(_: Any) -> bool:
        """At each beat a file may come; once an edit is in force the next may be made."""
        nonlocal edits, came
        decided = len(asking.decided()) == edits + 1
        if not (edits == EDITS and decided):
            came = next(files) if draw.random() < 0.7 else came
        if edits < EDITS and decided and draw.random() < 0.5:
            asked.symmetric_difference_update({draw.choice(others)})  # one is added, or removed
            asking.change([STANDS, *sorted(asked)])
            edits += 1
            decided = False
        return edits == EDITS and decided and sealed(lake, came)

    answer(spark, lake, 3 * BLOCK, goes_on)
    alone, files = fed(tmp_path / "alone")
    Asking(alone, random.Random(1)).change([STANDS])  # noqa: S311
    assert [*islice(files, came)][-1] == came
    answer(spark, alone, 60 * BLOCK, lambda _: sealed(alone, came))
    decided = asking.decided()
    assert len(decided) == EDITS + 1
    assert len({first for first, _ in decided}) > EDITS / 2, "they came between records"
    assert len(generations(lake.tables, lake.step)) == 1
    timely = timely_answers(lake.tables, lake.step)
    assert stood(timely) == stood(timely_answers(alone.tables, alone.step))
    assert len({*said(timely).values()}) > 3
    correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r")
    assert asking.check(settled=True) > len(stood(timely))
    verdict = audited(spark, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
