"""A step that cannot go on keeps no other step from being corrected, and is reported at the end."""

import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.config.catalog import ConfigDriftError
from penstock.config.pipeline import TOGETHER
from penstock.control.job import AGAIN, TERMINAL, Outcome, run_job
from penstock.core.errors import TerminalError, TransientError
from penstock.core.request import Job, JobRequest
from penstock.core.step import StepSpec, of_each
from penstock.kinds.aggregate.layout import SumOverflowError
from penstock.lake.history.correction import pending_count
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.tables import Tables
from penstock.spark import correct
from tests.doubles import RisingClock
from tests.local import LocalPrefix, LocalQuery
from tests.steps import CASES, make_pipeline
from tests.streams import disordered, write_jsonl

SUMS = {
    "keys": ["site"],
    "window": {"size": "PT50S"},
    "measures": {"bags_sum": "sum(bags)"},
    "slack": {"fixed": "PT0S"},
}
OTHER = CASES["codes"][0] | {"slack": {"fixed": "PT0S"}}


def test_every_other_step_is_corrected_when_one_sum_overflows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    steps = {"first": SUMS, "second": OTHER, "third": OTHER}
    pipeline, clock = make_pipeline(tmp_path, steps, source=source), RisingClock()
    tables = Tables(str(tmp_path / "lake"), pipeline.name)
    LocalQuery(tables, pipeline, TOGETHER, clock)
    rows: list[Any] = [*disordered(200, seed=1, apart=2.0, late_share=0.0)]
    rows.sort(key=lambda row: row["event_time"])  # none is late but the one below
    rows[10] |= {"bags": 2**62, "site": "x"}
    late = [rows[10] | {"code": 1, "delay": 1.0}]
    for number, some in enumerate((rows, late)):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", some)
        run_through(Door(tables, pipeline, tmp_path, clock), LIVE, None, None)
    LocalQuery(tables, pipeline, TOGETHER, clock).run()
    monkeypatch.setattr(correct, "SparkPrefix", lambda _spark, *rest: LocalPrefix(*rest))
    for _ in range(2):
        with pytest.raises(TerminalError, match=r"first\.bags_sum: .*exceeds 64 bits") as failed:
            correct.correct_pipeline(None, tables, pipeline, clock, "r")  # type: ignore[arg-type]
        assert isinstance(failed.value.__cause__, SumOverflowError)
        pending = {step.name: pending_count(tables, step) for step in pipeline.specs}
        assert pending == {"first": 1, "second": 0, "third": 0}


def specs(count: int) -> tuple[StepSpec, ...]:
    return make_pipeline(Path("/nowhere"), {f"s{i}": OTHER for i in range(count)}).specs


@pytest.mark.parametrize(
    ("errors", "kind", "said"),
    [
        ({}, None, ""),
        ({"s1": TerminalError("s1: no")}, TerminalError, "s1: no"),
        ({"s1": TerminalError("s1: no"), "s2": TransientError("s2: lost")}, TransientError,
         "s1: no; s2: lost"),
        ({"s0": OSError("gone")}, TransientError, "s0: OSError: gone"),
    ],
)  # fmt: skip
def test_trying_again_is_worth_it_if_it_may_help_one_step(
    errors: dict[str, Exception], kind: type[Exception] | None, said: str
) -> None:
    def work(step: StepSpec) -> str:
        if step.name in errors:
            raise errors[step.name]
        return step.name

    done, failed = of_each(specs(3), work)
    assert done == [f"s{i}" for i in range(3) if f"s{i}" not in errors]
    assert (None if failed is None else type(failed)) is kind
    assert str(failed or "") == said


def test_a_job_that_finds_another_file_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    def drifted(*_: object) -> Outcome:
        raise ConfigDriftError("p", "1", "2")

    def wrong(*_: object) -> Outcome:
        raise TerminalError("p: no")

    argv = JobRequest(Job.AUDIT, "r", "p", digest="1").to_argv()
    assert run_job(drifted, argv) == AGAIN
    assert "next try takes the new file" in capsys.readouterr().out
    assert run_job(wrong, argv) == TERMINAL
    sys.stdout.flush()
