"""Questions by form: what the operator keeps, and what the page shows of it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from penstock.config.catalog import Catalog
from penstock.config.settings import Settings
from penstock.config.snapshots import SnapshotConfig
from penstock.lake.serve import results as module
from penstock_airflow import forms, wiring
from penstock_airflow.asking import QueryOperator
from penstock_airflow.web.app import views
from penstock_airflow.web.queries import SHOWN, Shown, results
from tests.joins import logged, pairs_in, true_pairs
from tests.lakes import Lake
from tests.two_streams import CASES, Life

pytestmark = pytest.mark.airflow


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Two streams and their join, after all of it."""
    life = Life(tmp_path, CASES["any"], seed=2)
    life.finish()
    mark = {"fast": SnapshotConfig(where="speed > 3", stream="cars")}
    pipeline = life.lake.pipeline.model_copy(update={"snapshots": mark})
    monkeypatch.setattr(wiring, "settings", lambda: Settings(home=tmp_path))
    monkeypatch.setattr(wiring, "catalog", lambda: Catalog((pipeline,)))
    return replace(life.lake, pipeline=pipeline)


def asked(run: str = "manual__1", **params: Any) -> dict[str, Any]:
    operator = QueryOperator(task_id="query", pipeline="p")
    context: Any = {"params": params, "dag_run": SimpleNamespace(run_id=run)}
    return operator.execute(context)


def shown(lake: Lake) -> list[Shown]:
    return [*results(lake.home / "results", ["none", "p"])]


def test_pairs_that_nobody_asked_for_are_found_by_form(lake: Lake) -> None:
    out = asked(pairs="s", where="left.speed = right.most", sql="")
    rows = pq.read_table(out["file"])
    case = replace(CASES["any"], holds=lambda a, b: a["speed"] == b["most"] is not None)
    exact = true_pairs(logged(lake), case)
    assert pairs_in(rows) == exact
    assert out["rows"] == len(exact) > SHOWN
    (one,) = shown(lake)
    assert (one.result.rows, one.result.record) == (len(exact), out["as_of_record"])
    assert one.columns == rows.column_names
    assert len(one.rows) == SHOWN
    page = views().get_template("queries.html").render(results=[one], shown=SHOWN)
    assert f'href="results/p/{Path(out["file"]).name}"' in page
    assert f"{len(exact)} rows" in page
    assert "<code>FROM asked</code>, pairs of s, where left.speed = right.most" in page


def test_a_try_again_keeps_one_result_and_the_oldest_go(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(sql="SELECT count(*) AS n FROM events", as_of="fast")
    assert asked(sql="SELECT count(*) AS n FROM events", as_of="fast") == first
    (one,) = shown(lake)
    assert one.result.record == first["as_of_record"]
    monkeypatch.setattr(module, "NEWEST", 2)
    for number in (2, 3):
        asked(f"manual__{number}", sql=f"SELECT '<b>' || {number} AS n")
    found = shown(lake)
    assert [each.rows for each in found] == [[["<b>3"]], [["<b>2"]]]
    assert len([*(lake.home / "results" / "p").iterdir()]) == 4
    page = views().get_template("queries.html").render(results=found, shown=SHOWN)
    assert "&lt;b&gt;3" in page
    assert "<b>3" not in page


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "Nothing is asked. Trigger again with SQL, or with Pairs"),
        ({"sql": "FROM nowhere"}, "Views: s, "),
        ({"sql": "FROM read_csv('/etc/passwd')"}, "reaches the views and nothing else"),
        ({"pairs": "s", "where": "left.speed >"}, "condition: cannot read 'left.speed >'"),
        ({"sql": "FROM s", "where": "left.speed > 1"}, "a period go with pairs of a join"),
        ({"sql": "FROM s", "as_of": "noon"}, "as of noon: that is no moment"),
        ({"pairs": "s", "from": "noon"}, "From is not an instant: noon"),
    ],
)
def test_a_wrong_question_fails_at_once_and_says_why(
    lake: Lake, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowFailException, match=said.replace("(", r"\(")):
        asked(**params)
    assert shown(lake) == []


def test_the_form_asks_for_pairs_only_where_there_is_a_join(lake: Lake) -> None:
    assert [*forms.query([])] == ["sql", "as_of"]
    assert forms.query(wiring.joins(lake.pipeline))["pairs"].schema["enum"] == [None, "s"]
    forms.require_conf("query__p", {"sql": "FROM s", "pairs": "s", "from": "2024-01-01"})
    with pytest.raises(ValueError, match=r"query__p knows no sqll\. Did you mean sql\?"):
        forms.require_conf("query__p", {"sqll": "FROM s"})
