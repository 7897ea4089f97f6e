"""The DAGs of the shipped and of invented pipelines, parsed as Airflow parses them."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bare_airflow import ROOT, child_variables

pytestmark = pytest.mark.airflow

LIVE = """
description: Anything
source: {files: anywhere, format: jsonl, mode: live}
columns: {plate: string}
event_time: at
steps:
  per_plate: {keys: [plate], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT1M}}
correction: {cron: "*/5 * * * *", soon: {span: PT5M}}
"""
FLOORS = LIVE.replace(
    "correction:",
    """  most:
    {from: per_plate, window: {size: P1D}, measures: {n: max(n)}}
correction:""",
)
BROKEN = LIVE.replace("per_plate: {keys: [plate],", "per_plate: {kees: [plate],")


def parse(folder: Path, pipelines: Path, **more: str) -> dict[str, Any]:
    environment = child_variables(folder) | {"PENSTOCK_PIPELINES": str(pipelines)} | more
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("parse_dags.py")), str(ROOT / "dags")],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("parse")
    pipelines = folder / "pipelines"
    pipelines.mkdir()
    shutil.copy(ROOT / "include/pipelines/flights.yaml", pipelines)
    (pipelines / "sensors.yaml").write_text(LIVE)
    (pipelines / "wrong.yaml").write_text(BROKEN)
    (pipelines / "tolls.yaml").write_text(FLOORS)
    return parse(folder, pipelines)


def test_each_valid_pipeline_has_its_dags(parsed: dict[str, Any]) -> None:
    assert set(parsed["dags"]) == {
        "preload__flights", "stream__flights", "correct__flights", "audit__flights",
        "stream__sensors", "correct__sensors", "correct_soon__sensors", "audit__sensors",
        "query__flights", "query__sensors",
        *(f"{verb}__{name}" for name in ("tolls", "tolls-per_plate")
          for verb in ("stream", "correct", "correct_soon", "audit", "query")),
        "maintain__lake", "scale__cluster", "apply__topology",
    }  # fmt: skip


def test_a_bad_file_is_an_import_error_and_stops_nobody_else(parsed: dict[str, Any]) -> None:
    assert list(parsed["errors"]) == ["report_config_errors.py"]
    text = parsed["errors"]["report_config_errors.py"]
    line = 1 + BROKEN[: BROKEN.index("kees")].count("\n")
    assert f"wrong.yaml:{line}" in text
    assert "Did you mean keys?" in text


def test_the_shipped_pipelines_are_valid(tmp_path: Path) -> None:
    assert parse(tmp_path, ROOT / "include/pipelines")["errors"] == {}


def test_a_typo_in_a_file_in_use_leaves_its_dags_beside_the_error(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    (pipelines / "sensors.yaml").write_text(LIVE)
    before = parse(tmp_path, pipelines)
    (pipelines / "sensors.yaml").write_text(BROKEN)

    after = parse(tmp_path, pipelines)

    assert before["errors"] == {}
    assert {n: d["serialized"] for n, d in after["dags"].items()} == {
        n: d["serialized"] for n, d in before["dags"].items()
    }
    assert list(after["errors"]) == ["report_config_errors.py"]
    said = after["errors"]["report_config_errors.py"]
    assert f"sensors.yaml:{1 + BROKEN[: BROKEN.index('kees')].count(chr(10))}" in said
    assert "By their last valid definition run: sensors" in said


def test_parsing_twice_gives_the_same_so_airflow_keeps_one_version(parsed: dict[str, Any]) -> None:
    assert parsed["stable"]


def test_parsing_loads_no_engine_and_takes_no_time(parsed: dict[str, Any]) -> None:
    assert parsed["engines"] == []
    assert parsed["seconds"] < 15  # about 1 on an idle machine, imports included


def test_every_dag_explains_itself(parsed: dict[str, Any]) -> None:
    for name, dag in parsed["dags"].items():
        assert {"penstock", name.split("__")[0]} <= set(dag["tags"]), name
        assert len(dag["doc"]) > 200, name
        assert "NAME" not in dag["doc"], name
        assert "DESCRIPTION" not in dag["doc"], name
        assert dag["description"], name
        assert dag["catchup"] is False, name
        assert dag["max_active_runs"] == 1, name


def test_spark_jobs_wait_for_their_turn_and_streams_do_not(parsed: dict[str, Any]) -> None:
    for name, dag in parsed["dags"].items():
        waits = not name.startswith(("stream__", "scale__", "query__", "apply__"))
        assert dag["pools"] == (["spark"] if waits else ["default_pool"])


def test_the_cluster_is_scaled_step_by_step_when_its_load_asks_for_it(
    parsed: dict[str, Any],
) -> None:
    dag = parsed["dags"]["scale__cluster"]
    assert dag["schedule"] == "AssetTriggeredTimetable"
    text = json.dumps(dag["serialized"])
    assert "penstock_airflow.scaling.LoadTrigger" in text
    tasks = dag["serialized"]["dag"]["tasks"]
    after = {t["__var"]["task_id"]: t["__var"].get("downstream_task_ids", []) for t in tasks}
    assert after == {"observe": ["decide"], "decide": ["act"], "act": ["verify"], "verify": []}
    assert set(dag["params"]) == {"nodes", "reason", "dry_run"}


def test_hours_of_the_cluster_are_a_schedule_and_a_wrong_file_is_an_import_error(
    tmp_path: Path,
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("scale:\n  schedule:\n    - {cron: '0 8 * * 1-5', least: 3}\n")
    (tmp_path / "pipelines").mkdir()
    found = parse(tmp_path, tmp_path / "pipelines", PENSTOCK_CLUSTER=str(file))
    assert found["dags"]["scale__cluster"]["schedule"] == "AssetOrTimeSchedule"
    file.write_text("nodes: {moost: 3}")
    found = parse(tmp_path, tmp_path / "pipelines", PENSTOCK_CLUSTER=str(file))
    assert "scale__cluster" not in found["dags"]
    said = found["errors"]["report_config_errors.py"]
    assert f"{file}:1  nodes.moost  unknown key. Did you mean most?" in said


def test_a_live_stream_is_continuous_and_a_bounded_one_is_started_by_hand(
    parsed: dict[str, Any],
) -> None:
    assert parsed["dags"]["stream__sensors"]["schedule"] == "ContinuousTimetable"
    assert parsed["dags"]["stream__flights"]["schedule"] == "NullTimetable"


def test_a_soon_correction_follows_the_asset_of_a_watcher(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["correct_soon__sensors"]
    assert dag["schedule"] == "AssetTriggeredTimetable"
    text = json.dumps(dag["serialized"])
    assert "late__sensors" in text
    assert "penstock_airflow.watch.LateTrigger" in text


def test_every_field_of_every_form_is_explained_and_may_be_left_alone(
    parsed: dict[str, Any],
) -> None:
    asked = ("correct__", "preload__", "scale__")
    forms = [d["params"] for n, d in parsed["dags"].items() if n.startswith(asked)]
    assert all(forms)
    for form in forms:
        for name, field in form.items():
            schema = field["schema"]
            assert "title" in schema, name
            assert "section" not in schema, name  # such a field would be folded away
            assert len(field["description"]) > 20, name
            assert "null" in schema["type"] or schema["type"] == "boolean", name


def _timetable(parsed: dict[str, Any], name: str) -> Any:
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(parsed["dags"][name]["serialized"])


def test_the_backfill_dialog_gives_whole_intervals_of_the_schedule(parsed: dict[str, Any]) -> None:
    dag = _timetable(parsed, "correct__flights")
    start, end = datetime(2013, 10, 1, tzinfo=UTC), datetime(2013, 10, 1, 0, 30, tzinfo=UTC)
    found = [i.data_interval for i in dag.iter_dagrun_infos_between(start, end)]
    assert [i.start.isoformat()[11:16] for i in found] == ["00:00", "00:15", "00:30"]
    assert all((i.end - i.start).total_seconds() == 900 for i in found)


def test_preload_can_be_backfilled_but_is_never_scheduled(parsed: dict[str, Any]) -> None:
    dag = _timetable(parsed, "preload__flights")
    start, end = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 9, 30, tzinfo=UTC)
    assert len(list(dag.iter_dagrun_infos_between(start, end))) == 9
    assert dag.next_dagrun_info(last_automated_run_info=None) is None
    correct = _timetable(parsed, "correct__flights")
    assert correct.next_dagrun_info(last_automated_run_info=None) is not None


def test_a_run_by_the_form_has_tasks_whatever_its_date(parsed: dict[str, Any]) -> None:
    """Airflow leaves out the tasks that had ended by a run's date, and calls it a success."""
    for name in parsed["dags"]:
        dag = _timetable(parsed, name)
        for task in dag.tasks:
            assert task.end_date is None or task.end_date > datetime(2900, 1, 1, tzinfo=UTC), name
