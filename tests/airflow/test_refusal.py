"""A run that is told what it does not understand is refused at the trigger, by every way to it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bare_airflow import ROOT, child_variables

from penstock_airflow import forms

pytestmark = pytest.mark.airflow

DAY, NEXT = "2013-10-01T00:00:00+00:00", "2013-10-02T00:00:00+00:00"
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("correct__flights", {"from": None, "to": None, "recheck": False}),
    ("correct__flights", {"from": DAY, "to": NEXT, "recheck": True}),
    ("correct__flights", {}),
    ("preload__flights", {"to": DAY}),
    ("audit__flights", {}),
    ("audit__flights", {"everything": True}),
    ("somebody_elses", {"fromm": 1}),
    ("some__bodys", {"fromm": 1}),
]
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("correct__flights", {"fromm": DAY}, "knows no fromm. Did you mean from?"),
    ("correct__flights", {"from": NEXT, "to": DAY}, "is not before To"),
    ("correct__flights", {"from": DAY, "to": DAY}, "is not before To"),
    ("correct__flights", {"from": "yesterday"}, "is not an instant: yesterday"),
    ("correct__flights", {"from": 20131001}, "is not an instant: 20131001"),
    ("preload__flights", {"recheck": True}, "knows no recheck. Known: from, to."),
    ("audit__flights", {"from": DAY}, "knows no from. Known: everything."),
    ("correct_soon__flights", {"now": True}, "There is nothing to fill in."),
    ("maintain__lake", {"all": True}, "There is nothing to fill in."),
]
WAYS = Path(__file__).with_name("trigger_ways.py")


@pytest.mark.parametrize(("dag", "conf"), GOOD)
def test_what_a_form_can_say_is_taken(dag: str, conf: dict[str, Any]) -> None:
    forms.require_conf(dag, conf)


@pytest.mark.parametrize(("dag", "conf", "said"), BAD)
def test_what_no_form_can_say_is_refused(dag: str, conf: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", "[?]")):
        forms.require_conf(dag, conf)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What form and REST (one route), command line and backfill answered; one Airflow for all."""
    home = tmp_path_factory.mktemp("ways")
    (home / "pipelines").mkdir()
    shutil.copy(ROOT / "include/pipelines/flights.yaml", home / "pipelines")
    environment = child_variables(home) | {
        "PENSTOCK_PIPELINES": str(home / "pipelines"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        (sys.executable, str(WAYS)), env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["rest", "command", "backfill"])
def test_every_way_refuses_an_unknown_key_and_makes_no_run(ways: dict[str, Any], way: str) -> None:
    assert "correct__flights knows no fromm. Did you mean from?" in ways[way]
    assert ways["refused"] == 0


def test_what_is_well_said_runs_a_persons_run_before_the_clocks(ways: dict[str, Any]) -> None:
    """As the scheduler sorts: by the weight that is stored with each task instance."""
    order = sorted(ways["weights"], key=lambda run: -ways["weights"][run])

    assert order == [
        "manual correct", "manual audit", "scheduled correct", "scheduled audit",
    ]  # fmt: skip
