"""Audits and corrections on Spark while others write: no false alarm, nothing lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history import maintain as maintain_module
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.spark import audit as audit_module
from penstock.spark import step_audit
from penstock.spark.audit import Audit
from penstock.spark.correct import correct_pipeline
from penstock.spark.frames import Frames
from penstock.spark.prefix import SparkPrefix
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.forgery import audited
from tests.lakes import Lake, arrive, fed

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)


def goes_on(lake: Lake) -> None:
    """Records arrive, are answered and corrected, and all is compacted."""
    arrive(lake)
    lake.ingest()
    lake.query(blocks=2).run()
    lake.correct()
    assert maintain_pipeline(lake.tables, lake.pipeline)


def before_each(place: Any, name: str, other: Callable[[], None], patch: Any) -> list[None]:
    """Somebody else does something before each call."""
    call, calls = getattr(place, name), list[None]()

    def wrapped(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        other()
        return call(*arguments, **named)

    patch.setattr(place, name, wrapped)
    return calls


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (audit_module, "position"),
        (Audit, "counted"),
        (step_audit, "retrace"),
        (Frames, "load"),
    ],
    ids=["position", "count", "retrace", "load"],
)
def test_an_audit_while_the_lake_goes_on_is_green(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    lake = fed(tmp_path)
    goes_on(lake)
    with monkeypatch.context() as patch:
        calls = before_each(place, name, lambda: goes_on(lake), patch)
        verdict = audited(quick, lake)
    assert calls
    assert (verdict.red, verdict.said) == (set(), ())


def test_two_audits_at_once_say_the_same(quick: SparkSession, tmp_path: Path) -> None:
    lake = fed(tmp_path)
    for _ in range(3):
        goes_on(lake)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: audited(quick, lake), range(2))
    assert first == second
    assert (first.red, first.said) == (set(), ())
    assert first.row["answers_compared"] > 0


def test_a_correction_whose_files_are_compacted_under_it(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = fed(tmp_path)
    for _ in range(5):
        arrive(lake)
        lake.ingest()
        lake.query(blocks=2).run()

    def compacts() -> None:
        maintain_pipeline(lake.tables, lake.pipeline)

    with monkeypatch.context() as patch:
        calls = before_each(SparkPrefix, "answers", compacts, patch)
        done = correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    assert calls
    assert done.answers > 0
    lake.check()
    blocks = blocks_of(lake.tables, lake.pipeline)
    assert_same(ref.run(lake.epoch_oracle(), blocks).corrected, lake.in_force(), position=False)
    assert audited(quick, lake).red == set()
