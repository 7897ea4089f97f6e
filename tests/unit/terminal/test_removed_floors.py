"""Pipelines over the same answers are removed one by one; the log goes with the last one."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from penstock.config.answers import OverAnswers
from penstock.config.catalog import UnknownPipelineError
from penstock.config.kept import catalog_in_force, catalog_to_run, keep, kept_file
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import shares_of
from penstock.lake.history.standing import ever_run
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE, newest_seq
from penstock.lake.over.feed import Feed
from penstock.lake.storage import remove
from penstock.lake.storage.remove import stored
from penstock.lake.storage.spec import logs_in
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.links import link
from penstock.runtime.streams.paths import StreamPaths, take_lock
from penstock.runtime.terminal import removal
from penstock.runtime.terminal.removal import StreamRunsError, remove_pipeline
from penstock.runtime.terminal.to_remove import StoodOnError
from tests.doubles import RisingClock
from tests.lakes import ROWS
from tests.local import LocalQuery
from tests.streams import write_jsonl

LOG = "source: {files: live, format: jsonl}\ncolumns: {site: string}\nevent_time: event_time\n"
GUEST = "source: {pipeline: gates}\n"
STEPS = """steps:
  minute: {keys: [site], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT%dS}}
  hour: {from: minute, window: {size: PT%dM}, measures: {n: sum(n)}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(home=tmp_path, pipelines=tmp_path / "files")
    found.pipelines.mkdir()
    (tmp_path / "live").mkdir()
    write(found, "gates", 1, 4)
    write(found, "trucks", 1, 8)
    runs(found)
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    runs(found)
    return found


def write(settings: Settings, name: str, slack: int, size: int) -> None:
    head = LOG if name == "gates" else GUEST
    (settings.pipelines / f"{name}.yaml").write_text(head + STEPS % (slack, size))


def runs(settings: Settings) -> None:
    """Everything that waits is taken and answered, by all that files say."""
    some = sorted(catalog_to_run(settings).pipelines, key=lambda p: isinstance(p, OverAnswers))
    by_log = dict[str, list[Pipeline]]()
    for pipeline in some:
        by_log.setdefault(pipeline.log, []).append(pipeline)
    for log, here in by_log.items():
        answers(settings, Tables(settings.lake_uri, log), here)


def answers(settings: Settings, tables: Tables, here: Sequence[Pipeline]) -> None:
    first, clock = here[0], RisingClock()
    steps = {step.id: step for pipeline in here for step in pipeline.specs}
    query = LocalQuery(tables, first, "together", clock, steps=[*steps.values()])
    if isinstance(first, OverAnswers):
        Feed(tables, first, clock).catch_up()
    else:
        run_through(Door(tables, first, settings.home, clock), LIVE, None, None)
    query.run()


def removed(settings: Settings, name: str) -> str:
    out = io.StringIO()
    assert remove_pipeline(settings, name, Console(file=out, width=200), sure=True) == 0
    return out.getvalue()


def stand(settings: Settings) -> set[tuple[str, str]]:
    return {(each.log, each.pipeline) for each in shares_of(settings).logs if each.holds}


def test_a_log_of_answers_stays_while_anybody_else_stands_on_it(settings: Settings) -> None:
    tables = Tables(settings.lake_uri, "gates-minute")
    assert ever_run(tables) == ["hour", "trucks-minute.hour"]
    assert newest_seq(tables) > 0
    with pytest.raises(StoodOnError, match="what gates-minute is made of"):
        removed(settings, "gates")
    (settings.pipelines / "gates.yaml").write_text(LOG + STEPS[: STEPS.index("  hour")] % 1)
    told = removed(settings, "gates-minute")
    assert "hour in " in told
    assert "Its log stays, as its file last said it: trucks-minute stand on it" in told
    assert ever_run(tables) == ["trucks-minute.hour"]
    assert stand(settings) == {("gates-minute", "trucks-minute")}
    assert catalog_in_force(settings).of_log("gates-minute").name == "trucks-minute"
    (settings.pipelines / "trucks.yaml").unlink()
    assert "with its checkpoints" in removed(settings, "trucks-minute")
    assert (logs_in(settings.lake_uri), stand(settings)) == (["gates"], set())


def test_logs_on_which_it_stood_before_go_with_it(settings: Settings) -> None:
    write(settings, "gates", 2, 4)
    runs(settings)
    write(settings, "trucks", 2, 8)
    runs(settings)
    logs = ["gates", "gates-minute", "gates-minute~2"]
    assert logs_in(settings.lake_uri) == logs
    two = Tables(settings.lake_uri, "gates-minute~2")
    assert ever_run(two) == ["gates-minute.hour", "trucks-minute.hour"]
    (settings.pipelines / "gates.yaml").write_text(LOG + STEPS[: STEPS.index("  hour")] % 2)
    removed(settings, "gates-minute")
    assert logs_in(settings.lake_uri) == ["gates", "gates-minute~2"], "trucks-minute is there"
    assert stand(settings) == {("gates-minute~2", "trucks-minute")}
    assert ever_run(two) == ["trucks-minute.hour"]
    (settings.pipelines / "trucks.yaml").unlink()
    removed(settings, "trucks-minute")
    assert logs_in(settings.lake_uri) == ["gates"]


def test_a_log_of_another_name_stays_for_those_who_stood_there(settings: Settings) -> None:
    below = STEPS[: STEPS.index("  hour")]
    (settings.pipelines / "vans.yaml").write_text(GUEST + below % 2)  # its run goes on
    for slack, name in ((2, "trucks"), (2, "gates"), (3, "trucks"), (3, "gates")):
        write(settings, name, slack, 4)
        runs(settings)
    stood = {each for log, each in stand(settings) if log == "trucks-minute"}
    assert stood == {"gates-minute", "trucks-minute"}
    assert {p.log for p in catalog_in_force(settings).pipelines} == {"gates", "trucks-minute~2"}
    (settings.pipelines / "gates.yaml").write_text(LOG + below % 3)
    removed(settings, "gates-minute")
    assert "trucks-minute" in logs_in(settings.lake_uri)
    write(settings, "trucks", 2, 8)
    runs(settings)
    assert catalog_in_force(settings).pipeline("trucks-minute").log == "trucks-minute"


def test_a_log_of_a_pipeline_that_is_gone_can_be_removed_once_the_others_left(
    settings: Settings,
) -> None:
    write(settings, "trucks", 2, 8)
    runs(settings)
    (settings.pipelines / "gates.yaml").write_text(LOG + STEPS[: STEPS.index("  hour")] % 1)
    told = removed(settings, "gates-minute")
    assert ("gates-minute with its checkpoints" in told, "stays" in told) == (True, False)
    assert logs_in(settings.lake_uri) == ["gates", "trucks-minute"]
    assert stand(settings) == {("trucks-minute", "trucks-minute")}


def test_a_log_that_nobody_stands_on_any_more_can_be_removed_alone(settings: Settings) -> None:
    write(settings, "gates", 2, 4)
    runs(settings)
    with pytest.raises(StoodOnError, match="what gates-minute is made of"):
        removed(settings, "gates-minute~2")
    write(settings, "gates", 1, 4)
    runs(settings)
    told = removed(settings, "gates-minute~2")
    assert ("gates-minute~2 with its checkpoints" in told, "Airflow" in told) == (True, False)
    assert logs_in(settings.lake_uri) == ["gates", "gates-minute"]
    assert {log for log, _ in stand(settings)} == {"gates-minute"}
    with pytest.raises(UnknownPipelineError):
        removed(settings, "gates-minute~2")


def test_a_log_whose_removal_was_killed_is_removed_by_the_next_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings, "gates", 2, 4)
    runs(settings)
    write(settings, "gates", 1, 4)
    runs(settings)
    with monkeypatch.context() as killed:
        killed.setattr(removal, "remove_tables", die)
        with pytest.raises(KeyboardInterrupt):
            removed(settings, "gates-minute~2")
    write(settings, "gates", 3, 4)
    moved = catalog_to_run(settings).pipeline("gates-minute")
    assert moved.log == "gates-minute~3", "what is half gone is nobody's beginning"
    write(settings, "gates", 1, 4)
    catalog_to_run(settings)
    removed(settings, "gates-minute~2")
    assert logs_in(settings.lake_uri) == ["gates", "gates-minute"]
    assert "gates-minute~2" not in {log for log, _ in stand(settings)}


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_above_a_run_that_was_removed_nothing_goes_on(settings: Settings) -> None:
    for name in ("gates", "trucks"):
        file = settings.pipelines / f"{name}.yaml"
        file.write_text((LOG if name == "gates" else GUEST) + STEPS[: STEPS.index("  hour")] % 1)
    (settings.pipelines / "trucks.yaml").unlink()
    removed(settings, "trucks")
    assert len(stand(settings)) == 2, "gates has that run still"
    (settings.pipelines / "gates.yaml").unlink()
    removed(settings, "gates")
    assert stand(settings) == set()
    write(settings, "gates", 1, 4)
    runs(settings)
    assert stand(settings) == {("gates-minute~2", "gates-minute")}
    assert newest_seq(Tables(settings.lake_uri, "gates-minute~2")) > 0


def test_a_run_that_an_edit_has_left_goes_with_its_pipeline(settings: Settings) -> None:
    below = STEPS[: STEPS.index("  hour")]
    (settings.pipelines / "trucks.yaml").write_text(GUEST + below % 1)
    for slack in (1, 2, 1):
        (settings.pipelines / "gates.yaml").write_text(LOG + below % slack)
        runs(settings)
    tables = Tables(settings.lake_uri, "gates")
    assert ever_run(tables) == ["minute", "minute.2"]
    assert {share.run for share in shares_of(settings).runs if share.log == "gates"} == {"minute"}
    assert "minute.2 in " in removed(settings, "gates")
    assert ever_run(tables) == ["minute"], "trucks has that"


@pytest.mark.parametrize("gone", [0, 3])
def test_a_run_that_an_edit_has_left_is_found_again_where_its_removal_was_killed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    below = STEPS[: STEPS.index("  hour")]
    (settings.pipelines / "trucks.yaml").write_text(GUEST + below % 1)
    for slack in (1, 2, 1):
        (settings.pipelines / "gates.yaml").write_text(LOG + below % slack)
        runs(settings)
    tables, places = Tables(settings.lake_uri, "gates"), list[str]()

    def die_in_the_middle(of: Tables, uri: str) -> None:
        places.append(uri)
        if len(places) > gone:
            raise KeyboardInterrupt
        delete(of, uri)

    delete = remove._delete
    with monkeypatch.context() as killed:
        killed.setattr(remove, "_delete", die_in_the_middle)
        with pytest.raises(KeyboardInterrupt):
            removed(settings, "gates")
    assert ever_run(tables) == ["minute"], "nobody says any more that it ran"
    assert stored(tables, ("minute.2",)).files > 0
    assert "minute.2 in " in removed(settings, "gates")
    assert stored(tables, ("minute.2",)).files == 0
    assert stored(tables, ("minute",)).files > 0, "trucks has that"


def test_what_a_file_that_is_gone_said_can_be_forgotten(settings: Settings) -> None:
    """The log of another one went, and all that it had there."""
    keep(settings, catalog_in_force(settings))
    for name in ("trucks", "gates"):
        (settings.pipelines / f"{name}.yaml").unlink()
    for name in ("trucks-minute", "gates-minute", "gates"):
        removed(settings, name)
    assert str(kept_file(settings, "trucks")) in removed(settings, "trucks")
    with pytest.raises(UnknownPipelineError):
        removed(settings, "trucks")


def test_the_file_that_says_a_floor_stays_while_it_has_problems(settings: Settings) -> None:
    file = settings.pipelines / "gates.yaml"
    file.write_text(file.read_text() + "oops: 1\n")
    (settings.pipelines / "trucks.yaml").unlink()
    removed(settings, "trucks-minute")
    told = removed(settings, "gates-minute")
    assert f"do not want that, delete its steps in {file}" in told


def lacks_a_column(settings: Settings) -> None:
    """Who stands on ``gates`` fits neither as its file says nor as it said."""
    text = (LOG + STEPS[: STEPS.index("  hour")] % 1).replace("site", "place")
    (settings.pipelines / "gates.yaml").write_text(text)
    assert [each.name for each in catalog_in_force(settings).pipelines] == ["gates"]


def test_a_log_of_answers_stays_for_a_floor_that_is_out_of_force_for_a_moment(
    settings: Settings,
) -> None:
    tables, former = Tables(settings.lake_uri, "gates-minute"), settings.pipelines / "gates.yaml"
    before = former.read_text()
    lacks_a_column(settings)
    told = removed(settings, "gates-minute")
    assert "Its log stays, as its file last said it: trucks-minute stand on it" in told
    assert ever_run(tables) == ["trucks-minute.hour"]
    assert stand(settings) == {("gates-minute", "trucks-minute")}
    former.write_text(before)
    assert catalog_to_run(settings).pipeline("trucks-minute").log == "gates-minute"


def test_a_log_stays_for_a_guest_that_is_out_of_force_for_a_moment(settings: Settings) -> None:
    for name, head, slack in (("gates", LOG, 1), ("trucks", GUEST, 2)):
        below = head + STEPS[: STEPS.index("  hour")] % slack
        (settings.pipelines / f"{name}.yaml").write_text(below)
    runs(settings)
    removed(settings, "trucks-minute")
    lacks_a_column(settings)
    assert "Its log stays, as its file says it: trucks stand on it" in removed(settings, "gates")
    assert ever_run(Tables(settings.lake_uri, "gates")) == ["trucks.minute"]
    (settings.pipelines / "trucks.yaml").unlink()
    assert "with its checkpoints" in removed(settings, "gates")


def test_a_former_log_stays_while_nobody_can_tell_who_stands_on_it(settings: Settings) -> None:
    for name, size in (("gates", 4), ("trucks", 8)):
        write(settings, name, 2, size)
        runs(settings)
    assert ("gates-minute~2", "trucks-minute") in stand(settings)
    lacks_a_column(settings)
    with pytest.raises(StoodOnError, match="mended, trucks-minute goes on"):
        removed(settings, "gates-minute~2")
    (settings.pipelines / "trucks.yaml").unlink()
    removed(settings, "gates-minute~2")


def test_it_is_not_removed_while_a_log_of_it_runs(settings: Settings) -> None:
    host = StreamPaths(settings.streams, "gates-minute")
    assert link(host, "trucks-minute")
    lock = take_lock(host.supervisor_lock)
    assert lock is not None
    (settings.pipelines / "trucks.yaml").unlink()
    with pytest.raises(StreamRunsError, match="stream__trucks-minute"):
        removed(settings, "trucks-minute")
    assert ever_run(Tables(settings.lake_uri, "gates-minute")) == ["hour", "trucks-minute.hour"]
