"""Pipelines on the log of another one: what they are given, and what is wrong with them, where."""

from pathlib import Path

import pytest

from penstock.config.catalog import Catalog
from penstock.config.guest import Guest
from penstock.config.kept import catalog_in_force, catalog_to_run, keep, read_files
from penstock.config.links import stands_on
from penstock.config.settings import Settings
from penstock.config.shares import shares_file
from penstock.core.errors import ConfigError
from penstock.runtime.streams.linked import LinkedPipelines
from penstock.runtime.streams.links import link
from penstock.runtime.streams.paths import StreamPaths
from tests.catalogs import said

LOG = """
source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
GUEST = """source: {pipeline: gates}
steps:
  heavy:
    keys: [gate]
    where: weight > 3
    window: {size: PT1H}
    measures: {most: max(weight)}
    slack: {fixed: PT1M}
"""


def read(folder: Path, text: str = GUEST, log: str = LOG, name: str = "trucks") -> Catalog:
    """Both files."""
    (folder / "gates.yaml").write_text(log)
    (folder / f"{name}.yaml").write_text(text)
    return Catalog.read(folder)


def test_a_pipeline_stands_on_the_log_of_another_one(tmp_path: Path) -> None:
    catalog = read(tmp_path)
    assert said(catalog) == []
    log, trucks = catalog.pipeline("gates"), catalog.pipeline("trucks")
    assert isinstance(trucks, Guest)
    assert (trucks.log, log.log) == ("gates", "gates")
    assert stands_on(trucks) == ("gates",)
    assert (trucks.types, trucks.definitions) == (log.types, log.definitions)
    assert (trucks.log_digest, trucks.histories) == (log.log_digest, {})
    heavy, minute = trucks.spec("heavy"), log.spec("minute")
    assert (heavy.id, minute.id) == ("trucks.heavy", "minute")
    assert trucks.query_of("heavy") == log.query_of("minute"), "one query runs both"


def test_what_a_step_means_does_not_hang_on_who_asks(tmp_path: Path) -> None:
    step = LOG[LOG.index("  minute") :]
    trucks = read(tmp_path, f"source: {{pipeline: gates}}\nsteps:\n{step}").pipeline("trucks")
    minute = Catalog.read(tmp_path).pipeline("gates").spec("minute")
    assert trucks.spec("minute").fingerprint == minute.fingerprint
    assert trucks.spec("minute").id != minute.id


def test_guests_stand_on_guests(tmp_path: Path) -> None:
    read(tmp_path)
    (tmp_path / "vans.yaml").write_text(GUEST.replace("gates", "trucks"))
    (tmp_path / "days.yaml").write_text(
        "source: {pipeline: vans, step: heavy}\ncolumns: {most: double}\n"
        "steps:\n  day: {window: {size: P1D}, measures: {most: max(most)}}\n"
    )
    catalog = Catalog.read(tmp_path)
    assert said(catalog) == []
    vans, days = catalog.pipeline("vans"), catalog.pipeline("days")
    assert (vans.log, vans.spec("heavy").id) == ("gates", "vans.heavy")
    assert (days.log, stands_on(days)) == ("days", ("vans", "trucks", "gates"))


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ("pipeline: gates", "pipeline: gate", "trucks.yaml:1 source.pipeline no valid pipeline is"
         " called gate. Did you mean gates?"),
        ("pipeline: gates", "pipeline: trucks", "trucks.yaml:1 source.pipeline trucks stands on"
         " itself. Name another one"),
        ("pipeline: gates}", "pipeline: gates, files: x}", "trucks.yaml:1 source.files files says"
         " how files are read. Delete it"),
        ("steps:", "columns: {gate: string}\nsteps:", "trucks.yaml:2 columns columns is said by the"
         " pipeline whose log it is, for all that stand there. Delete it"),
        ("steps:", "keep: P1D\nsteps:", "trucks.yaml:2 keep keep is said by the pipeline whose log"
         " it is, for all that stand there. Delete it"),
        ("keys: [gate]", "keys: [gat]", "trucks.yaml:4 steps.heavy.keys "),
        ("weight > 3", "wait > 3", "trucks.yaml:5 steps.heavy.where "),
        ("max(weight)", "max(wait)", "trucks.yaml:7 steps.heavy.measures.most "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, was: str, now: str, expected: str
) -> None:
    (line,) = said(read(tmp_path, GUEST.replace(was, now)))
    assert line.startswith(expected.rstrip(". ")), line


def test_a_log_that_forgets_has_no_guests(tmp_path: Path) -> None:
    (line,) = said(read(tmp_path, log=LOG + "keep: P30D\n"))
    assert line.startswith("trucks.yaml:1 source.pipeline gates keeps its records for a while")


def test_a_guest_of_answers_is_told_what_to_write(tmp_path: Path) -> None:
    read(tmp_path)
    (tmp_path / "rush.yaml").write_text(
        "source: {pipeline: gates, step: minute}\ncolumns: {n: long}\n"
        "steps:\n  hour: {window: {size: PT1H}, measures: {most: max(n)}}\n"
    )
    (tmp_path / "trucks.yaml").write_text(GUEST.replace("gates", "rush"))
    (line,) = said(Catalog.read(tmp_path))
    assert "rush takes the answers of gates.minute" in line


def test_a_definition_that_was_valid_stays_while_its_file_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    settings = Settings(home=tmp_path / "home", pipelines=folder)
    keep(settings, read(folder))
    (folder / "trucks.yaml").write_text("source: {pipeline: gates}\nsteps: {}\n")
    found = catalog_in_force(settings)
    assert found.standing_in == {"trucks"}
    assert found.pipeline("trucks").spec("heavy").id == "trucks.heavy"


def test_an_edit_of_steps_is_no_other_log(tmp_path: Path) -> None:
    before = read(tmp_path).pipeline("gates")
    after = read(tmp_path, log=LOG.replace("PT1M", "PT2M")).pipeline("gates")
    assert after.digest != before.digest
    assert after.log_digest == before.log_digest
    for other in (LOG.replace("jsonl", "csv"), LOG.replace("weight: double", "weight: long"),
                  LOG.replace("keys: [gate], ", "")):  # fmt: skip
        assert read(tmp_path, log=other).pipeline("gates").log_digest != before.log_digest


def test_what_a_log_of_answers_is_hangs_on_the_step_above(tmp_path: Path) -> None:
    rush = (
        "source: {pipeline: gates, step: minute}\ncolumns: {n: long}\n"
        "steps:\n  hour: {window: {size: PT1H}, measures: {most: max(n)}}\n"
    )
    before = read(tmp_path, rush, name="rush").pipeline("rush").log_digest
    assert read(tmp_path, rush, name="rush").pipeline("rush").log_digest == before
    other = LOG.replace("n: count(*)", "n: count(*), most: max(weight)")
    assert read(tmp_path, rush, other, name="rush").pipeline("rush").log_digest != before


def test_a_log_stays_for_those_that_stand_there(tmp_path: Path) -> None:
    """Its own pipeline is gone, and its steps with it; the stream of the log goes on."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    settings = Settings(home=tmp_path / "home", pipelines=folder)
    before = read(folder)
    keep(settings, before)
    (folder / "gates.yaml").unlink()
    for catalog in (catalog_in_force(settings), read_files(settings)):
        assert [p.name for p in catalog.pipelines] == ["trucks"]
        assert not catalog.errors
        assert not catalog.standing_in
        assert catalog.pipeline("trucks").log_digest == before.pipeline("trucks").log_digest
    log = catalog_to_run(settings).pipeline("gates", before.pipeline("gates").log_digest)
    paths = StreamPaths(settings.streams, "gates")
    assert link(paths, "trucks")
    assert link(paths, "gates"), "whoever was linked, and is gone"
    assert [p.name for p in LinkedPipelines(settings, log)()] == ["trucks"]
    (folder / "trucks.yaml").unlink()
    assert not catalog_in_force(settings).logs, "nobody asks for it"


@pytest.mark.parametrize("edit", ["a: [1", GUEST.replace("where:", "were:"), LOG])
def test_a_log_stays_for_those_whose_former_definition_stands_there(
    tmp_path: Path, edit: str
) -> None:
    """With a problem, or an edit that waits, of a guest of a log whose file is gone."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    settings = Settings(home=tmp_path / "home", pipelines=folder, approve=True)
    before = read(folder)
    keep(settings, before)
    (folder / "gates.yaml").unlink()
    (folder / "trucks.yaml").write_text(edit)
    found = catalog_in_force(settings)
    assert [(p.name, p.log) for p in found.pipelines] == [("trucks", "gates")]
    assert found.standing_in | found.held == {"trucks"}
    assert [log.name for log in found.logs] == ["gates"]
    assert found.pipeline("trucks").digest == before.pipeline("trucks").digest


def test_a_host_goes_on_while_it_cannot_be_read_what_runs(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    read(folder)
    settings = Settings(home=tmp_path / "home", pipelines=folder)
    paths = StreamPaths(settings.streams, "gates")
    assert link(paths, "gates")
    runs = LinkedPipelines(settings, catalog_to_run(settings).pipeline("gates"))
    assert [p.name for p in runs()] == ["gates"]
    whole = shares_file(settings).read_bytes()
    shares_file(settings).write_bytes(b"[")
    with pytest.raises(ConfigError):
        catalog_to_run(settings)
    assert link(paths, "trucks")
    assert [p.name for p in runs()] == ["gates"]
    shares_file(settings).write_bytes(whole)
    assert [p.name for p in runs()] == ["gates", "trucks"]
