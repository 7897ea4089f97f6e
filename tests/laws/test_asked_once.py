"""One-time queries: pairs of a past period from the log, over conditions that nobody had asked."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.lake.serve import asked as module
from penstock.lake.serve.asked import NAME, asked
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from tests.joins import CASES, logged, oracle_of, pairs_in, seen, true_pairs
from tests.lakes import Lake, make_lake
from tests.steps import CASES as STEPS
from tests.streams import us, write_jsonl
from tests.two_streams import CASES as TWO
from tests.two_streams import Life

pytestmark = pytest.mark.law
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lake_of(home: Path, name: str) -> Lake:
    draw, lake = random.Random(name), make_lake(home, oracle_of(name))  # noqa: S311
    for number in range(5):
        write_jsonl(
            home / "live" / f"{number}.jsonl", seen(draw, 40, CASES[name].apart, 30 * number)
        )
    lake.query()
    lake.ingest()
    lake.query().run()
    return lake


@pytest.mark.parametrize("name", ["far", "same", "month"])
def test_pairs_of_a_period_are_those_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 17)
    lake = lake_of(tmp_path, name)
    log, other = logged(lake), replace(CASES[name], holds=lambda a, b: a["bags"] == b["bags"])
    exact = true_pairs(log, other)
    times = sorted(r["event_time"] for r in log.records if r)
    low, high = times[len(times) // 3], times[2 * len(times) // 3]
    for ends in ((None, None), (low, None), (None, high), (low, high)):
        between = tuple(None if each is None else EPOCH + timedelta(microseconds=each)
                        for each in ends)  # fmt: skip
        view = asked(lake.tables, lake.pipeline, "s", "left.bags = right.bags", between)
        known = {NAME: view, **views(lake.tables, lake.pipeline)}
        with answered(known, f"FROM {NAME}") as found:
            rows = found.to_arrow_table()
        wanted = {
            (left, right) for left, right in exact
            if (ends[0] or 0) <= log.records[left]["event_time"] < (ends[1] or 2**62)
        }  # fmt: skip
        assert pairs_in(rows) == wanted
        assert wanted
        for row in rows.to_pylist():
            assert us(row["left_time"]) == log.records[row["left_seq"]]["event_time"]


def test_without_a_condition_all_that_are_near_are_pairs_of_two_streams(tmp_path: Path) -> None:
    life = Life(tmp_path, TWO["any"], seed=1)
    life.finish()
    lake = life.lake
    view = asked(lake.tables, lake.pipeline, "s", None, (None, None))
    exact = true_pairs(logged(lake), replace(TWO["any"], holds=lambda *_: True))
    assert pairs_in(view.content(None)) == exact
    assert exact
    assert not view.content(-1).num_rows


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("left.bag > 1", "condition: column left.bag is not declared"),
        ("left.bags >", "condition: cannot read"),
    ],
)
def test_a_wrong_condition_says_what_is_wrong(tmp_path: Path, where: str, said: str) -> None:
    lake = make_lake(tmp_path, oracle_of("far"))
    with pytest.raises(ConfigError, match=said):
        asked(lake.tables, lake.pipeline, "s", where, (None, None))


def test_of_other_steps_the_log_cannot_be_asked(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, STEPS["sites"])
    with pytest.raises(ConfigError, match="is no join"):
        asked(lake.tables, lake.pipeline, "s", None, (None, None))
