"""A lake of history and live records that are corrected as they come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.lake.log.blocks import HISTORY
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

FILES, EACH = 4, 40


def corrected(home: Path, name: str, seed: int, each: Callable[[Lake], Any]) -> Lake:
    """After each live file the query starts anew and a correction runs; then ``each`` happens."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    history = {"files": str(home / "history"), "format": "jsonl"}
    (home / "live").mkdir(parents=True)
    rows = some_rows(EACH * (FILES + 1), seed)
    write_jsonl(home / "history" / "0.jsonl", rows[:EACH])
    lake = make_lake(home, CASES[name], source=source, history=history)
    lake.ingest(HISTORY)
    for number in range(1, FILES + 1):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[EACH * number : EACH * (number + 1)])
        lake.ingest()
        lake.query(blocks=3).run()
        lake.correct()
        each(lake)
    return lake
