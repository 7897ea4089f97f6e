"""What goes with a pipeline, as files and what is in force say it."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from penstock.config.catalog import UnknownPipelineError
from penstock.config.kept import (
    approve,
    catalog_in_force,
    catalog_to_run,
    keep,
    kept_file,
    read_files,
    take_back,
)
from penstock.config.settings import Settings
from penstock.runtime.streams.links import link, linked, unlink
from penstock.runtime.streams.paths import StreamPaths, take_lock
from penstock.runtime.terminal.removal import HoldsEditError, StreamRunsError, remove_pipeline
from penstock.runtime.terminal.to_remove import StoodOnError, to_be_removed

LOG = "source: {files: %s, format: jsonl}\ncolumns: {gate: string}\nevent_time: at\n"
GUEST = "source: {pipeline: %s}\n"
OVER = "source: {pipeline: %s, step: minute}\ncolumns: {gate: string, n: long}\n"
MINUTE = """steps:
  minute: {keys: [gate], window: {size: PT%dM}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
RUSH = "steps:\n  rush: {keys: [gate], window: {size: PT60M}, measures: {m: max(n)}}\n"
TYPO = "oops: 1\n"


def settings_in(home: Path, *, approve: bool = False) -> Settings:
    settings = Settings(home=home, pipelines=home / "files", approve=approve)
    settings.pipelines.mkdir()
    return settings


def says(settings: Settings, **files: str) -> None:
    """Files say that, and it is followed."""
    for name, text in files.items():
        (settings.pipelines / f"{name}.yaml").write_text(text)
    keep(settings, catalog_to_run(settings))


def test_a_log_stays_for_a_guest_whose_file_has_problems(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    trucks = GUEST % "gates" + MINUTE % 3
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=trucks)
    before = to_be_removed(settings, "gates")
    assert before.stays == ("trucks",)
    says(settings, trucks=trucks + TYPO)
    assert to_be_removed(settings, "gates") == before


def test_what_answers_are_taken_of_stays_while_a_file_has_problems(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    rush = OVER % "gates" + RUSH
    says(settings, gates=LOG % "gates" + MINUTE % 1, rush=rush)
    says(settings, rush=rush + TYPO)
    with pytest.raises(StoodOnError, match="what rush is made of"):
        to_be_removed(settings, "gates")


@pytest.mark.parametrize("kept", [True, False])
def test_answers_stay_that_one_is_made_of_which_is_out_of_force_for_a_moment(
    tmp_path: Path, *, kept: bool
) -> None:
    settings = settings_in(tmp_path)
    gates, rush = LOG % "gates" + MINUTE % 1, OVER % "gates" + RUSH
    says(settings, gates=gates, rush=rush)
    if not kept:
        kept_file(settings, "rush").unlink()
    says(settings, gates=gates.replace("gate]", "lane]").replace("gate:", "lane:"))
    says(settings, rush=rush.replace("minute", "hour"))
    assert [each.name for each in catalog_in_force(settings).pipelines] == ["gates"]
    with pytest.raises(StoodOnError, match=r"what rush is made of.*mended, rush goes on"):
        to_be_removed(settings, "gates")
    (settings.pipelines / "rush.yaml").unlink()
    assert to_be_removed(settings, "gates").ends == ["gates"]


def test_who_never_had_anything_keeps_nothing(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=GUEST % "gates" + MINUTE.replace(
        "gate", "lane") % 1)  # fmt: skip
    found = to_be_removed(settings, "gates")
    assert (found.stays, found.ends) == ((), ["gates"])


def test_a_log_stays_for_a_guest_of_which_only_its_runs_are_known(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=GUEST % "gates" + MINUTE % 2)
    (settings.home / "lake" / "gates").mkdir(parents=True)
    kept_file(settings, "trucks").unlink()
    says(settings, trucks=GUEST % "gates" + TYPO)
    found = to_be_removed(settings, "gates")
    assert (found.stays, found.ends) == (("trucks",), [])


def test_a_run_stays_that_a_version_has_which_is_none_for_a_moment(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, approve=True)
    trucks = GUEST % "gates" + MINUTE % 2
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=trucks)
    edit = GUEST % "gates" + MINUTE % 1
    says(settings, trucks=edit)
    kept_file(settings, "trucks@next").write_text(edit)
    catalog_to_run(settings)
    (settings.home / "lake" / "gates" / "answers" / "minute").mkdir(parents=True)
    for text in (edit, edit + TYPO):
        (settings.pipelines / "trucks.yaml").write_text(text)
        (part,) = to_be_removed(settings, "gates").parts
        assert part.steps == (), "trucks@next has minute, too"


def test_a_log_stays_for_whom_only_a_held_edit_takes_away(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, approve=True)
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=GUEST % "gates" + MINUTE % 1)
    says(settings, doors=LOG % "doors" + MINUTE % 1, trucks=GUEST % "doors" + MINUTE % 2)
    for log in ("gates", "doors"):
        assert to_be_removed(settings, log).stays == ("trucks",), "is there, or is to be"


def test_its_link_to_a_host_that_ended_by_itself_goes(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=GUEST % "gates" + MINUTE % 1)
    host = StreamPaths(settings.streams, "gates")
    for name in ("gates", "trucks"):
        assert link(host, name)
    (settings.pipelines / "trucks.yaml").unlink()
    says(settings)
    assert remove_pipeline(settings, "trucks", Console(file=io.StringIO()), sure=True) == 0
    assert linked(host) == ["gates"]
    unlink(settings.streams, "gates", "marked")
    assert host.stop.exists(), "nobody is left"


def test_nothing_goes_of_whom_a_host_runs_that_has_answered_nothing_yet(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    says(settings, gates=LOG % "gates" + MINUTE % 1, trucks=GUEST % "gates" + MINUTE % 2)
    host = StreamPaths(settings.streams, "gates")
    assert link(host, "trucks")
    lock = take_lock(host.supervisor_lock)
    assert lock is not None
    with pytest.raises(StreamRunsError, match="stream__trucks"):
        remove_pipeline(settings, "trucks", Console(file=io.StringIO()), sure=True)
    assert linked(host) == ["trucks"]


def test_a_version_that_nobody_has_run_yet_goes(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, approve=True)
    says(settings, gates=LOG % "gates" + MINUTE % 1)
    says(settings, gates=LOG % "gates" + MINUTE % 2)
    version = kept_file(settings, "gates@next")
    version.write_bytes((settings.pipelines / "gates.yaml").read_bytes())
    assert [each.name for each in catalog_in_force(settings).versions] == ["gates@next"]
    before, out = meant(settings), Console(file=io.StringIO())
    assert remove_pipeline(settings, "gates@next", out, sure=True) == 0
    assert not version.exists()
    assert meant(settings) == before, "the edit waits as before"
    with pytest.raises(UnknownPipelineError):
        remove_pipeline(settings, "gates@next", out, sure=True)


def test_a_version_stays_while_it_alone_keeps_readers_from_what_was_taken_back(
    tmp_path: Path,
) -> None:
    settings = settings_in(tmp_path, approve=True)
    minute = MINUTE % 1
    patient, one = minute.replace("PT10S", "PT20S"), LOG % "gates" + minute
    says(settings, gates=one, trucks=GUEST % "gates" + minute)
    says(settings, gates=LOG % "gates" + patient)
    approve(settings, "gates", read_files(settings).pipeline("gates").digest)
    says(settings, vans=GUEST % "gates" + patient)
    take_back(settings, "gates")
    says(settings)
    before, out = meant(settings), Console(file=io.StringIO())
    assert catalog_in_force(settings).held == {"gates"}
    version = kept_file(settings, "gates@next")
    with pytest.raises(HoldsEditError, match=r"gates.yaml.*Change the file back first"):
        remove_pipeline(settings, "gates@next", out, sure=True)
    assert version.is_file()
    assert meant(settings) == before
    says(settings, gates=one)
    assert remove_pipeline(settings, "gates@next", out, sure=True) == 0
    assert not version.exists()
    assert meant(settings) == before


def meant(settings: Settings) -> dict[str, str]:
    """What each step in force means, and for how long it waits."""
    every = catalog_in_force(settings).pipelines
    return {f"{p.name}.{s.name}": f"{s.fingerprint} {s.slack.to_text()}"
            for p in every for s in p.specs}  # fmt: skip
