"""What a run asks of its Spark job, and what the job's end means to Airflow."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from penstock.core.request import Job, JobRequest
from penstock.runtime.streams.processes import marked
from penstock_airflow import forms
from penstock_airflow.operators import SubmitJobOperator

pytestmark = pytest.mark.airflow
DAY = (datetime(2013, 10, 1, tzinfo=UTC), datetime(2013, 10, 2, tzinfo=UTC))


class Pushed:
    """The side of a task instance that takes XComs."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.map_index = -1

    def xcom_push(self, key: str, value: Any) -> None:
        self.values[key] = value


def context(run_type: str = "manual", **params: Any) -> Any:
    run = SimpleNamespace(
        run_id="r1",
        run_type=DagRunType(run_type),
        conf={},
        data_interval_start=DAY[0],
        data_interval_end=DAY[1],
    )
    return {"dag_run": run, "params": params, "ti": Pushed()}


def correct() -> SubmitJobOperator:
    return SubmitJobOperator(task_id="correct", job="correct", pipeline="flights", digest="d1")


def test_a_scheduled_run_takes_everything_pending_whatever_its_interval() -> None:
    asked = correct().request(context("scheduled"))
    assert asked == JobRequest(job=Job.CORRECT, run_id="r1", pipeline="flights", digest="d1")


def test_a_backfill_is_restricted_to_its_interval() -> None:
    asked = correct().request(context("backfill", recheck=True))
    assert (asked.start, asked.end, asked.recheck) == (*DAY, True)


def test_the_form_restricts_a_manual_run_and_no_zone_means_utc() -> None:
    asked = correct().request(
        context(**{"from": "2013-10-01T02:00:00+02:00", "to": "2013-10-02T00:00:00"})
    )
    assert (asked.start, asked.end) == DAY


def test_an_empty_range_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="Trigger again with From before To"):
        forms.event_range(
            {"from": "2013-10-02T00:00:00Z", "to": "2013-10-01T00:00:00Z"},
            backfill=False,
            interval=(None, None),
        )


def test_a_word_that_is_no_instant_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="To is not an instant: soon"):
        forms.event_range({"to": "soon"}, backfill=False, interval=(None, None))


JOB = """
import json, os, subprocess, sys
code = int(sys.argv[-1].removeprefix("--digest=")) if sys.argv[-1][-1].isdigit() else 0
print("AIRFLOW" in "".join(os.environ), os.environ["PENSTOCK_HOME"])
said = {"error": "2 wrong answers", "failed": ["exact"], "report": "p"}
print("penstock-outcome: " + json.dumps(said))
sys.exit(code)
"""


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Submits a job that ends with the exit code given as digest, through a stand-in for
    spark-submit that runs its application with Python (the real one is tried in tests/e2e)."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta.jar").touch()
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "audit.py").write_text(JOB)
    (tmp_path / "spark_jobs" / "correct.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PENSTOCK_ROOT", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    (tools / "spark-submit").write_text(
        '#!/bin/bash\nwhile [[ "$1" != *.py ]]; do shift; done\n'
        "plain='import sys, urllib.parse as u; print(u.unquote(u.urlsplit(sys.argv[1]).path))'\n"
        'file=$(python3 -c "$plain" "$1"); shift\npython3 "$file" "$@"; exit $?\n'
    )
    (tools / "spark-submit").chmod(0o755)

    def run(job: str, digest: str) -> tuple[SubmitJobOperator, Any]:
        task = SubmitJobOperator(task_id=job, job=job, pipeline="p", digest=digest)
        return task, context()

    return run


def test_what_the_job_says_is_an_xcom(submit: Any) -> None:
    task, asked = submit("audit", "0")
    task.execute(asked)
    assert asked["ti"].values["outcome"]["error"] == "2 wrong answers"


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("10", AirflowFailException, "found what must not be"),  # a retry finds the same
        ("20", AirflowFailException, "needs a person"),
        ("1", AirflowException, "exit code 1"),  # tried again
    ],
)
def test_an_exit_code_decides_about_a_retry(
    submit: Any, code: str, error: type[Exception], words: str
) -> None:
    task, asked = submit("audit", code)
    with pytest.raises(error, match=words) as failed:
        task.execute(asked)
    assert isinstance(failed.value, AirflowFailException) is (error is AirflowFailException)
    assert "2 wrong answers\nexact\nReport: p" in str(failed.value)
    assert asked["ti"].values["outcome"]["failed"] == ["exact"]


def test_an_audit_that_compared_nothing_is_neither_green_nor_red(
    submit: Any, tmp_path: Path
) -> None:
    said = '{"state": "nothing", "said": "nothing to say: no answer could be compared"}'
    (tmp_path / "spark_jobs" / "audit.py").write_text(f"print('penstock-outcome: {said}')")
    task, asked = submit("audit", "0")
    with pytest.raises(AirflowSkipException, match="nothing to say"):
        task.execute(asked)
    assert asked["ti"].values["outcome"]["state"] == "nothing"


def test_a_full_heap_is_said_with_its_remedy(submit: Any) -> None:
    task, asked = submit("audit", "3")  # of a JVM with ExitOnOutOfMemoryError
    with pytest.raises(AirflowException, match=r"heap was full.*PENSTOCK_DRIVER_MEMORY"):
        task.execute(asked)


def test_no_job_may_hang_for_ever() -> None:
    assert correct().execution_timeout is not None


def test_a_missing_connection_is_an_error_and_not_a_submission_to_yarn(
    submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    task, asked = submit("audit", "0")
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    def missing(_name: str) -> None:
        raise AirflowNotFoundException

    monkeypatch.setattr(BaseHook, "get_connection", missing)
    with pytest.raises(AirflowFailException, match="AIRFLOW_CONN_SPARK_DEFAULT"):
        task.execute(asked)


def test_missing_jars_name_the_make_target(submit: Any, tmp_path: Path) -> None:
    (tmp_path / "jars" / "delta.jar").unlink()
    task, asked = submit("audit", "0")
    with pytest.raises(AirflowFailException, match="make setup"):
        task.execute(asked)


def test_a_kill_ends_the_whole_tree(submit: Any, tmp_path: Path) -> None:
    import threading

    task, asked = submit("correct", "0")
    failed: list[Exception] = []

    def run() -> None:
        try:
            task.execute(asked)
        except AirflowException as killed:
            failed.append(killed)

    thread = threading.Thread(target=run)
    thread.start()
    mark = f"{tmp_path}/home/{task.dag_id}/correct/r1"
    while len(marked(mark)) < 2 and thread.is_alive():
        thread.join(timeout=0.05)
    task.on_kill()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert not marked(mark)
    assert failed


def test_a_retry_first_ends_what_a_killed_try_left(submit: Any, tmp_path: Path) -> None:
    task, asked = submit("audit", "0")
    mark = f"{tmp_path}/home/{task.dag_id}/audit/r1"
    left = subprocess.Popen(["/bin/sleep", "600"], env=os.environ | {"PENSTOCK_MARK": mark})
    task.execute(asked)
    assert left.wait(timeout=10) == -9


def test_tasks_of_one_run_that_do_the_same_leave_each_other_alone(
    submit: Any, tmp_path: Path
) -> None:
    task, asked = submit("audit", "0")
    asked["ti"].map_index = 1
    every = f"{tmp_path}/home/{task.dag_id}/audit/r1"
    first, second = (
        subprocess.Popen(["/bin/sleep", "600"], env=os.environ | {"PENSTOCK_MARK": f"{every}/{n}"})
        for n in range(2)
    )
    task.execute(asked)
    assert second.wait(timeout=10) == -9
    assert first.poll() is None
    first.kill()
    first.wait()
