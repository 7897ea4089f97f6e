"""Answers that a query reads by itself are those of whoever reads them all."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.place import path_of
from penstock.lake.history.position import BACKFILL, SPEED
from penstock.lake.history.standing import standing
from penstock.lake.history.unread import BY
from penstock.lake.history.view import answers_at, in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.serve.query import answered
from penstock.lake.serve.revisions import TOLERANCE, Answers, answers
from penstock.lake.serve.views import views
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import DamagedTableError
from penstock.lake.storage.read import data_files
from tests.corrected import corrected
from tests.lakes import Lake
from tests.steps import CASES

Row = dict[str, Any]


def lived(home: Path, name: str) -> Lake:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 5)
        return corrected(home, name, 7, lambda _: None)


@pytest.fixture(scope="module", params=CASES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Nobody writes to it."""
    return lived(tmp_path_factory.mktemp(request.param), request.param)


def asked(lake: Lake, sql: str) -> list[Row]:
    with answered(views(lake.tables, lake.pipeline), sql) as found:
        rows: list[Row] = found.to_arrow_table().to_pylist()
    return rows


def alike(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def test_sql_sees_what_a_reader_of_all_answers_sees(lake: Lake) -> None:
    shown = standing(lake.tables, lake.step)
    assert shown is not None
    assert {SPEED, BACKFILL} <= set(
        answers_at(lake.tables, lake.step, shown.at)["reason"].to_pylist()
    )
    known = views(lake.tables, lake.pipeline)
    for seq in range(shown.at.epoch.seq, shown.at.seq + 1, 45):
        every = answers_at(lake.tables, lake.step, shown.at.up_to(seq))
        for view, rows in (("s", in_force(every, lake.step)), ("s_timely", timely(every))):
            then = {view: replace(known[view], seq=seq)}
            with answered(then, f"FROM {view}") as found:
                names = found.columns
                assert alike(found.to_arrow_table().to_pylist()) == alike(
                    rows.select(names).to_pylist()
                )


def timely(every: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [row for row in every.to_pylist() if row["reason"] == SPEED], schema=every.schema
    )


@pytest.mark.parametrize("limit", [1, 4, 1_000])
def test_what_is_shown_is_counted_from_all_answers(lake: Lake, limit: int) -> None:
    shown = standing(lake.tables, lake.step)
    assert shown is not None
    found = answers(lake.tables, shown, lake.pipeline, {}, limit)
    pairs = by_pair(lake, answers_at(lake.tables, lake.step, shown.at).to_pylist())
    firsts = {pair: first_of(rows) for pair, rows in pairs.items()}
    changed = {pair for pair, rows in pairs.items() if differs(lake, firsts[pair], rows[-1])}
    late = {pair for pair, first in firsts.items() if first is None}
    assert found.count == len(pairs)
    assert found.timely == sum(f is not None and f["reason"] == SPEED for f in firsts.values())
    assert found.history == sum(f is not None and f["reason"] == BACKFILL for f in firsts.values())
    assert (found.only_late, found.changed) == (len(late), len(changed))
    newest = sorted(pairs, key=lambda pair: (-pair[0].timestamp(), *pair[1:]))
    assert places(found, "newest") == newest[:limit]
    assert places(found, "repaired") == [pair for pair in newest if pair in changed | late][:limit]
    for row in found.newest:
        last = pairs[row.start, *row.key][-1]
        assert row.now == {name: last[name] for name in row.now}


def by_pair(lake: Lake, rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["through_seq"], row["revision"])):
        found.setdefault((row[BY], *(row[k] for k in lake.step.key_names)), []).append(row)
    return found


def first_of(rows: list[Row]) -> Row | None:
    return next((r for r in reversed(rows) if r["reason"] in (SPEED, BACKFILL)), None)


def differs(lake: Lake, first: Row | None, now: Row) -> bool:
    """Whether a reader sees another value; doubles to nine digits."""
    for name in [*(v.name for v in lake.step.values), "n_records"] if first else []:
        one, other = first[name], now[name]
        if isinstance(one, float) and isinstance(other, float):
            if abs(one - other) > TOLERANCE * max(abs(one), abs(other)):
                return True
        elif one != other:
            return True
    return False


def places(found: Answers, which: str) -> list[tuple[Any, ...]]:
    return [(row.start, *row.key) for row in getattr(found, which)]


def test_a_question_about_some_windows_opens_only_their_files(tmp_path: Path) -> None:
    lake = lived(tmp_path, "sites")
    table = Table(lake.tables.answers(lake.step))
    files = data_files(table.refresh(), BY)
    last = max(file.greatest or 0 for file in files)
    from_here = f"SELECT count(*) AS n FROM s WHERE window_start >= make_timestamptz({last - 999})"
    (before,) = asked(lake, from_here)
    other = next(file for file in files if file.greatest is not None and file.greatest < last - 999)
    path = path_of(table.spec.uri) / other.path
    whole = path.read_bytes()
    spoil(path)

    assert asked(lake, from_here) == [before]
    with pytest.raises(DamagedTableError, match=other.path.split("/")[-1]):
        asked(lake, "SELECT sum(n) FROM s")
    path.write_bytes(whole)
    its = next(file for file in files if file.greatest == last)
    spoil(path_of(table.spec.uri) / its.path)
    with pytest.raises(DamagedTableError, match=its.path.split("/")[-1]):
        asked(lake, from_here)


def spoil(path: Path) -> None:
    """Its ends are whole, and nothing between them can be read."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * (size - 12))
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
