"""Small lakes of one look-up, and their log as the model has it."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.kinds.lookup.spec import LookupSpec
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import late_at
from tests import lookup_model as model
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake, make_lake
from tests.streams import SECOND, instant, us
from tests.worlds import World

NOBODY = ref.Step(("site",), ref.Window(SECOND, SECOND), (), ())
"""The oracle of windows has nothing to say."""
MOVED = {"kind": "lookup", "keys": ["site"], "keep": {"last": 3}, "pairs": "consecutive",
         "columns": ["code"], "alarm": "new.code <> old.code"}  # fmt: skip
REFUSED = "refused"
"""Of such a record the log has the number alone: as one of a key that no other has."""


def case_of(pairs: str, keep: int) -> tuple[dict[str, Any], ref.Step]:
    """A look-up as a file says it."""
    within = {"within": f"PT{model.REACH}S"} if pairs == "all" else {}
    return MOVED | {"keep": {"last": keep}, "pairs": pairs} | within, NOBODY


def lookup_lake(home: Path, pairs: str, keep: int, **overrides: Any) -> Lake:
    """Nothing has come yet."""
    return make_lake(home, case_of(pairs, keep), **overrides)


def observed(site: str, code: int, at: int) -> dict[str, Any]:
    """One observation, at a second."""
    return {"site": site, "code": code, "delay": 1.0, "bags": 1, "live": True,
            "event_time": instant(at * SECOND)}  # fmt: skip


def seen(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Observations of three keys, seconds apart, some of them late."""
    clock, found = 0, []
    for _ in range(count):
        clock += draw.randint(0, 2)
        at = 1_700_000_000 + clock - draw.choice((0, 0, 0, 1, 3, 9, 25))
        found.append(observed(draw.choice("abc"), draw.randrange(3), at))
    return found


def logged(lake: Lake, unit: int = SECOND) -> list[model.Record]:
    """The log as the model has it.

    Args:
        lake: of the look-up.
        unit: of its instants, us.
    """
    found = list[model.Record]()
    for block in blocks_of(lake.tables, lake.pipeline):
        for record in block.records:
            seq = len(found)
            if record is None:
                found.append(model.Record(0, seq, f"{REFUSED} {seq}", 0))
            else:
                time = record["event_time"] // unit
                found.append(model.Record(time, seq, record["site"], record["code"]))
    return found


def alarms(rows: pa.Table) -> set[model.Pair]:
    """Identities of some alarms, each once."""
    found = [*zip(rows["old_seq"].to_pylist(), rows["new_seq"].to_pylist(), strict=True)]
    assert len({*found}) == len(found), "an alarm twice"
    return {*found}


def check_settled(lake: Lake, unit: int = SECOND) -> None:
    """Alarms in force are those of the whole log, once nothing waits."""
    assert isinstance(lake.step, LookupSpec)
    in_force = alarms(answers_in_force(lake.tables, lake.step))
    assert in_force == model.true_pairs(logged(lake, unit), lake.step.pairs.value)


def check_stream(lake: Lake, unit: int = SECOND) -> None:
    """Timely alarms, late records and their counts are those of the log, however it was cut."""
    step, at = lake.step, position(lake.tables, lake.step)
    assert isinstance(step, LookupSpec)
    assert at is not None
    events, history = logged(lake, unit)[: at.sealed.seq + 1], at.epoch.seq
    answers = timely_answers(lake.tables, step)
    timely = model.true_timely(events, step.pairs.value, step.keep)
    assert alarms(answers) == {pair for pair in timely if pair[1] > history}
    for row in answers.to_pylist():
        for side in ("new", "old"):
            record = events[row[f"{side}_seq"]]
            assert (us(row[f"{side}_time"]) // unit, row["site"], row[f"{side}_code"]) == (
                record.time, record.key, record.site,
            )  # fmt: skip
    draw = random.Random(0)  # noqa: S311
    by = model.LookUp(model.Lake(draw, 0.0), step.pairs.value, step.keep, draw)
    kept, late = by.loaded([]), []
    for record in events:
        if record.seq > history and by.is_late(record, kept[record.key]):
            late.append(record.seq)
        kept[record.key].add(record, step.keep)
    found = late_at(lake.tables, step, at, [])
    assert sorted(found["last_seq"].to_pylist()) == late
    assert sum(last.late for last in at.lasts) == len(late)
    taken = [r for r in events[history + 1 :] if not r.key.startswith(REFUSED)]
    assert sum(last.answered for last in at.lasts) == len(taken) - len(late)


class LookupWorld(World):
    """As every world, but that a look-up has no slack to change."""

    def change_slack(self) -> None:
        pass
