"""Sources with all that a door has to tell apart, and what it made of them, row by row."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.place import path_of
from penstock.lake.ingest import door, pieces, source
from penstock.lake.storage import drafts
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.gates import Gate

TABLES = ("plans", "events", "quarantine", "blocks")
ODD = [
    "\n",
    "  \r\n",
    "no\n",
    "[1]\n",
    '{"site": "a"}\n',
    "\x00\n",
    '{"event_time": 7, "x": NaN}\n',
]


def small_plans(patch: pytest.MonkeyPatch) -> None:
    """Several pieces to a plan, several files and blocks to a piece."""
    patch.setattr(source, "RECORDS_PER_PLAN", 80)
    patch.setattr(source, "BYTES_PER_PLAN", 6_000)
    patch.setattr(source, "FILES_PER_PLAN", 12)
    patch.setattr(door, "BLOCK", 48)
    patch.setattr(pieces, "LARGE_ROWS", 0.5)
    patch.setattr(drafts, "FILE_ROWS", 30)


def fill(folder: Path, kind: str, draw: random.Random) -> None:
    folder.mkdir(parents=True)
    for number in range(30):
        file = folder / f"{number:02}.{kind}"
        count = draw.choice([0, 1, 5, 20, 20, 60])
        rows = [_row(draw, number) for _ in range(count)]
        if kind == "parquet":
            _as_parquet(file, rows, draw)
        elif kind == "jsonl":
            lines = [f"{json.dumps(row)}\n" for row in rows]
            lines += draw.sample(ODD, draw.choice([0, 0, 2]))
            draw.shuffle(lines)
            file.write_text("".join(lines)[: -1 if draw.random() < 0.2 else None])
        else:
            _as_csv(file, rows, draw)


def _row(draw: random.Random, number: int) -> dict[str, Any]:
    minute = max(0, min(1_439, number * 20 + draw.randint(-200, 20)))
    time = f"2024-03-01T{minute // 60:02}:{minute % 60:02}:00Z"
    return {
        "event_time": draw.choice([time] * 9 + ["soon"]),
        "site": draw.choice(["a", "b", "ü", None]),
        "delay": draw.choice(["1.5", "2", "x"]),
        "colour": draw.choice(["red", 'a "b"', "x\ny", ""]),
    }


def _as_parquet(file: Path, rows: list[dict[str, Any]], draw: random.Random) -> None:
    names = ["event_time", "site", "delay", "colour"]
    table = pa.table({n: pa.array([row[n] for row in rows], pa.string()) for n in names})
    later = draw.choice(["", "", "depth", "Depth", "width", "nothing"])
    if later:
        kind = draw.choice([pa.int64(), pa.int64(), pa.string()])
        kind = pa.null() if later == "nothing" else kind
        values = [None if pa.types.is_null(kind) else i for i in range(len(rows))]
        table = table.append_column(later, pa.array(values).cast(kind))
    pq.write_table(table, file, row_group_size=25)
    if draw.random() < 0.1:  # a page, or all, is damaged
        content = bytearray(file.read_bytes())
        content[4 : 40 if draw.random() < 0.5 else None] = b"\xff" * 36
        file.write_bytes(content)


def _as_csv(file: Path, rows: list[dict[str, Any]], draw: random.Random) -> None:
    names = "event_time,site,delay,colour"
    header = draw.choice([names] * 6 + ["a,b", f"\n{names}"])
    lines = [",".join(map(_quoted, row.values())) for row in rows]
    lines += draw.sample(["", " ", '2024-03-01T12:00:00Z,"a', "1,2"], draw.choice([0, 0, 2]))
    draw.shuffle(lines)
    file.write_text("".join(f"{line}\n" for line in [header, *lines]))


def _quoted(value: str | None) -> str:
    """As a writer of CSV does that quotes line ends: a record is one line here, so two come."""
    if value is None:
        return ""
    return f'"{value}"' if {*value} & {" ", "\n"} else value


def log_of(gate: Gate) -> dict[str, list[dict[str, Any]]]:
    table = Table(gate.tables.plans())
    found = {"plans": read_table(table).sort_by("number").to_pylist()}
    found |= {name: gate.rows(name) for name in TABLES[2:]}
    return found | {"events": gate.kept()}


def begun(gate: Gate) -> None:
    """As if whoever made the plans had died then: nothing but them is there."""
    lake = path_of(gate.tables.uri("plans")).parent
    kept = gate.home / "kept"
    shutil.move(lake, kept)
    lake.mkdir()
    shutil.copytree(kept / "plans", lake / "plans")
    shutil.rmtree(kept)
