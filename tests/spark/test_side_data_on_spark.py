"""Side data on real Spark: a stream, a correction and an audit take what held for each record."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from penstock.core.errors import TerminalError
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark.correct import correct_pipeline
from tests import lookup_model as model
from tests.custom import LONGEST, longest, longest_rows, write_code
from tests.forgery import audited
from tests.lakes import Lake, make_lake
from tests.lookups import NOBODY, alarms, logged, seen
from tests.side import LIMITED, LOAD, LimitsFile, matches_by, taken_at_once
from tests.spark.answering import answer
from tests.streams import SECOND, write_jsonl

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.spark


@pytest.fixture
def lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Lake, LimitsFile]:
    """A log in which the limits changed five times."""
    return life(tmp_path, monkeypatch, LIMITED)


def life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any]
) -> tuple[Lake, LimitsFile]:
    monkeypatch.setattr(door_module, "BLOCK", 40)
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(tmp_path, (step, NOBODY), load=LOAD, source=source)
    file = LimitsFile(tmp_path, [0, 1, 2], random.Random(3))  # noqa: S311
    lake.query()
    door, rows = lake.door(), seen(random.Random(5), 600)  # noqa: S311
    for number in range(6):
        file.change()
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[100 * number :][:100])
        while door.work() >= 0 and not door.ended:
            pass
    return lake, file


def forge_what_held(lake: Lake) -> None:
    """Let the last decision say that the first limits held."""
    spec = lake.tables.decisions()
    rows = read_table(Table(spec)).to_pylist()
    first, *_, last = sorted((r for r in rows if r["what"] == "side"), key=lambda r: r["block"])
    version, position = first["value"].split("@")[0], last["value"].split("@")[1]
    rows[rows.index(last)] = last | {"value": f"{version}@{position}"}
    table = pa.Table.from_pylist(rows, schema=spec.schema)
    write_deltalake(Table(spec).refresh(), table, mode="overwrite")


def test_what_held_is_taken_by_the_stream_the_correction_and_the_audit(
    quick: SparkSession, lived: tuple[Lake, LimitsFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, file = lived
    answer(quick, lake, 90, shards=0)
    assert len(file.decided(lake.tables)) == 6
    near = matches_by(file.in_force(lake.tables), SECOND)
    monkeypatch.setattr(model, "matches", near)
    before = alarms(answers_in_force(lake.tables, lake.step))
    done = correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    assert done.answers > 0
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert found == model.true_pairs(logged(lake), "consecutive")
    assert found != before
    verdict = audited(quick, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == len(found)
    forge_what_held(lake)
    with pytest.raises(TerminalError, match="decisions are not what plans adopted"):
        audited(quick, lake)


def test_user_code_gets_what_held(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_code(tmp_path)
    lake, file = life(tmp_path, monkeypatch, LONGEST)
    answer(quick, lake, 90, shards=0)
    every = longest(lake, file.in_force(lake.tables), 600)
    assert longest_rows(answers_in_force(lake.tables, lake.step)) == every
    assert len({limit for *_, limit, _ in every}) > 1
    assert correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r").answers == 0
    verdict = audited(quick, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == len(every)
    forge_what_held(lake)
    with pytest.raises(TerminalError, match="decisions are not what plans adopted"):
        audited(quick, lake)
