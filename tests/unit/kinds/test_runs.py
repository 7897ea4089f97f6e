"""Runs of observations: what is found is what is kept, however they were merged."""

import os
import random
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.groups import HASHES, hash_rows
from penstock.kinds.keyed import runs as module
from penstock.kinds.keyed.kept import NEVER
from penstock.kinds.keyed.runs import HASH, SEQ, TIME, Manifest, Run, Runs
from penstock.kinds.lookup.trimmed import DROPPED, trimmed

NAMES = [f"plate {number}" for number in range(30)]
EVERY = np.unique(hash_rows([pa.chunked_array([NAMES])], len(NAMES)))
SCHEMA = pa.schema([(HASH, pa.int64()), ("plate", pa.string()), (TIME, pa.int64()),
                    (SEQ, pa.int64()), (DROPPED, pa.int64()), ("site", pa.string())])  # fmt: skip


def observations(draw: random.Random, seq: int, count: int) -> pa.Table:
    plates = pa.array([draw.choice(NAMES) for _ in range(count)], pa.string())
    hashes = hash_rows([pa.chunked_array([plates])], count)
    times = [draw.randrange(1000) for _ in range(count)]
    columns = [hashes, plates, times, range(seq, seq + count), [NEVER] * count,
               [None if draw.random() < 0.1 else "north" for _ in range(count)]]  # fmt: skip
    arrays = [pa.array([*c], f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


@pytest.mark.parametrize("keep", [1, 3])
def test_what_is_found_holds_the_last_of_each_key(
    tmp_path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", 16)
    monkeypatch.setattr(module, "PIECE", 8)
    draw = random.Random(keep)  # noqa: S311
    runs, manifest = (
        Runs(tmp_path / "runs", partial(trimmed, keys=["plate"], keep=keep)),
        Manifest(),
    )
    every: list[tuple[str, int, int]] = []
    for number in range(60):
        fresh = observations(draw, len(every), draw.randrange(12))
        every += zip(*(fresh[name].to_pylist() for name in ("plate", TIME, SEQ)), strict=True)
        manifest = runs.added(manifest, fresh, number)
        hashes = np.array(sorted(draw.sample([*EVERY], 10)), np.int64)
        found = runs.found(manifest, hashes, SCHEMA).to_pylist()
        assert {row[HASH] for row in found} <= {*map(int, hashes)}
        for plate in {row["plate"] for row in found}:
            mine = sorted((t, s) for p, t, s in every if p == plate)
            rows = [row for row in found if row["plate"] == plate]
            there = sorted((row[TIME], row[SEQ]) for row in rows)
            assert there[-keep:] == mine[-keep:]
            gone = [t for t, s in mine if (t, s) not in there]
            assert max(row[DROPPED] for row in rows) == max(gone, default=NEVER)
    assert len(manifest.runs) < 3 * module.FAN
    assert sum(run.rows for run in manifest.runs) < len(every)


def test_a_merged_run_stays_until_nobody_can_ask_for_it(tmp_path: Path) -> None:
    draw = random.Random(1)  # noqa: S311
    runs, manifest = Runs(tmp_path, partial(trimmed, keys=["plate"], keep=1)), Manifest()
    for number in range(module.FAN):
        former, manifest = manifest, runs.added(manifest, observations(draw, number, 1), number)
    assert len(manifest.runs) == 1
    assert runs.found(former, EVERY, SCHEMA).num_rows == module.FAN - 1
    nothing = SCHEMA.empty_table()
    runs.added(manifest, nothing, module.FAN + module.REPEATED)
    assert files(tmp_path) == {run.name for run in manifest.runs}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.arrow")}


def test_a_run_of_a_killed_writer_goes_when_it_is_old(tmp_path: Path) -> None:
    draw = random.Random(3)  # noqa: S311
    runs, manifest = Runs(tmp_path, partial(trimmed, keys=["plate"], keep=1)), Manifest()
    other = runs.added(Manifest(), observations(draw, 0, 1), 0)
    lost = [runs.added(manifest, observations(draw, 0, 1), 0).runs[0].name for _ in range(2)]
    for name in (lost[0], other.runs[0].name):
        long_ago = time.time() - 2 * module.OLD
        os.utime(tmp_path / name, (long_ago, long_ago))
    for number in range(module.FAN):
        manifest = runs.added(manifest, observations(draw, number, 1), number)
    named = {run.name for run in manifest.runs} | {name for _, name in manifest.merged}
    assert len(named) == module.FAN + 1
    assert files(tmp_path) == named | {lost[1], other.runs[0].name}


def test_a_piece_at_a_time_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 64)
    most = list[int]()

    def merged(rows: pa.Table) -> pa.Table:
        most.append(rows.num_rows)
        return rows

    draw = random.Random(2)  # noqa: S311
    runs, manifest = Runs(tmp_path, merged), Manifest()
    tables = [observations(draw, number * 500, 500) for number in range(module.FAN)]
    for number, fresh in enumerate(tables):
        manifest = runs.added(manifest, fresh, number)
    assert len(manifest.runs) == 1
    assert max(most) < 1_000  # of 4,000
    assert sum(most) == 2 * sum(table.num_rows for table in tables)
    rows = runs.rows(manifest, SCHEMA)
    assert sorted(rows[SEQ].to_pylist()) == [*range(500 * module.FAN)]
    assert rows[HASH].to_pylist() == sorted(rows[HASH].to_pylist())
    assert rows[HASH].num_chunks > 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1_000])
def test_ranges_hold_every_hash_once(count: int) -> None:
    found = module.ranges(count)
    assert (len(found), found[0][0], found[-1][1]) == (count, 0, HASHES - 1)
    assert all(low == high + 1 for (_, high), (low, _) in pairwise(found))


def test_sizes_are_classes() -> None:
    limits = [module.SMALL, module.SMALL + 1, module.SMALL * module.FAN + 1]
    assert [Run("", rows).size for rows in limits] == [0, 1, 2]
