"""Edits that wait: the tasks of ``apply__topology``; and the page that draws what runs."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from penstock.config.kept import catalog_in_force, catalog_to_run, kept_file
from penstock.core.rescaling import Way
from penstock.lake.history.registry import Registry
from penstock.lake.log.rescalings import DECIDED, DONE, Rescaling, Rescalings
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.links import link
from penstock.runtime.streams.paths import take_lock, write_json
from penstock_airflow import forms, topology, wiring
from penstock_airflow.topology import (
    ApplyOperator,
    ApproveOperator,
    BuildOperator,
    PlanOperator,
)
from penstock_airflow.web.app import views
from penstock_airflow.web.topology import RESTS, RUNS, STILL, Box, View, view
from tests.doubles import RisingClock

pytestmark = pytest.mark.airflow
STEPS = """
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
  hour: {keys: [gate], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
LOG = f"""
source: {{files: gates, format: jsonl}}
columns: {{gate: string}}
event_time: at
steps:{STEPS}"""
GUEST = (
    f"source: {{pipeline: gates}}\nsteps:{STEPS.replace('hour: ', 'day: ').replace('PT1H', 'P1D')}"
)
OVER = """
source: {pipeline: trucks, step: minute}
columns: {gate: string, n: long}
steps:
  most: {keys: [gate], window: {size: PT1H}, measures: {most: max(n)}}
"""
EDIT = LOG.replace("PT1H", "PT2H")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three pipelines, known to Airflow; edits wait."""
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in {"gates": LOG, "trucks": GUEST, "rush": OVER}.items():
        (folder / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(folder))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_APPROVE", "true")
    wiring.catalog()
    return folder


def runs(host: bool = True, **steps: dict[str, Any]) -> int:
    """As if the stream of ``gates`` lived, with ``trucks`` linked to it."""
    paths = wiring.stream_paths("gates")
    assert link(paths, "trucks")
    write_json(paths.supervisor, {"state": "running", "incarnation": 1, "since": "", "beat": ""})
    write_json(paths.driver, {"incarnation": 1, "state": "running", "steps": steps})
    lock = take_lock(paths.supervisor_lock) if host else 0
    assert lock is not None
    return lock


def asked(**conf: Any) -> Any:
    """Context of a run's first task."""
    return {"dag_run": SimpleNamespace(conf=conf), "params": conf}


def planned(**conf: Any) -> dict[str, Any]:
    return PlanOperator(dag=DAG("apply__topology", schedule=None)).execute(asked(**conf))


def of(plan: dict[str, Any], built: list[str] | None = None) -> Any:
    """Context of a task after that one."""
    said = {"plan": plan, "build": [] if built is None else built}
    return {"ti": SimpleNamespace(xcom_pull=lambda task_ids: said[task_ids])}


def size_in_force() -> int:
    pipeline = catalog_in_force(wiring.settings()).pipeline("gates")
    return pipeline.spec("hour").window.size // 3_600_000_000


def test_an_edit_is_planned_and_applied_as_it_was_planned(files: Path) -> None:
    plan = planned()
    assert (plan["held"], plan["text"].count("starts")) == ({}, 4)
    assert ApproveOperator().execute(of(plan)) is None
    assert ApplyOperator().execute(of(plan)) == []
    (files / "gates.yaml").write_text(EDIT)
    wiring.catalog()
    plan = planned()
    assert [*plan["held"]] == ["gates"]
    assert size_in_force() == 1
    for _ in range(2):
        assert ApplyOperator().execute(of(plan)) == ["gates"]
        assert size_in_force() == 2
    assert planned()["held"] == {}


def test_what_was_edited_since_is_not_applied(files: Path) -> None:
    (files / "gates.yaml").write_text(EDIT)
    plan = planned()
    (files / "gates.yaml").write_text(EDIT.replace("PT2H", "PT3H"))
    with pytest.raises(AirflowFailException, match="edited since"):
        ApplyOperator().execute(of(plan))
    assert size_in_force() == 1


@pytest.fixture
def edited(files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A plan of an edit of ``trucks``, whose stream runs."""
    monkeypatch.setattr(topology, "BEGINS_SECONDS", -1.0)
    lock = runs()
    try:
        catalog_to_run(wiring.settings())
        (files / "trucks.yaml").write_text(GUEST.replace("P1D", "P2D"))
        yield planned()
    finally:
        os.close(lock)


def begins(name: str) -> None:
    """As if the host had begun the steps of a pipeline or version."""
    settings = wiring.settings()
    pipeline = catalog_in_force(settings).pipeline(name)
    tables = Tables(settings.lake_uri, pipeline.log)
    Registry(tables, RisingClock(), pipeline).start_all({"q": pipeline.specs})


def test_an_edit_is_built_beside_what_runs_before_it_is_in_force(edited: dict[str, Any]) -> None:
    assert "| gates | trucks@next.day | trucks.day.2 | starts |" in edited["text"]
    assert "is built beside trucks" in edited["text"]
    with pytest.raises(AirflowException, match=r"trucks@next: minute, day did not begin within"):
        BuildOperator().execute(of(edited))
    with pytest.raises(AirflowException, match=r"trucks@next: day has not begun. Until then"):
        ApplyOperator().execute(of(edited, ["trucks@next"]))
    begins("trucks@next")
    assert BuildOperator().execute(of(edited)) == ["trucks@next"]
    for _ in range(2):  # of an empty log nothing is to be proved
        assert ApplyOperator().execute(of(edited, ["trucks@next"])) == ["trucks"]
    runs_of = {p.name: [s.id for s in p.specs] for p in catalog_in_force(wiring.settings()).every}
    assert runs_of["trucks"] == ["minute", "trucks.day.2"]
    assert runs_of["trucks@former"] == ["minute", "trucks.day"]
    assert wiring.former() == ["trucks"]
    assert forms.applied(wiring.former())["take_back"].schema["enum"] == [None, "trucks"]


def test_nobody_switches_to_what_is_not_proved_whatever_is_saved_meanwhile(
    files: Path, edited: dict[str, Any]
) -> None:
    with pytest.raises(AirflowException):
        BuildOperator().execute(of(edited))
    file = files / "trucks.yaml"
    file.write_text(f"{file.read_text()}# a comment\n")
    with pytest.raises(AirflowException, match=r"trucks@next: day has not begun. Until then"):
        ApplyOperator().execute(of(edited, ["trucks@next"]))
    kept_file(wiring.settings(), "trucks@next").unlink()
    with pytest.raises(AirflowFailException, match=r"trucks@next is gone: .* Trigger apply__top"):
        ApplyOperator().execute(of(edited, ["trucks@next"]))
    assert catalog_in_force(wiring.settings()).held == {"trucks"}


def test_what_was_in_force_can_be_so_again(edited: dict[str, Any]) -> None:
    begins("trucks")
    begins("gates")
    with pytest.raises(AirflowException):
        BuildOperator().execute(of(edited))
    begins("trucks@next")
    ApplyOperator().execute(of(edited, ["trucks@next"]))
    with pytest.raises(AirflowFailException, match="apply__topology knows no takeback"):
        planned(takeback="trucks")
    plan = planned(take_back="trucks")
    assert ApproveOperator().execute(of(plan)) is None, "nothing is computed"
    assert BuildOperator().execute(of(plan)) == []
    for _ in range(2):
        assert ApplyOperator().execute(of(plan)) == ["trucks"]
        found = {p.name: [s.id for s in p.specs] for p in catalog_in_force(wiring.settings()).every}
        assert found["trucks"] == ["minute", "trucks.day"]
        assert found["trucks@next"] == ["minute", "trucks.day.2"]
    with pytest.raises(AirflowFailException, match="gates has no former version"):
        ApplyOperator().execute(of(plan | {"take_back": "gates"}))


def test_nothing_is_applied_that_was_not_approved(edited: dict[str, Any]) -> None:
    told: dict[str, Any] = {"plan": edited, "build": None}
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: told[task_ids])}
    with pytest.raises(AirflowSkipException, match="nothing was approved"):
        ApplyOperator().execute(context)


def named(found: View, name: str, column: int) -> Box:
    boxes = sorted({box.x for box in found.boxes})
    (one,) = (box for box in found.boxes
              if box.lines[0][1] == name and boxes.index(box.x) == column)  # fmt: skip
    return one


def test_the_page_draws_who_shares_what_and_how_it_is(files: Path) -> None:
    said = {"through_seq": 99, "slack_seconds": 10.0, "error": None, "tasks": 1}
    lock = runs(**{"minute": said, "trucks.day": {"error": "no room"}})
    try:
        found = view(wiring.settings())
    finally:
        os.close(lock)
    looks = {(box.lines[0][1], box.look) for box in found.boxes if box.x == 330}
    assert looks == {("minute", RUNS), ("hour", RESTS), ("trucks.day", STILL), ("most", RESTS)}
    assert [line for line, _ in named(found, "minute", 1).lines] == [
        "minute", "aggregate: runs in 1 task", "up to record 100, K 10 s",
    ]  # fmt: skip
    assert named(found, "trucks.day", 1).lines[2][0] == "no room"
    assert named(found, "trucks", 2).look == RUNS
    assert named(found, "gates", 2).look == RESTS, "its log runs, it is not linked"
    assert [line for line, _ in named(found, "rush", 0).lines][1] == "answers of trucks.minute"
    x, y = named(found, "minute", 1).right(0)
    assert sum(edge.path.startswith(f"M{x},{y} ") for edge in found.edges) == 2, "it is shared"
    (taken,) = (edge.path for edge in found.edges if edge.ends)
    (x, y), (u, v) = named(found, "minute", 1).left(1), named(found, "rush", 0).right(1)
    assert (taken.split(" ")[0], taken.split(" ")[-1]) == (f"M{x},{y}", f"{u},{v}")
    page = views().get_template("topology.html").render(view=found)
    assert page.count('marker-end="url(#arrow-rests)"') == page.count('id="arrow-rests"') == 1
    assert page.count("<rect") == len(found.boxes) == 9
    assert "no room" in page


def test_the_page_says_what_waits(files: Path) -> None:
    (files / "gates.yaml").write_text(EDIT)
    found = view(wiring.settings())
    assert (found.held, {change.what.value for change in found.changes}) == (
        ["gates"],
        {"starts", "shares"},
    )
    assert "waits for approval" in views().get_template("topology.html").render(view=found)


def test_the_page_tells_what_was_rescaled_and_what_that_took(files: Path) -> None:
    table = Rescalings(Tables(wiring.settings().lake_uri, "gates"), RisingClock())
    first = table.decide(
        Rescaling("minute", 0, DECIDED, Way.MOVE, "asked for", 2, 3, 90, 8_000, 1.25, 2.5)
    )
    table.over(first, moved=30)
    table.decide(replace(first, way=Way.REBUILD, reason="busy", predicted_move=None, tasks=1))
    assert files.exists()
    found = view(wiring.settings())
    assert [(log, each.tasks, each.state) for log, each in found.rescalings] == [
        ("gates", 1, DECIDED), ("gates", 3, DONE),
    ]  # fmt: skip
    page = views().get_template("topology.html").render(view=found)
    for said in ("2 to 3", "1.2 s", "2.5 s", "0.0 s", "cannot move", "busy"):
        assert said in page
