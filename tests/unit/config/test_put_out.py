"""An edit of a log's file may put others out of force: nobody says that they are in force then."""

from pathlib import Path

import pytest

from penstock.__main__ import main
from penstock.config.kept import catalog_in_force, catalog_to_run, keep, put_out
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.history.registry import Registry
from penstock.lake.storage.tables import Tables
from penstock.lake.topology.plan import Outlook, What

LOG = """source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
LIGHT = LOG.replace(", weight: double", "")
GUEST = """source: {pipeline: gates}
steps:
  heaviest:
    keys: [gate]
    window: {size: PT1H}
    measures: {most: max(weight)}
    slack: {fixed: PT1M}
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
OVER = """source: {pipeline: gates, step: minute}
columns: {gate: string, n: long}
steps:
  busiest: {keys: [gate], window: {size: PT1H}, measures: {most: max(n)}}
"""
RENAMED = LOG.replace("n: count", "passed: count")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A log, a guest, and one over its answers; all of them are in use."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path / "files"))
    made = Settings()
    made.pipelines.mkdir()
    for name, text in (("gates", LOG), ("trucks", GUEST), ("over", OVER)):
        write(made, text, name)
    return made


def write(settings: Settings, text: str, name: str = "gates") -> None:
    (settings.pipelines / f"{name}.yaml").write_text(text)
    keep(settings, catalog_to_run(settings))


def run(settings: Settings) -> None:
    """Say of each step that it has run."""
    catalog = catalog_to_run(settings)
    Registry(
        Tables(settings.lake_uri, "gates"), SystemClock(), catalog.pipeline("gates")
    ).start_all(
        {
            "together": [
                *catalog.pipeline("gates").specs,
                catalog.pipeline("trucks").spec("heaviest"),
            ]
        }
    )


def test_who_cannot_stay_in_force_does_not_stand_in(settings: Settings) -> None:
    write(settings, LIGHT)
    found = catalog_in_force(settings)
    assert [each.name for each in found.pipelines] == ["gates", "over"]
    assert found.standing_in == set()
    (out,) = put_out(settings, found).items()
    assert out[0] == "trucks"
    said = "its last valid definition does not fit what gates.yaml says now (trucks.yaml:6 steps."
    assert out[1].why.startswith(said)
    write(settings, GUEST.replace("most:", "most"), "trucks")
    why = put_out(settings, catalog_in_force(settings))["trucks"].why
    assert "says now (steps.heaviest" in why, "the line is none of its file as it is now"
    write(settings, LOG)
    found = catalog_in_force(settings)
    assert found.standing_in == {"trucks"}
    assert not put_out(settings, found)


def test_whoever_stands_on_one_that_is_out_is_out_too(settings: Settings) -> None:
    write(settings, GUEST.replace("gates", "trucks").replace("heaviest", "hour"), "vans")
    write(settings, LIGHT)
    found = catalog_in_force(settings)
    assert "vans" not in found.standing_in
    assert put_out(settings, found)["vans"].why == "what it stands on is not in force: trucks"


def test_what_waits_for_approval_is_in_force_or_followed(settings: Settings) -> None:
    """The log was removed, and begins anew without a column: nothing is left to wait beside."""
    waits = settings.model_copy(update={"approve": True})
    (settings.home / "definitions" / "gates.yaml").unlink()
    (settings.pipelines / "gates.yaml").write_text(LIGHT)
    edited = GUEST.replace("max(weight)", "count(*)")
    (settings.pipelines / "trucks.yaml").write_text(edited)
    found = catalog_in_force(waits)
    assert found.held == set()
    assert [each.name for each in found.pipelines] == ["gates", "over", "trucks"]
    assert not found.errors


@pytest.mark.parametrize("command", ["show", "explain", "query"])
def test_commands_say_one_thing(
    settings: Settings, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write(settings, LIGHT)
    write(settings, RENAMED.replace(", weight: double", ""))
    for name, line in (("trucks", 6), ("over", 2)):
        assert main([command, name]) == 1
        said = capsys.readouterr().err
        assert f"the file of {name} has problems:" in said
        assert f"{name} is not in force: its last valid definition does not fit what gates" in said
        assert f"{name}.yaml:{line}" in said
        assert "definition is in force" not in said
    assert main(["validate"]) == 1
    said = capsys.readouterr().out
    assert "! trucks is not in force: its last valid definition does not fit" in said
    assert "stays in force" not in said
    main(["status"])
    assert "trucks is not in force: its last valid" in capsys.readouterr().out


def told(settings: Settings) -> dict[str, tuple[What, str]]:
    found = Outlook.of(settings, catalog_in_force(settings), ()).changes
    return {each.name: (each.what, each.because) for each in found}


@pytest.mark.parametrize("approve", [False, True])
def test_the_plan_tells_whom_an_edit_puts_out(settings: Settings, *, approve: bool) -> None:
    run(settings)
    waits = settings.model_copy(update={"approve": approve})
    assert told(waits)["trucks.heaviest"] == (What.STAYS, "")
    (settings.pipelines / "gates.yaml").write_text(LIGHT)
    assert catalog_in_force(waits).held == ({"gates"} if approve else set())
    found = told(waits)
    for step in ("trucks.heaviest", "trucks.minute"):
        what, because = found[step]
        assert what is What.ENDS
        start = "trucks.yaml has problems, and its last valid definition does not fit what gates"
        assert because.startswith(start)
    assert found["gates.minute"] == (What.STAYS, "")


def test_what_no_file_has_any_more_is_told_with_its_remedy(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    floor = "  rush: {from: minute, window: {size: PT1H}, measures: {most: max(n)}}\n"
    write(settings, LOG + floor)
    write(settings, LOG)
    assert main(["query", "gates-minute"]) == 1
    said = "gates-minute: gates.yaml no longer has it; penstock remove gates-minute deletes what it"
    assert said in capsys.readouterr().err
    (settings.pipelines / "trucks.yaml").unlink()
    assert main(["show", "trucks"]) == 1
    assert "trucks: there is no trucks.yaml any more; penstock remove trucks" in (
        capsys.readouterr().err
    )
    assert main(["show", "truck"]) == 1
    assert "no pipeline is called truck. " in capsys.readouterr().err
    assert main(["query", sql := f"SELECT {'x, ' * 100} FROM minute"]) == 1
    assert f"PIPELINE '{sql}'" in capsys.readouterr().err


def test_a_version_has_no_file(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    write(settings, "a: [1", "bad")
    assert main(["show", "bad@next"]) == 1
    said = capsys.readouterr().err
    assert "the file of bad has problems, and bad@next does not run:" in said
