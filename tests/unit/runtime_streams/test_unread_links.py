"""Whose steps a stream host runs while files of pipelines cannot be read: those that it ran."""

import errno
from pathlib import Path

import pytest

from penstock.config.catalog import Catalog
from penstock.config.kept import catalog_to_run, keep, kept_file
from penstock.config.settings import Settings
from penstock.config.shares import shares_file
from penstock.runtime.streams.linked import LinkedPipelines
from penstock.runtime.streams.links import link, unlink
from penstock.runtime.streams.paths import StreamPaths
from penstock.spark.running import wanted

OVER = """
source: {pipeline: gates, step: minute}
columns: {gate: string, %s: long}
steps:
  s: {keys: [gate], window: {size: P1D}, measures: {n: count(*)}}
"""
LOG = """
source: {files: gates, format: jsonl}
columns: {gate: string}
event_time: at
steps:
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
GUEST = """
source: {pipeline: gates}
steps:
  hour: {keys: [gate], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
HEAVIEST = GUEST.replace("hour:", "heaviest:").replace("n: count(*)", "most: max(weight)")
MORE = GUEST.replace("  hour:", "  hours:")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a log and its guest, both kept and linked."""
    found = Settings(home=tmp_path / "home", pipelines=tmp_path / "files")
    found.pipelines.mkdir()
    (found.pipelines / "gates.yaml").write_text(LOG)
    (found.pipelines / "trucks.yaml").write_text(GUEST)
    keep(found, read(found))
    for name in ("gates", "trucks"):
        link(StreamPaths(found.streams, "gates"), name)
    return found


def read(settings: Settings) -> Catalog:
    return catalog_to_run(settings)


def steps(runs: LinkedPipelines) -> dict[str, list[str]]:
    return {pipeline.name: [*pipeline.steps] for pipeline in runs()}


BOTH = {"gates": ["minute"], "trucks": ["hour"]}


def test_they_go_on_and_are_read_again_once_the_disks_error_has_passed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.runtime.streams.reading.AGAIN_SECONDS", 0.0)
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert steps(runs) == BOTH
    file, really = settings.pipelines / "trucks.yaml", Path.read_text
    file.write_text(MORE)

    def read_text(self: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if self in {file, kept_file(settings, "trucks")}:
            raise OSError(errno.EIO, "Input/output error", str(self))
        return really(self, encoding, errors)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", read_text)
        assert steps(runs) == BOTH
    assert steps(runs) == BOTH | {"trucks": ["hours"]}, "no file has changed since"


def test_others_are_followed_meanwhile(settings: Settings) -> None:
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert steps(runs) == BOTH
    kept_file(settings, "trucks").unlink()
    (settings.pipelines / "trucks.yaml").write_text("steps: [")
    (settings.pipelines / "gates.yaml").write_text(LOG.replace("  minute:", "  minutes:"))
    assert steps(runs) == BOTH | {"gates": ["minutes"]}
    unlink(settings.streams, "trucks", "marked")
    assert steps(runs) == {"gates": ["minutes"]}


def test_who_leaves_is_gone_at_once(settings: Settings) -> None:
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert steps(runs) == BOTH
    (settings.pipelines / "trucks.yaml").unlink()
    assert steps(runs) == {"gates": ["minute"]}


def test_what_a_file_says_now_goes_before_what_another_one_said(settings: Settings) -> None:
    """A run that both have: the slack of it is not that of the former file for ever."""
    minute = LOG.partition("steps:")[2]
    (settings.pipelines / "trucks.yaml").write_text(f"source: {{pipeline: gates}}\nsteps:{minute}")
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert [*wanted(runs())] == ["minute"], "they share it"
    kept_file(settings, "trucks").unlink()
    (settings.pipelines / "trucks.yaml").write_text("steps: [")
    (settings.pipelines / "gates.yaml").write_text(LOG.replace("PT10S", "PT20S"))
    slacks = {step.id: step.slack for _, step in wanted(runs()).values()}
    mine = {step.id: step.slack for step in read(settings).pipeline("gates").specs}
    assert {**slacks, **mine} == slacks


def test_whom_another_file_puts_out_ends_as_the_plan_says(settings: Settings) -> None:
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    (settings.pipelines / "trucks.yaml").write_text(HEAVIEST)
    heavy = LOG.replace("{gate: string}", "{gate: string, weight: long}")
    (settings.pipelines / "gates.yaml").write_text(heavy)
    keep(settings, read(settings))
    assert steps(runs) == {"gates": ["minute"], "trucks": ["heaviest"]}
    (settings.pipelines / "gates.yaml").write_text(LOG)
    assert steps(runs) == {"gates": ["minute"]}
    (settings.pipelines / "gates.yaml").write_text(heavy)
    assert steps(runs) == {"gates": ["minute"], "trucks": ["heaviest"]}


def test_a_version_that_was_removed_does_not_stay(settings: Settings) -> None:
    kept_file(settings, former := "trucks@former").write_text(MORE)
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert steps(runs) == BOTH | {former: ["hours"]}
    kept_file(settings, "trucks").unlink()
    (settings.pipelines / "trucks.yaml").write_text("steps: [")
    assert steps(runs) == BOTH | {former: ["hours"]}
    kept_file(settings, former).unlink()
    assert steps(runs) == BOTH


def test_nobody_leaves_with_the_folder_of_files(settings: Settings) -> None:
    """As where a volume is not mounted for a while."""
    runs = LinkedPipelines(settings, read(settings).pipeline("gates"))
    assert steps(runs) == BOTH
    away = settings.pipelines.rename(settings.home / "away")
    assert steps(runs) == BOTH
    away.rename(settings.pipelines)
    assert steps(runs) == BOTH


def test_what_is_remembered_of_logs_is_followed_before_a_file_changes(settings: Settings) -> None:
    """Deleted, as one that is damaged may be, each has a log by its own name again."""
    for column in ("n_records", "n"):  # two stays where both were
        for name, said in (("one", OVER % column), ("two", OVER % "n_records")):
            (settings.pipelines / f"{name}.yaml").write_text(said)
        catalog = read(settings)
    host = StreamPaths(settings.streams, "one")
    for name in ("one", "two"):
        link(host, name)
    runs = LinkedPipelines(settings, catalog.pipeline("two"))
    assert [*steps(runs)] == ["two"]
    shares_file(settings).unlink()
    assert [*steps(runs)] == ["one"]
