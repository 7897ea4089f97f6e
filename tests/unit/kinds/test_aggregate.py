"""An aggregate: the counts a landmark's averages bring along, and what is equal from outside."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.config.catalog import Catalog
from penstock.kinds.aggregate import raw
from penstock.kinds.aggregate.spec import AggregateSpec
from penstock.kinds.aggregate.views import so_far, views
from penstock.lake.storage.tables import Tables
from tests.steps import make_pipeline
from tests.streams import instant

SIZE = {"size": "PT1H"}
SINCE = {"since": "2024-01-01T00:00:00Z", "period": "P1D"}
FILE = """\
source: {{files: in, format: jsonl}}
columns: {{site: string, mean_count: string, delay: double}}
event_time: t
steps:
  per_site:
    keys: [{key}]
    window: {{{window}}}
    measures: {{{measures}}}
    slack: {{fixed: PT5M}}
"""
LANDMARK = "since: 2024-01-01T00:00:00Z, period: P1D"


def step(measures: dict[str, str], window: dict[str, str] | None = None) -> AggregateSpec:
    said = {"measures": measures, "window": window or SIZE, "slack": {"fixed": "PT5M"}}
    found = make_pipeline(Path("/nowhere"), {"s": said}).spec("s")
    assert isinstance(found, AggregateSpec)
    return found


def catalog(folder: Path, **said: str) -> Catalog:
    (folder / "p.yaml").write_text(FILE.format(**said))
    return Catalog.read(folder)


COUNTED = {"mean": "avg(delay)", "most": "max(bags)", "mean_count": "count(delay)"}


@pytest.mark.parametrize(
    ("window", "asked"), [(SIZE, [*COUNTED]), (SINCE, ["mean", "most"])], ids=["size", "landmark"]
)
def test_only_what_a_landmark_s_averages_bring_along_is_not_judged(
    window: dict[str, str], asked: list[str]
) -> None:
    found = step(COUNTED, window)
    assert [m.name for m in found.values] == [*COUNTED]
    assert [m.name for m in found.judged] == asked
    assert found.reads == {"delay", "bags"}


def test_the_count_of_a_landmark_s_average_may_be_asked_for(tmp_path: Path) -> None:
    said = catalog(
        tmp_path, key="site", window=LANDMARK,
        measures="mean: avg(delay), mean_count: count(delay)",
    )  # fmt: skip
    assert not said.errors
    assert [m.name for m in said.pipeline("p").spec("per_site").values] == ["mean", "mean_count"]


@pytest.mark.parametrize(("window", "refused"), [("size: PT1H", False), (LANDMARK, True)])
def test_no_key_has_the_name_of_a_count_that_comes_along(
    tmp_path: Path, window: str, refused: bool
) -> None:
    errors = catalog(tmp_path, key="mean_count", window=window, measures="mean: avg(delay)").errors
    wanted = "mean_count is also the name of an answer's column. Rename one"
    assert [str(e).partition("keys  ")[2] for e in errors] == [wanted] * refused


def test_only_a_landmark_has_answers_since_it() -> None:
    assert [*views(step({"n": "count(*)"}, SINCE))] == ["so_far"]
    assert not views(step({"n": "count(*)"}))


BIG = [1.7e308, 1.1e308, 1.3e308, 1.61803398875e308, 9.87654321e307, 1.2345678912345e308]


@pytest.mark.parametrize("value", BIG)
def test_a_sum_that_comes_back_from_infinity_has_all_its_digits(value: float) -> None:
    found = step({"total": "sum(delay)"}, SINCE)
    rows = [
        {"window_start": instant(i), "window_end": instant(i + 1), "total": x, "n_records": 1}
        for i, x in enumerate((value, value, -value))
    ]
    schema = Tables("lake", "p").answers(found).schema
    merged = so_far(pa.Table.from_pylist(rows, schema=schema), found).to_pylist()
    assert [row["total"] for row in merged] == [value, float("inf"), value]


def differs(text: str, answer: Any, truth: Any) -> bool:
    """Whether two answers of a measure differ, as the look from outside says."""
    measures = {"m": text}
    found = step(measures)
    condition = " or ".join(raw.unequal(found, "t", "r"))
    with duckdb.connect() as db:
        for name, value in (("answer", answer), ("truth", truth)):
            scale = None if value is None else float(abs(value))
            db.register(name, pa.table({"m": [value], "m__scale": [scale]}))
        row = db.execute(f"select {condition} from truth as r, answer as t").fetchone()
    assert row is not None
    return bool(row[0])


@pytest.mark.parametrize("text", ["sum(bags)", "min(bags)", "count(delay)", "max(delay)"])
def test_what_is_exact_may_differ_in_no_digit(text: str) -> None:
    one = 1.0 if "delay" in text and "count" not in text else 1
    assert not differs(text, 10**12 * one, 10**12 * one)
    assert differs(text, (10**12 + 1) * one, 10**12 * one)
    assert differs(text, None, 10**12 * one)


@pytest.mark.parametrize("text", ["sum(delay)", "avg(delay)", "avg(bags)"])
def test_sums_and_means_of_doubles_may_differ_in_the_last_digits(text: str) -> None:
    assert not differs(text, 1e12 + 1, 1e12)
    assert differs(text, 1e12 + 1e4, 1e12)
    assert differs(text, None, 1e12)
