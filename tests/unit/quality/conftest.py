"""A clean table of comparisons, and a suite run over one in a folder of its own."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock.quality.comparisons import COUNTS
from penstock.quality.suite import SuiteResult, run_suite

STEPS = ("sightings_per_plate", "sightings_per_site")
BEGIN = datetime(2013, 10, 1, tzinfo=UTC)


def make_comparisons(**first_row: Any) -> pd.DataFrame:
    """Two steps that agree in everything; ``first_row`` overrides values of the first."""
    row = dict.fromkeys(COUNTS, 0) | {
        "through_seq": 1000,
        "received": 1000,
        "accepted": 990,
        "quarantined": 10,
        "pairs_events": 3960,
        "pairs_on_time": 2000,
        "pairs_late": 1900,
        "pairs_open": 60,
        "answers_compared": 250,
        "examples": "[]",
    }
    return pd.DataFrame([row | {"step": step} for step in STEPS]).assign(
        **{c: [v, row.get(c, STEPS[1])] for c, v in first_row.items()}
    )


@pytest.fixture(scope="session")
def comparisons() -> Callable[..., pd.DataFrame]:
    return make_comparisons


@pytest.fixture
def audit(tmp_path: Path) -> Callable[..., SuiteResult]:
    """Runs the suite at one instant after the other, below ``tmp_path``."""
    hours = itertools.count()

    def run(frame: pd.DataFrame, **overrides: Any) -> SuiteResult:
        arguments: dict[str, Any] = {
            "pipeline": "flights",
            "steps": STEPS,
            "run_name": "scheduled__2013-10-01T00:00:00+00:00",
            "root": tmp_path / ".gx" / "flights",
            "site": tmp_path / "flights",
            "at": BEGIN + timedelta(hours=next(hours)),
        }
        return run_suite(frame, **arguments | overrides)

    return run
