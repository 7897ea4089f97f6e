"""Pipelines over the same answers stand on one log, and keep it whatever others do."""

import json
import random
from pathlib import Path

import pytest

from penstock.config.catalog import Catalog
from penstock.config.feeds import floor
from penstock.config.kept import build, catalog_in_force, catalog_to_run, keep
from penstock.config.settings import Settings
from penstock.config.shares import shares_file, shares_of
from penstock.core.errors import ConfigError
from tests.catalogs import said

LOG = """source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
"""
GUEST = "source: {pipeline: gates}\n"
MINUTE = (
    "  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)},"
    " slack: {fixed: PT%sS}}\n"
)
HOUR = "  hour: {from: minute, keys: [gate], window: {size: PT%sM}, measures: {n: sum(n)}}\n"
DAY = "  day: {from: hour, window: {size: PT%sH}, measures: {n: sum(n)}}\n"
Steps = tuple[int, int, int]
"""Slack of the first step, and the windows' sizes of those over it; 0: there is none."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "files")


def write(settings: Settings, **files: Steps | None) -> None:
    """Files of pipelines; none: there is none."""
    settings.pipelines.mkdir(exist_ok=True)
    for name, steps in files.items():
        file = settings.pipelines / f"{name}.yaml"
        if steps is None:
            file.unlink(missing_ok=True)
            continue
        parts = (text % number for text, number in zip((MINUTE, HOUR, DAY), steps, strict=True)
                 if number)  # fmt: skip
        file.write_text(f"{LOG if name == 'gates' else GUEST}steps:\n{''.join(parts)}")


def logs(settings: Settings) -> dict[str, str]:
    """On which log each floor stands; nobody is told another one than who runs them."""
    found, read = catalog_to_run(settings), catalog_in_force(settings)
    assert said(found) == []
    assert logs_of(found) == logs_of(read)
    assert runs_of(found) == runs_of(read)
    return logs_of(found)


def logs_of(catalog: Catalog) -> dict[str, str]:
    return {each.name: each.log for each in catalog.pipelines if floor(each)}


def runs_of(catalog: Catalog) -> dict[str, str]:
    return {f"{p.name}.{s.name}": f"{p.log}/{s.id}" for p in catalog.pipelines for s in p.specs}


def test_whole_chains_are_shared_up_to_where_they_differ(settings: Settings) -> None:
    write(settings, gates=(10, 60, 24), trucks=(10, 60, 24), vans=(10, 60, 48), cars=(20, 60, 24))
    assert logs(settings) == {
        "gates-minute": "gates-minute", "trucks-minute": "gates-minute",
        "vans-minute": "gates-minute", "cars-minute": "cars-minute",
        "gates-hour": "gates-hour", "trucks-hour": "gates-hour",
        "vans-hour": "gates-hour", "cars-hour": "cars-hour",
    }  # fmt: skip
    runs = runs_of(catalog_in_force(settings))
    assert runs["trucks-hour.day"] == runs["gates-hour.day"] == "gates-hour/day"
    assert runs["vans-hour.day"] == "gates-hour/vans-hour.day"
    assert runs["cars-hour.day"] == "cars-hour/day", "what waits otherwise is another step"


def test_whoever_edits_begins_on_a_log_of_its_own_and_leaves_that_to_the_others(
    settings: Settings,
) -> None:
    write(settings, gates=(10, 60, 24), trucks=(10, 60, 24))
    before = logs(settings)
    write(settings, gates=(20, 60, 24))
    assert logs(settings) == before | {
        "gates-minute": "gates-minute~2", "gates-hour": "gates-hour~2",
    }  # fmt: skip
    found = catalog_in_force(settings)
    assert found.of_log("gates-minute").name == "trucks-minute"
    assert found.of_log("gates-minute~2").name == "gates-minute"
    write(settings, gates=(10, 60, 24))
    assert logs(settings) == before, "it finds its log again"


def test_whoever_goes_leaves_the_log_to_the_others_and_finds_it_again(settings: Settings) -> None:
    write(settings, gates=(10, 0, 0), trucks=(10, 60, 24), vans=(10, 60, 0))
    assert set(logs(settings).values()) == {"trucks-minute", "trucks-hour"}
    digest = catalog_in_force(settings).pipeline("trucks-minute").log_digest
    write(settings, trucks=None, cars=(10, 60, 24))
    assert logs(settings) == {
        "cars-minute": "trucks-minute", "vans-minute": "trucks-minute", "cars-hour": "trucks-hour",
    }  # fmt: skip
    found = catalog_in_force(settings)
    assert found.of_log("trucks-minute", digest).name == "cars-minute", "the host goes on"
    write(settings, trucks=(10, 60, 24), cars=None)
    assert {"trucks-minute", "trucks-hour"} == set(logs(settings).values())


def test_of_what_means_something_else_by_now_nothing_goes_on(settings: Settings) -> None:
    write(settings, gates=(10, 60, 24))
    first = logs(settings)
    assert first == {"gates-minute": "gates-minute", "gates-hour": "gates-hour"}
    write(settings, gates=(10, 30, 24))
    assert logs(settings) == first | {"gates-hour": "gates-hour~2"}
    write(settings, gates=(10, 60, 24))
    assert logs(settings) == first | {"gates-hour": "gates-hour~3"}, "its run began anew twice"
    write(settings, gates=(20, 60, 24))
    assert logs(settings) == first | {"gates-hour": "gates-hour~3"}, "waiting otherwise goes on"


def test_other_columns_are_another_log(settings: Settings) -> None:
    write(settings, gates=(10, 0, 0))
    over = "source: {pipeline: gates, step: minute}\ncolumns: {%s}\nsteps:\n  s: {%s}"
    hour = "window: {size: PT1H}, measures: {n: sum(n)}"
    rows = "keys: [gate], window: {size: PT1H}, measures: {n: count(*)}"
    for name, columns, step in (
        ("a", "gate: string, n: long", f"keys: [gate], {hour}"), ("b", "n: long", hour),
        ("c", "gate: string", rows),
    ):  # fmt: skip
        (settings.pipelines / f"{name}.yaml").write_text(over % (columns, step))
    assert logs(settings) == {"a": "a", "b": "a", "c": "c"}, "keys are always there"


def test_a_version_stands_where_its_pipeline_does(settings: Settings) -> None:
    settings = settings.model_copy(update={"approve": True})
    write(settings, gates=(10, 60, 24), trucks=(10, 60, 24))
    before = logs(settings)
    keep(settings, catalog_in_force(settings))
    write(settings, trucks=(10, 60, 48))
    edited = Catalog.read(settings.pipelines).pipeline("trucks-hour")
    version = build(settings, "trucks-hour", edited.digest)
    assert version is not None
    assert (version.log, version.specs[0].id) == ("gates-hour", "trucks-hour.day")
    assert version.log_digest == catalog_in_force(settings).pipeline("gates-hour").log_digest
    assert logs(settings) == before


def test_a_log_of_answers_is_not_taken_for_records_while_others_stand_on_it(
    settings: Settings,
) -> None:
    write(settings, gates=(10, 0, 0))
    over = "source: {pipeline: gates, step: minute}\ncolumns: {n: long}\nsteps:\n  s: {%s}"
    rush, peak = (settings.pipelines / f"{name}.yaml" for name in ("rush", "peak"))
    rush.write_text(over % "window: {size: PT1H}, measures: {n: max(n)}")
    assert logs(settings) == {"rush": "rush"}
    peak.write_text(over % "window: {size: PT1H}, measures: {n: min(n)}")
    assert logs(settings) == {"rush": "rush", "peak": "rush"}
    rush.write_text(f"{LOG}steps:\n{MINUTE % 10}")  # records of its own from now on
    found = catalog_to_run(settings)
    with pytest.raises(ConfigError, match=r"peak takes, .*\. Give rush\.yaml another name"):
        found.pipeline("rush")
    assert found.of_log("rush").name == found.pipeline("peak").name == "peak"
    (settings.pipelines / "vans.yaml").write_text(
        f"source: {{pipeline: rush}}\nsteps:\n{MINUTE % 20}"
    )
    with pytest.raises(ConfigError, match=r"Give rush\.yaml another name"):
        catalog_to_run(settings).pipeline("vans")
    rush.rename(settings.pipelines / "doors.yaml")
    (settings.pipelines / "vans.yaml").unlink()
    found = catalog_to_run(settings)
    assert (found.pipeline("doors").log, found.pipeline("peak").log) == ("doors", "rush")


@pytest.mark.parametrize("where", ["before shares", "after shares"])
def test_whoever_is_killed_leaves_what_was_or_what_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    write(settings, gates=(10, 60, 24))
    logs(settings)
    write(settings, gates=(20, 60, 12), trucks=(10, 60, 24))

    def dies(here: str) -> None:
        if here == where:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("penstock.config.shares.reached", dies)
        with pytest.raises(KeyboardInterrupt):
            catalog_to_run(settings)
    after = logs_of(catalog_in_force(settings))
    assert logs(settings) == after
    assert set(after.values()) == {"gates-minute", "gates-hour", "trucks-minute", "trucks-hour"}


def test_a_file_of_before_there_were_logs_is_read(settings: Settings) -> None:
    write(settings, gates=(10, 60, 24))
    before = logs(settings)
    file = shares_file(settings)
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content["runs"]))
    assert shares_of(settings).logs == ()
    assert logs(settings) == before
    file.write_text(json.dumps({"logs": content["logs"]}))
    with pytest.raises(ConfigError, match=r"shares\.json is damaged"):
        shares_of(settings)


@pytest.mark.parametrize("seed", range(12))
def test_random_edits(settings: Settings, seed: int) -> None:
    """A log has one content for ever; equal floors have one log, and keep it."""
    draw = random.Random(seed)  # noqa: S311  reproducible
    files: dict[str, Steps | None] = {"gates": (10, 60, 24)}
    holds, before = dict[str, str](), dict[str, tuple[str, str]]()
    for _ in range(20):
        name = draw.choice(["gates", "a", "b", "c"])
        steps = draw.choice([10, 20]), draw.choice([0, 30, 60]), draw.choice([0, 24, 48])
        steps = (*steps[:2], steps[2] if steps[1] else 0)
        files[name] = steps if name == "gates" or draw.random() < 0.8 else None
        write(settings, **files)
        told = logs(settings)
        found = {each.name: each for each in catalog_in_force(settings).pipelines}
        now = {name: (log, found[name].log_digest) for name, log in told.items()}
        for name, (log, content) in now.items():
            over = f"{found[name].other.log}/{found[name].over.id} {content}"  # type: ignore[attr-defined]
            assert holds.setdefault(log, over) == over, "a log has answers of one run for ever"
            mates = {log for log, other in now.values() if other == content}
            assert len(mates) == 1, "they all came by then"
            if before.get(name, ("", ""))[1] == content:
                assert before[name][0] == log, "it did not change"
            assert found[name].log_digest == catalog_in_force(settings).of_log(log).log_digest
        before = now
