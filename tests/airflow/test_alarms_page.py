"""The page *Alarms*: what look-ups said last, against all they ever said."""

import random
from pathlib import Path

import pytest

from penstock.lake.history.position import position
from penstock.lake.history.view import answers_at
from penstock_airflow.web.alarms import SHOWN, Said, alarms
from tests.lakes import Lake
from tests.lookups import lookup_lake, seen
from tests.streams import write_jsonl

pytestmark = pytest.mark.airflow
HOW = {"speed": "at once", "backfill": "of the history", "late": "by a correction"}


def shown(lake: Lake) -> list[Said]:
    (found,) = alarms([lake.pipeline], str(lake.home / "lake"))
    assert (found.pipeline, found.step) == ("p", "s")
    assert found.columns == [
        "site", "new_seq", "old_seq", "new_time", "old_time", "new_code", "old_code"
    ]  # fmt: skip
    assert not found.note or not found.rows
    return found.rows


def every(lake: Lake) -> list[tuple[str, str, str]]:
    """Of each alarm its two positions, and how it was said; the newest first."""
    at = position(lake.tables, lake.step)
    assert at is not None
    rows = answers_at(lake.tables, lake.step, at).to_pylist()
    rows.sort(key=lambda row: (row["through_seq"], row["new_seq"], row["revision"]))
    last = {(row["new_seq"], row["old_seq"]): row for row in rows}
    found = sorted(last.values(), key=lambda r: (-r["through_seq"], -r["new_seq"], r["old_seq"]))
    return [
        (str(r["new_seq"]), str(r["old_seq"]), HOW[r["reason"]] if r["n_records"] else "taken back")
        for r in found
    ]


@pytest.mark.parametrize("pairs", ["all", "consecutive"])
def test_what_was_said_last_is_shown_with_both_sightings(tmp_path: Path, pairs: str) -> None:
    rows, hows = seen(random.Random(3), 90), set[str]()  # noqa: S311
    history = {"files": str(tmp_path / "history"), "format": "jsonl"}
    live = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = lookup_lake(tmp_path, pairs, keep=2, history=history, source=live)
    assert shown(lake) == []
    write_jsonl(tmp_path / "history" / "0.jsonl", rows[:30])
    lake.ingest("history")
    query = lake.query()
    for number in range(10):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[30 + 6 * number :][:6])
        lake.ingest()
        while query.work():
            pass
        if number % 3 == 1:
            lake.correct()
        found = [(row.cells[1], row.cells[2], row.how) for row in shown(lake)]
        known = every(lake)
        assert found == known[: len(found)]
        assert len(found) > SHOWN / 2 or found == known
        hows |= {how for _, _, how in found}
    assert {"at once", "of the history", "by a correction"} <= hows
    assert ("taken back" in hows) == (pairs == "consecutive")


def test_a_table_that_cannot_be_read_is_said_and_hides_no_other(tmp_path: Path) -> None:
    whole, torn = (lookup_lake(tmp_path / name, "all", keep=2) for name in ("whole", "torn"))
    for lake in (whole, torn):
        lake.query()
        for number in range(3):
            seed = random.Random(number)  # noqa: S311
            write_jsonl(lake.home / "live" / f"{number}.jsonl", seen(seed, 30))
            lake.ingest()
            lake.query().work()
    files = (torn.home / "lake").rglob("answers/**/*.parquet")
    first = min(files, key=lambda file: file.stat().st_mtime_ns)
    first.write_bytes(first.read_bytes()[:-9])
    (found,) = alarms([torn.pipeline], str(torn.home / "lake"))
    assert not found.rows
    assert "cannot be read" in found.note
    assert shown(whole)
