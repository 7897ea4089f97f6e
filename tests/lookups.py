"""Small lakes of one look-up, and their log as the model has it."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests import lookup_model as model
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake, make_lake
from tests.streams import SECOND, instant

NOBODY = ref.Step(("site",), ref.Window(SECOND, SECOND), (), ())
"""The oracle of windows has nothing to say."""


def lookup_lake(home: Path, pairs: str, keep: int, **overrides: Any) -> Lake:
    """Nothing has come yet."""
    within = {"within": f"PT{model.REACH}S"} if pairs == "all" else {}
    step = {"kind": "lookup", "keys": ["site"], "keep": {"last": keep}, "pairs": pairs,
            "columns": ["code"], "alarm": "new.code <> old.code", **within}  # fmt: skip
    return make_lake(home, (step, NOBODY), **overrides)


def seen(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Observations of three keys, seconds apart, some of them late."""
    clock, found = 0, []
    for _ in range(count):
        clock += draw.randint(0, 2)
        at = 1_700_000_000 + clock - draw.choice((0, 0, 0, 1, 3, 9, 25))
        row = {"site": draw.choice("abc"), "code": draw.randrange(3), "delay": 1.0, "bags": 1,
               "live": True, "event_time": instant(at * SECOND)}  # fmt: skip
        found.append(row)
    return found


def logged(lake: Lake) -> list[model.Record]:
    """The log as the model has it; instants in seconds."""
    found = list[model.Record]()
    for block in blocks_of(lake.tables, lake.pipeline):
        for record in block.records:
            assert record is not None
            time = record["event_time"] // SECOND
            found.append(model.Record(time, len(found), record["site"], record["code"]))
    return found


def alarms(rows: pa.Table) -> set[model.Pair]:
    """Identities of some alarms, each once."""
    found = [*zip(rows["old_seq"].to_pylist(), rows["new_seq"].to_pylist(), strict=True)]
    assert len({*found}) == len(found), "an alarm twice"
    return {*found}
