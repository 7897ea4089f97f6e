"""What is asked of the sealed blocks is what all of them say, though only some files are read."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import BEGINNING, micros
from penstock.lake.log.blocks import (
    HISTORY,
    LIVE,
    SLACK,
    newest_live_before,
    next_block,
    read_summaries,
    slack_changes,
)
from penstock.lake.storage import commit
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from tests.streams import BEGIN


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_live_event_time_and_the_next_block(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "ROW_GROUP", 1 + seed % 5)
    random, tables = Random(seed), Tables(str(tmp_path), "p")  # noqa: S311
    assert (next_block(tables), newest_live_before(tables, 5)) == (0, BEGINNING)
    blocks = Table(tables.blocks())
    rows = [
        {
            "block": number, "kind": "data", "origin": random.choice((LIVE, HISTORY)),
            "first_seq": number, "last_seq": number, "lateness_us": 0, "plan": number,
            "t_max": random.choice(
                (None, BEGIN + timedelta(microseconds=random.randint(-5_000, 5_000)))
            ),
        }
        for number in range(40)
    ]  # fmt: skip
    at = 0
    while at < len(rows):
        end = at + random.choice((1, 1, 5, 20))
        some = pa.Table.from_pylist(rows[at:end], blocks.spec.schema)
        blocks.append(some, "made", at)
        at = end
        if random.random() < 0.1:
            blocks.refresh().optimize.compact()
    assert next_block(tables) == 40
    for block in range(0, 41, 5):
        live = [r["t_max"] for r in rows[:block] if r["origin"] == LIVE and r["t_max"]]
        newest = max(map(micros, live), default=BEGINNING)
        assert newest_live_before(tables, block) == newest
        told = read_summaries(tables, block, block + 7)
        assert [b.number for b in told] == [*range(block, min(block + 7, 40))]


def test_the_decisions_of_a_step_are_its_own_in_order(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path), "p")
    decisions = Table(tables.decisions())
    spans = [("b", 3, 30), ("a", 0, 10), ("c", 0, 40), ("b", 0, 20), ("b", 3, 50)]
    for number, (step, block, span) in enumerate(spans):
        row = {
            "step": step, "block": block, "what": SLACK, "reason": "test",
            "value": SlackSpec(SlackPolicy.FIXED, span).to_text(),
            "decided_at": BEGIN + timedelta(seconds=number),
        }  # fmt: skip
        rows = [row, row | {"what": "else", "value": "none"}]
        decisions.append(pa.Table.from_pylist(rows, decisions.spec.schema), "made", number)
    found = {step: slack_changes(tables, step) for step in ("a", "b", "c", "d")}
    told = {step: [(c.block, c.spec.span) for c in some] for step, some in found.items()}
    assert told == {"a": [(0, 10)], "b": [(0, 20), (3, 30), (3, 50)], "c": [(0, 40)], "d": []}
