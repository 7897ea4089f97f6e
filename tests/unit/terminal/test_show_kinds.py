"""``penstock show`` says of each kind of step what it waits for, if it waits."""

import random
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.config.settings import Settings
from penstock.runtime.terminal.answer_tables import Wanted
from penstock.runtime.terminal.show import show_answers
from tests.joins import join_lake
from tests.joins import seen as seen_near
from tests.lakes import Lake
from tests.lookups import lookup_lake, seen
from tests.streams import write_jsonl

JOIN = ("what is older is late", "slack K 3 s (fixed)")


@pytest.mark.parametrize(
    ("make", "rows", "says", "says_not"),
    [
        (
            lambda home: join_lake(home, "far"),
            lambda d: seen_near(d, 40, 1.0),
            JOIN,
            ("windows that",),
        ),
        (
            lambda home: lookup_lake(home, "consecutive", 3),
            lambda d: seen(d, 40),
            (),
            ("slack", *JOIN),
        ),
    ],
)
def test_a_step_that_waits_for_nobody_has_no_slack(
    tmp_path: Path,
    make: Callable[[Path], Lake],
    rows: Callable[[random.Random], list[Any]],
    says: tuple[str, ...],
    says_not: tuple[str, ...],
) -> None:
    lake = make(tmp_path)
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", rows(random.Random(3)))  # noqa: S311
    lake.ingest()
    lake.query().run()
    out = Console(file=StringIO(), width=200)
    show_answers(Settings(home=tmp_path), lake.pipeline, [lake.step], Wanted({}, None, False), out)
    said = " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]
    assert "sealed through record 40 of 40" in said
    assert all(part in said for part in says)
    assert not any(part in said for part in says_not)
