"""Ways to falsify the tables: the audit is red for each, and says where."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.core.window import micros
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.place import folder_name
from tests.doubles import NOON
from tests.forgery import Forger, Row, at_window, audited, repaired_lake
from tests.lakes import Lake

pytestmark = pytest.mark.spark
Named = list[str]
Plant = Callable[[Forger], Named]
SLIDE = timedelta(seconds=20)
FAULTS: dict[str, tuple[str, Plant]] = {}
VARIANTS: set[str] = set()


def plants(name: str, *, red: str, variant: bool = False) -> Callable[[Plant], Plant]:
    """A fault by its sentence, and the expectation that must fail; variants run in test-all."""

    def registered(plant: Plant) -> Plant:
        FAULTS[name] = (red, plant)
        if variant:
            VARIANTS.add(name)
        return plant

    return registered


def alive(row: Row) -> bool:
    """A live record with values, old enough for its windows to be closed."""
    return row["origin"] == "live" and row["delay"] and row["bags"] and row["arrival_seq"] < 250


def number(row: Row) -> str:
    return f"arrival_seq={row['arrival_seq']}:"


def block(row: Row) -> str:
    return f"block={row['block']},"


def micro_batch(row: Row) -> str:
    return f"generation={row['generation']}, micro_batch={row['micro_batch']}:"


def windows_of(row: Row) -> Named:
    """The three windows of a record that slide by 20 seconds, with its key."""
    at = row["event_time"]
    first = at - timedelta(microseconds=micros(at) % micros_of(SLIDE))
    found = [first - i * SLIDE for i in range(3)]
    return [at_window({"window_start": w, "site": row["site"]}) for w in found]


def micros_of(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


# ---- events and quarantine ------------------------------------------------------------------


@plants("a record is lost", red="numbers_missing")
def _(forger: Forger) -> Named:
    row = forger.drop("events", forger.pick("events", alive))
    return [number(row), block(row), *windows_of(row)]


@plants("a record is doubled", red="numbers_doubled", variant=True)
def _(forger: Forger) -> Named:
    row = forger.add("events", forger.pick("events", alive))
    return [number(row), block(row), *windows_of(row)]


@plants("a record has another key", red="wrong_answers")
def _(forger: Forger) -> Named:
    row = forger.change("events", forger.pick("events", alive), site="LGA2")
    return [*windows_of(row), *windows_of(row | {"site": "LGA2"})]


@plants("a record has another value", red="wrong_answers", variant=True)
def _(forger: Forger) -> Named:
    victim = forger.pick("events", alive)
    return windows_of(forger.change("events", victim, bags=victim["bags"] + 1))


@plants("a record stands in another window", red="wrong_answers")
def _(forger: Forger) -> Named:
    victim = forger.pick("events", alive)
    earlier = victim["event_time"] - timedelta(seconds=60)
    row = forger.change("events", victim, event_time=earlier)
    return [*windows_of(row), *windows_of(row | {"event_time": earlier})]


@plants("two records of two blocks have swapped their numbers", red="blocks_wrong")
def _(forger: Forger) -> Named:
    one = forger.pick("events", alive)
    two = forger.pick("events", lambda r: alive(r) and r["block"] < one["block"])
    forger.change("events", one, arrival_seq=two["arrival_seq"])
    forger.change("events", two, arrival_seq=one["arrival_seq"])
    return [block(one), block(two)]


@plants(
    "two records of two blocks have swapped all but their numbers", red="blocks_wrong", variant=True
)
def _(forger: Forger) -> Named:
    newest = max((r for r in forger.rows("events") if alive(r)), key=lambda r: r["event_time"])
    other = forger.pick("events", lambda r: alive(r) and r["block"] == newest["block"] - 3)
    place = {n: newest[n] for n in ("arrival_seq", "block")}
    forger.change("events", newest, **{n: other[n] for n in place})
    forger.change("events", other, **place)
    return [block(newest), block(other)]


@plants("the records of every block stand in the reverse order", red="blocks_wrong")
def _(forger: Forger) -> Named:
    rows = forger.rows("events")
    for which in {r["block"] for r in rows}:
        mine = [r for r in rows if r["block"] == which]
        numbers = [r["arrival_seq"] for r in mine]
        for row, seq in zip(mine, reversed(numbers), strict=True):
            row["arrival_seq"] = seq
    forger.rewrite("events", rows)
    return ['block unlike its records, expected {"lateness_us"']


@plants("the numbers have a gap", red="numbers_missing")
def _(forger: Forger) -> Named:
    rows = forger.rows("events")
    cut = forger.pick("events", alive)["arrival_seq"]
    for row in rows:
        row["arrival_seq"] += row["arrival_seq"] >= cut
    forger.rewrite("events", rows)
    return [f"arrival_seq={cut}:"]


@plants("a record stands in events and in quarantine", red="numbers_doubled")
def _(forger: Forger) -> Named:
    row = forger.pick("events", alive)
    like = forger.rows("quarantine")[0]
    forger.add("quarantine", like, arrival_seq=row["arrival_seq"], block=row["block"])
    return [number(row), block(row)]


@plants("a record moved from quarantine to events", red="blocks_wrong")
def _(forger: Forger) -> Named:
    refused = forger.drop("quarantine", forger.pick("quarantine", lambda r: r["origin"] == "live"))
    like = forger.pick("events", alive)
    forger.add("events", like, arrival_seq=refused["arrival_seq"], block=refused["block"])
    return [block(refused), *windows_of(like)]


@plants("a refused record is dropped", red="numbers_missing")
def _(forger: Forger) -> Named:
    row = forger.drop("quarantine", forger.pick("quarantine", lambda _: True))
    return [number(row), block(row)]


# ---- late -----------------------------------------------------------------------------------


def any_late(row: Row) -> bool:
    return True


@plants("a late row is hidden", red="late_miscounted")
def _(forger: Forger) -> Named:
    row = forger.drop("late", forger.pick("late", any_late))
    return [at_window(row), micro_batch(row)]


@plants("a late row is forged", red="late_miscounted")
def _(forger: Forger) -> Named:
    row = forger.add("late", forger.pick("late", any_late), site="nowhere")
    return [at_window(row), micro_batch(row)]


@plants("a late row counts more records", red="late_miscounted", variant=True)
def _(forger: Forger) -> Named:
    victim = forger.pick("late", any_late)
    row = forger.change("late", victim, n_records=victim["n_records"] + 1)
    return [at_window(row), micro_batch(row)]


@plants("a late row says that it was seen earlier", red="late_miscounted", variant=True)
def _(forger: Forger) -> Named:
    victim = forger.rows("late")[-1]
    return [at_window(forger.change("late", victim, last_seq=0))]


# ---- answers --------------------------------------------------------------------------------


def untouched(row: Row) -> bool:
    """A timely answer that no correction has replaced, of several records."""
    return row["reason"] == "speed" and row["n_records"] > 1 and row["site"] == "JFK"


def corrected(row: Row) -> bool:
    return row["reason"] == "late" and row["revision"] == 1


def twice(forger: Forger) -> Row:
    """An answer of revision 2."""
    return forger.pick("answers", lambda r: r["revision"] == 2)


WRITERS = {"generation", "micro_batch", "plan"}
"""Who wrote an answer: a micro-batch or a correction."""


def in_force(forger: Forger, where: Callable[[Row], bool] = lambda _: True) -> Row:
    """An answer that is in force, with every measure known."""
    best: dict[Any, Row] = {}
    for row in sorted(forger.rows("answers"), key=lambda r: (r["through_seq"], r["revision"])):
        best[row["window_start"], row["site"]] = row
    found = [r for r in best.values() if None not in map(r.get, r.keys() - WRITERS) and where(r)]
    return found[len(found) // 2]


@plants("a timely answer is lost", red="missing_answers")
def _(forger: Forger) -> Named:
    row = forger.drop("answers", in_force(forger, untouched))
    return [at_window(row), micro_batch(row)]


@plants("a timely answer that was corrected later is lost", red="timely_miscounted", variant=True)
def _(forger: Forger) -> Named:
    late = forger.pick("answers", lambda r: corrected(r) and r["n_records"] > 2)
    pair = late["window_start"], late["site"]
    row = forger.pick(
        "answers", lambda r: r["revision"] == 0 and (r["window_start"], r["site"]) == pair
    )
    forger.drop("answers", row)
    return [at_window(row)]


@plants("a corrected answer is lost", red="wrong_answers")
def _(forger: Forger) -> Named:
    row = forger.drop("answers", in_force(forger, lambda r: r["reason"] == "late"))
    return [at_window(row), f"plan={row['plan']}:"]


@plants("an answer of the history is lost", red="missing_answers", variant=True)
def _(forger: Forger) -> Named:
    row = forger.drop("answers", in_force(forger, lambda r: r["reason"] == "backfill"))
    return [at_window(row), f"plan={row['plan']}:"]


@plants("a timely answer is doubled", red="doubled_answers")
def _(forger: Forger) -> Named:
    row = forger.add("answers", in_force(forger, untouched))
    return [at_window(row), micro_batch(row)]


@plants("a corrected answer is doubled", red="doubled_answers", variant=True)
def _(forger: Forger) -> Named:
    row = forger.add("answers", in_force(forger, lambda r: r["reason"] == "late"))
    return [at_window(row)]


def forged(measure: str, change: Callable[[Any], Any]) -> Plant:
    def plant(forger: Forger) -> Named:
        victim = in_force(forger, lambda r: abs(r["total"]) > 1)
        return [at_window(forger.change("answers", victim, **{measure: change(victim[measure])}))]

    return plant


for _name, _measure, _change in (
    ("a count is forged", "known", lambda x: x + 1),
    ("a sum is off by a little more than its tolerance", "total", lambda x: x * (1 + 3e-9) + 3e3),
    ("a sum of integers is off by one", "bags_sum", lambda x: x + 1),
    ("an average is forged", "mean", lambda x: x + 1e4),
    ("a least value is forged", "low", lambda x: math.nextafter(x, -math.inf)),
    ("a greatest value is forged", "high", lambda x: math.nextafter(x, math.inf)),
    ("a measure is null", "total", lambda _: None),
    ("the number of records is forged", "n_records", lambda x: x - 1),
):
    plants(_name, red="wrong_answers", variant=_measure not in {"known", "total"})(
        forged(_measure, _change)
    )


@plants("an answer is shifted to the next window", red="forged_answers")
def _(forger: Forger) -> Named:
    victim = in_force(forger, untouched)
    later = victim["window_start"] + timedelta(seconds=7)
    row = forger.change("answers", victim, window_start=later)
    return [at_window(row), at_window(row | {"window_start": later})]


@plants("an answer is of a window that never was", red="extra_answers")
def _(forger: Forger) -> Named:
    like = in_force(forger, untouched)
    days = timedelta(days=-3)
    return [at_window(forger.add(
        "answers", like, window_start=like["window_start"] + days,
        window_end=like["window_end"] + days))]  # fmt: skip


@plants("an answer is of a wrong key", red="extra_answers", variant=True)
def _(forger: Forger) -> Named:
    row = forger.change("answers", in_force(forger, untouched), site="nowhere")
    return [at_window(row), at_window(row | {"site": "nowhere"})]


@plants("an answer of a window that is open is published", red="extra_answers")
def _(forger: Forger) -> Named:
    newest = max(forger.rows("events"), key=lambda r: r["event_time"])
    start = newest["event_time"] - timedelta(
        microseconds=micros(newest["event_time"]) % micros_of(SLIDE)
    )
    timely = [r for r in forger.rows("answers") if untouched(r)]
    like = max(timely, key=lambda r: r["micro_batch"])
    row = forger.add("answers", like, window_start=start, site=newest["site"],
                     window_end=start + timedelta(seconds=60))  # fmt: skip
    return [at_window(row)]


@plants("a revision is skipped", red="forged_answers")
def _(forger: Forger) -> Named:
    row = forger.change("answers", twice(forger), revision=3)
    return [at_window(row)]


@plants("two answers share a revision", red="forged_answers", variant=True)
def _(forger: Forger) -> Named:
    return [at_window(forger.change("answers", twice(forger), revision=1))]


@plants("a corrected answer has revision 0", red="forged_answers", variant=True)
def _(forger: Forger) -> Named:
    victim = in_force(forger, corrected)
    return [at_window(forger.change("answers", victim, revision=0))]


@plants("a timely answer says that it saw all, and hides its correction", red="wrong_answers")
def _(forger: Forger) -> Named:
    late = in_force(forger, lambda r: corrected(r) and r["n_records"] > 2)
    pair = late["window_start"], late["site"]
    old = forger.pick(
        "answers", lambda r: r["revision"] == 0 and (r["window_start"], r["site"]) == pair
    )
    forger.change("answers", old, through_seq=late["through_seq"] + 1)
    return [at_window(old)]


@plants("an answer names a plan that is not there", red="forged_answers", variant=True)
def _(forger: Forger) -> Named:
    victim = in_force(forger, corrected)
    return [at_window(forger.change("answers", victim, plan=99))]


# ---- control, blocks, corrections, registry, decisions --------------------------------------


@plants("a row of control is lost", red="batches_wrong")
def _(forger: Forger) -> Named:
    rows = forger.rows("control")
    lost = forger.drop("control", rows[3])
    gone = [r for r in forger.rows("answers") if r["micro_batch"] == lost["micro_batch"]]
    hidden = [at_window(r) for r in gone if r["reason"] == "speed"]
    assert hidden
    return [micro_batch(rows[4]), *hidden[:3]]


@plants("the last row of control is lost", red="corrections_wrong", variant=True)
def _(forger: Forger) -> Named:
    forger.drop("control", forger.rows("control")[-1])
    return [f"plan={max(r['plan'] for r in forger.rows('corrections'))}:"]


def control_forged(column: str, by: int) -> Plant:
    def plant(forger: Forger) -> Named:
        row = forger.rows("control")[4]
        return [micro_batch(forger.change("control", row, **{column: row[column] + by}))]

    return plant


for _column in ("late_total", "through_seq", "watermark_us", "t_max_us", "k_us", "pairs_late",
                "answered_total", "answers"):  # fmt: skip
    plants(f"{_column} of control is forged", red="batches_wrong", variant=_column[-4:] != "_seq")(
        control_forged(_column, 1)
    )


@plants("the watermark in force is forged", red="batches_wrong")
def _(forger: Forger) -> Named:
    row = forger.rows("control")[-1]
    ahead = row["watermark_us"] + 60_000_000
    return [micro_batch(forger.change("control", row, watermark_us=ahead))]


@plants("the open pairs of control are forged", red="pairs_unaccounted", variant=True)
def _(forger: Forger) -> Named:
    row = forger.rows("control")[-1]
    forger.change("control", row, pairs_open=row["pairs_open"] + 1)
    return []


@plants("a row of blocks is lost", red="blocks_wrong")
def _(forger: Forger) -> Named:
    row = forger.drop("blocks", forger.rows("blocks")[9])
    return [f"block={row['block']}:"]


def block_forged(column: str, change: Callable[[Any], Any]) -> Plant:
    def plant(forger: Forger) -> Named:
        row = forger.pick("blocks", lambda r: r["origin"] == "live")
        return [block(forger.change("blocks", row, **{column: change(row[column])}))]

    return plant


for _column in ("accepted", "quarantined", "lateness_us", "accepted_total"):
    plants(f"{_column} of a block is forged", red="blocks_wrong", variant=_column != "accepted")(
        block_forged(_column, lambda x: x + 1)
    )
plants("the newest event time of a block is forged", red="blocks_wrong")(
    block_forged("t_max", lambda x: x + timedelta(seconds=1))
)


@plants("a correction is done but left no answers", red="corrections_wrong")
def _(forger: Forger) -> Named:
    plan = max(r["plan"] for r in forger.rows("corrections") if r["state"] == "done")
    rows = forger.rows("answers")
    mine = [r for r in rows if r["reason"] == "late" and r["plan"] == plan]
    assert mine
    forger.rewrite("answers", [r for r in rows if r not in mine])
    return [f"plan={plan}:", *map(at_window, mine[:3])]


@plants("a correction is marked done that was never run", red="corrections_wrong")
def _(forger: Forger) -> Named:
    done = next(r for r in forger.rows("corrections") if r["state"] == "done")
    forger.add("corrections", done, plan=99)
    return ["plan=99:"]


def registry_forged(column: str, by: int) -> Plant:
    def plant(forger: Forger) -> Named:
        row = forger.rows("registry")[-1]
        forger.change("registry", row, **{column: row[column] + by})
        return [f"generation={row['generation']}:"]

    return plant


for _column in ("start_seq", "watermark_us", "t_max_us"):
    plants(
        f"{_column} of a generation is forged",
        red="generations_wrong",
        variant=_column != "watermark_us",
    )(registry_forged(_column, -20_000_000 if _column != "start_seq" else -1))


@plants("the start block of a generation is forged", red="generations_wrong")
def _(forger: Forger) -> Named:
    return registry_forged("start_block", -1)(forger)


@plants("the slack that was decided is changed", red="batches_wrong")
def _(forger: Forger) -> Named:
    row = forger.rows("decisions")[0]
    forger.change("decisions", row, value="fixed:10000000")
    return [micro_batch(forger.rows("control")[-1])]


@plants("a decision is lost", red="batches_wrong", variant=True)
def _(forger: Forger) -> Named:
    forger.rewrite("decisions", [])
    return [micro_batch(forger.rows("control")[-1])]


# ---- beyond the position --------------------------------------------------------------------


@plants("a file counts as unreadable, and nobody has decided about it", red="files_unreadable")
def _(forger: Forger) -> Named:
    row = forger.pick("quarantine", lambda _: True)
    forger.change("quarantine", row, reason="unreadable", place="/live/b.parquet")
    return [f"file=/live/b.parquet, arrival_seq={row['arrival_seq']}: unreadable file"]


@plants("a file was changed after it was taken", red="files_changed", variant=True)
def _(forger: Forger) -> Named:
    row = forger.pick("plans", lambda r: r["origin"] == "live")
    (item,) = json.loads(row["positions"])
    root = folder_name(forger.lake.pipeline.source, forger.lake.home)  # only the lake was copied
    now = item | {"size": item["size"] - 1, "root": root}
    forger.change("plans", row, positions=json.dumps([now]))
    return [f'/live/{item["path"]}: changed file, expected {{"bytes": {item["size"] - 1}']


@plants("a plan is never carried out", red="plans_overdue", variant=True)
def _(forger: Forger) -> Named:
    row = max(forger.rows("plans"), key=lambda r: r["number"])
    forger.add("plans", row, number=row["number"] + 1, arrived_at=NOON - timedelta(hours=1))
    return [f"plan={row['number'] + 1}, files=1"]


@plants("a step does not answer what is sealed", red="blocks_overdue", variant=True)
def _(forger: Forger) -> Named:
    row = forger.rows("blocks")[-1]
    first, last = row["last_seq"] + 1, row["last_seq"] + 7
    forger.add("blocks", row, block=row["block"] + 1, first_seq=first, last_seq=last,
               sealed_at=NOON - timedelta(hours=1))  # fmt: skip
    return ["blocks=1, records=7: behind the log"]


# ---- the cases ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 16)
        yield repaired_lake(tmp_path_factory.mktemp("repaired"))


@pytest.fixture
def forger(repaired: Lake, tmp_path: Path) -> Forger:
    shutil.copytree(repaired.home / "lake", tmp_path / "lake")
    return Forger(Lake(tmp_path, repaired.pipeline, repaired.oracle, repaired.config))


def test_without_a_fault_the_audit_is_green(quick: SparkSession, repaired: Lake) -> None:
    verdict = audited(quick, repaired)
    assert (verdict.red, verdict.warned, verdict.said) == (set(), set(), ())
    assert verdict.row["answers_compared"] > 100
    assert verdict.row["pairs_preloaded"] > 0


@pytest.mark.parametrize(
    "fault", [pytest.param(n, marks=[pytest.mark.all] if n in VARIANTS else []) for n in FAULTS]
)
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    red, plant = FAULTS[fault]
    named = plant(forger)
    verdict = audited(quick, forger.lake)
    assert red in verdict.red | verdict.warned
    for name in named:
        assert any(name in line for line in verdict.said), (name, verdict.said)
