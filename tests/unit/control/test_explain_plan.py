from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.config.catalog import read_pipeline
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.explain import explain
from penstock.control.schedule import MAINTENANCE
from penstock.control.spoken import in_words, next_run, spoken

NOW = datetime(2024, 5, 1, 12, 1, tzinfo=UTC)
FILE = """\
source: {files: doors, format: csv}
history: {delta: old/doors}
columns: {door: string, seconds: double, colour: string}
event_time: at
id: {column: colour}
steps:
  sliding:
    keys: [door]
    window: {size: PT1H, slide: PT15M}
    measures: {mean: avg(seconds)}
    slack: {fixed: PT2H}
  since_april:
    window: {since: 2024-04-01T00:00:00Z, period: P1D}
    measures: {people: count(*)}
    slack: {max_delay: {bound: PT12H}}
correction: {cron: "*/20 * * * *", soon: {span: PT5M}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    path = tmp_path / "doors.yaml"
    path.write_text(FILE)
    found, problems = read_pipeline(path)
    assert found is not None, problems
    return found


def settings(home: Path) -> Settings:
    return Settings(home=home)


def test_a_sliding_window_says_its_panes_and_the_windows_of_a_record(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    at = datetime(2024, 5, 1, 10, 20, tzinfo=UTC)

    window = explain(pipeline, settings(tmp_path), NOW, at).steps[0].window

    assert (window.kind, window.panes, window.pane) == ("sliding", 4, timedelta(minutes=15))
    assert [f"{start:%H:%M}-{end:%H:%M}" for start, end in window.windows] == [
        "09:30-10:30", "09:45-10:45", "10:00-11:00", "10:15-11:15",
    ]  # fmt: skip


def test_a_landmark_is_shown_with_an_instant_after_it(pipeline: Pipeline, tmp_path: Path) -> None:
    before = datetime(2024, 1, 1, tzinfo=UTC)

    window = explain(pipeline, settings(tmp_path), NOW, before).steps[1].window

    assert window.kind == "landmark"
    assert window.since == window.example == datetime(2024, 4, 1, tzinfo=UTC)
    assert len(window.windows) == 1


@pytest.mark.parametrize(("extra", "said"), [
    ("zone: Europe/Vienna", "on 2024-10-27 clocks go back by 1 h; a reading of the hour that comes"
     " twice is taken as the earlier, with a warning in the audit; ambiguous says otherwise"),
    ("zone: Australia/Lord_Howe\nambiguous: later",
     "on 2025-04-06 clocks go back by 30 min; a reading of the hour that comes twice is the later"),
    ("zone: Asia/Tokyo", ""), ("zone: UTC", ""),
])  # fmt: skip
def test_it_is_said_when_clocks_go_back_and_what_that_means(
    tmp_path: Path, extra: str, said: str
) -> None:
    path = tmp_path / "doors.yaml"
    path.write_text(f"{FILE}{extra}\n")
    found, problems = read_pipeline(path)
    assert found is not None, problems
    assert explain(found, settings(tmp_path), NOW).clock_changes == said


def test_places_are_relative_to_the_home_folder(pipeline: Pipeline, tmp_path: Path) -> None:
    plan = explain(pipeline, settings(tmp_path), NOW)

    assert plan.source.uri == str(tmp_path / "doors")
    assert plan.history is not None
    assert (plan.history.uri, plan.history.format) == (str(tmp_path / "old" / "doors"), "delta")


def test_the_dags_are_those_of_the_project(pipeline: Pipeline, tmp_path: Path) -> None:
    dags = {dag.dag: dag for dag in explain(pipeline, settings(tmp_path), NOW).dags}

    folder = Settings().root / "dags"
    verbs = {path.stem for path in folder.glob("*.py")} - {"report_config_errors"}
    verbs -= {"scale", "apply"}  # of no pipeline, but of the cluster, and of all
    assert {name.split("__")[0] for name in dags} == verbs
    assert dags["correct__doors"].next == datetime(2024, 5, 1, 12, 20, tzinfo=UTC)
    assert dags["stream__doors"].schedule == "always"
    assert f'"{MAINTENANCE}"' in (folder / "maintain.py").read_text()


def test_what_is_refused_follows_from_the_file(pipeline: Pipeline, tmp_path: Path) -> None:
    refused = dict(explain(pipeline, settings(tmp_path), NOW).refused)

    assert refused["missing key"] == "no door"
    assert refused["NaN or infinity"] == "in seconds"
    assert refused["repeated id"] == "one with its colour arrived within 1 d of it"


def test_columns_say_who_uses_them(pipeline: Pipeline, tmp_path: Path) -> None:
    columns = {c.name: c.used_by for c in explain(pipeline, settings(tmp_path), NOW).columns}

    assert columns == {"door": ("sliding",), "seconds": ("sliding",), "colour": ()}


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(milliseconds=500), "500 ms"),
        (timedelta(minutes=90), "1 h 30 min"),
        (timedelta(days=2, seconds=3), "2 d"),  # two units next to each other, no more
        (7_200_000_000, "2 h"),
        (1_500_000, "1.5 s"),
        (1_999_999, "2 s"),
        (timedelta(hours=5, minutes=45, seconds=40), "5 h 46 min"),
        (timedelta(minutes=59, seconds=59, milliseconds=700), "1 h"),
        (-60_000_000, "-1 min"),
    ],
)
def test_durations_are_spoken(span: timedelta | int, said: str) -> None:
    assert spoken(span) == said


def test_cron_lines_are_spoken_and_read_in_utc() -> None:
    assert in_words("*/15 * * * *") == "every 15 minutes"
    east = NOW.astimezone(datetime.fromisoformat("2024-05-01T00:00:00+05:30").tzinfo)
    assert next_run("0 13 * * *", east) == datetime(2024, 5, 1, 13, tzinfo=UTC)


JOINED = """\
sources:
  cars: {source: {files: cars, format: csv}, columns: {speed: double}, event_time: at}
  cameras: {source: {files: cameras, format: csv}, columns: {most: double}, event_time: at}
steps:
  speeding: {kind: join, left: LEFT, right: RIGHT, within: PT1M, slack: {fixed: PT1S}}
  slow: {stream: cars, window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT1S}}
"""


@pytest.mark.parametrize(("left", "right"), [("cars", "cameras"), ("cameras", "cars")])
def test_a_step_over_two_streams_is_told_with_the_later_one(
    tmp_path: Path, left: str, right: str
) -> None:
    path = tmp_path / "doors.yaml"
    path.write_text(JOINED.replace("LEFT", left).replace("RIGHT", right))
    pipeline, problems = read_pipeline(path)
    assert pipeline is not None, problems
    plans = [explain(pipeline, settings(tmp_path), NOW, None, s) for s in ("cars", "cameras")]
    assert [[step.name for step in plan.steps] for plan in plans] == [["slow"], ["speeding"]]
