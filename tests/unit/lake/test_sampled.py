"""The worth of a slack on a sample, window by window in plain Python."""

from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from penstock.config.slack import USUAL, Quality
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.ingest.sample import Sample, effect, policies, read_sample
from penstock.lake.proof.sampled import sampled
from penstock.lake.proof.worth_told import foretold
from tests.doubles import NOON
from tests.lakes import make_lake
from tests.laws.test_measured_threshold import ORACLE
from tests.streams import disordered, write_jsonl

QUALITY = {"epsilon": 0.1, "delta": 0.2, "cv": 0.3}
STEP: dict[str, Any] = {
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {"n": "count(*)", "weight": "sum(bags)"},
}
SLACKS: dict[str, dict[str, Any]] = {
    "fixed": {"fixed": "PT40S"},
    "max_delay": {"max_delay": {"bound": "PT2M"}},
    "quantile": {"quantile": {}},
    "pd": {"pd": {}},
}


def looked_at(home: Path, slack: str, rows: int = 3_000, **more: Any) -> tuple[Sample, StepSpec]:
    steered = {"quality": QUALITY} if slack in {"quantile", "pd"} else {}
    lake = make_lake(home, (STEP | {"slack": SLACKS[slack]} | steered | more, ORACLE))
    content = disordered(rows, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    write_jsonl(home / "live" / "0.jsonl", content)
    return read_sample(lake.pipeline, home, NOON), lake.step


def by_hand(
    sample: Sample, step: StepSpec, marks: list[int], since: int, needed: float
) -> tuple[list[int], int, int]:
    """Waits, windows that are final, and those that held too little when they closed."""
    times, window = sample.times.tolist(), step.window
    newest = np.maximum.accumulate(sample.times).tolist()
    delta = 0.05 if step.slack.tuning is None else QUALITY["delta"]
    final = newest[-1] - sample.lateness_at(1 - 0.25 * delta * (1 - needed))
    every, there = dict[int, int](), dict[int, int]()
    for time, mark in zip(times, [BEGINNING, *marks], strict=False):
        for start in window.windows_of(time):
            every[start] = every.get(start, 0) + 1
            there[start] = there.get(start, 0) + (start + window.size > mark)
    waits, of, off = [], 0, 0
    for start in range(window.floor(times[0] - 1) + window.slide, newest[-1], window.slide):
        end = start + window.size
        at = next((i for i, mark in enumerate(marks) if mark >= end), None)
        if end <= final and end > since and at is not None:
            waits.append(newest[at] - end)
            of += start in every
            off += start in every and there[start] < needed * every[start]
    return waits, of, off


@pytest.mark.parametrize("slack", SLACKS)
def test_windows_are_counted_as_they_would_be_one_by_one(tmp_path: Path, slack: str) -> None:
    sample, step = looked_at(tmp_path, slack)
    quality = Quality(**QUALITY) if step.slack.tuning else None
    told = effect(sample, step)
    found = sampled(sample, step, told, quality)
    needed = (quality or USUAL).threshold(step.judged)
    waits, of, off = by_hand(sample, step, told.marks.tolist(), found.since, needed)
    (rate,) = found.rates
    assert (rate.of, rate.off, rate.expected) == (of, off, off / of)
    assert found.windows == len(waits) > 100
    assert found.wait is not None
    assert (found.wait.half, found.wait.most) == (median(waits), np.quantile(waits, 0.95))
    assert found.slack is not None
    assert slack != "fixed" or found.slack == 40_000_000
    assert f"{off:,} of {of:,}" in foretold(found)
    assert ("the target allows" in foretold(found)) == (quality is not None)


def test_while_k_is_not_known_no_rate_is_expected(tmp_path: Path) -> None:
    sample, step = looked_at(tmp_path, "quantile", quality=QUALITY | {"delta": 0.001})
    quality = Quality(**QUALITY | {"delta": 0.001})
    found = sampled(sample, step, effect(sample, step), quality)
    assert not found.known
    assert [(r.of, r.expected) for r in found.rates] == [(0, None)]
    assert "not known yet" in foretold(found)


def test_every_policy_is_tried_and_a_sample_that_is_too_short_says_so(tmp_path: Path) -> None:
    sample, step = looked_at(tmp_path, "fixed", rows=20)
    found = policies(sample, step, USUAL)
    assert {"max_delay", "quantile", "pd"} <= found.keys()
    for one in found.values():
        assert "too short" in foretold(sampled(sample, step, one, None))
