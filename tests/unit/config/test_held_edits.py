"""With the setting, an edit that has a past computed anew waits until somebody approves it."""

from pathlib import Path

import pytest

from penstock.config import kept
from penstock.config.catalog import Catalog
from penstock.config.kept import (
    approve,
    catalog_in_force,
    catalog_to_run,
    keep,
    read_files,
    take_back,
)
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from tests.catalogs import said

LOG = """
source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
  minute: {keys: [gate], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
GUEST = """
source: {pipeline: gates}
steps:
  hour: {keys: [gate], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT10S}}
"""
HEAVY = GUEST.replace("count(*)", "max(load)")
OTHER = LOG.replace("n: count(*)", "most: max(weight)")


def settings_of(home: Path, *, waits: bool = True) -> Settings:
    found = Settings(home=home / "home", pipelines=home / "files", approve=waits)
    found.pipelines.mkdir(exist_ok=True)
    return found


def write(settings: Settings, log: str = LOG, guest: str = GUEST) -> Catalog:
    """Both files; what is in force then is kept, as Airflow's parsing does."""
    (settings.pipelines / "gates.yaml").write_text(log)
    (settings.pipelines / "trucks.yaml").write_text(guest)
    catalog = catalog_in_force(settings)
    keep(settings, catalog)
    return catalog


def meanings(catalog: Catalog) -> dict[str, str]:
    return {f"{p.name}.{s.name}": s.fingerprint for p in catalog.pipelines for s in p.specs}


@pytest.mark.parametrize("edit", [OTHER, LOG + LOG[LOG.index("  minute") :].replace("minute", "m")])
def test_it_waits_and_then_is_in_force(tmp_path: Path, edit: str) -> None:
    settings = settings_of(tmp_path)
    before = meanings(write(settings))
    for _ in range(2):
        catalog = write(settings, edit)
        assert (catalog.held, meanings(catalog)) == ({"gates"}, before)
        assert meanings(catalog_to_run(settings)) == before
    digest = Catalog.read(settings.pipelines).pipeline("gates").digest
    approve(settings, "gates", digest)
    approve(settings, "gates", digest)
    catalog = catalog_in_force(settings)
    assert not catalog.held
    assert meanings(catalog) == meanings(Catalog.read(settings.pipelines)) != before


def test_what_computes_nothing_anew_does_not_wait(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    write(settings)
    catalog = write(settings, LOG.replace("PT10S", "PT20S") + "description: Gates\n")
    assert not catalog.held
    assert catalog.pipeline("gates").description == "Gates"
    assert not write(settings, guest=GUEST.replace("  hour", "  hours: {")).held, "it has problems"


def test_without_the_setting_nothing_waits(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, waits=False)
    before = meanings(write(settings))
    catalog = write(settings, OTHER)
    assert not catalog.held
    assert meanings(catalog) != before


def test_a_guest_stands_on_the_definition_in_force(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    write(settings)
    edited = OTHER.replace("PT1M", "PT2M").replace("weight: double", "load: double")
    catalog = write(settings, edited.replace("max(weight)", "max(load)"), HEAVY)
    assert catalog.held == {"gates", "trucks"}
    assert catalog.pipeline("trucks").types == catalog.pipeline("gates").types
    files = {p.name: p.digest for p in Catalog.read(settings.pipelines).pipelines}
    approve(settings, "gates", files["gates"])
    approve(settings, "trucks", files["trucks"])
    assert not catalog_in_force(settings).held


def test_only_what_was_planned_is_approved(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    before = meanings(write(settings))
    write(settings, OTHER)
    digest = Catalog.read(settings.pipelines).pipeline("gates").digest
    write(settings, OTHER.replace("PT1M", "PT5M"))
    with pytest.raises(ConfigError, match=r"edited since that was planned. Trigger"):
        approve(settings, "gates", digest)
    assert meanings(catalog_in_force(settings)) == before


def test_an_edit_that_takes_other_answers_waits(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    over = "source: {pipeline: gates, step: minute}\ncolumns: {gate: string, n: long}\nsteps:\n" + (
        "  top: {keys: [gate], window: {size: PT1H}, measures: {most: max(n)}}\n"
    )
    (settings.pipelines / "rush.yaml").write_text(over)
    assert not write(settings).errors
    (settings.pipelines / "rush.yaml").write_text(over.replace("minute", "minutes"))
    found = write(settings, LOG.replace("minute:", "minutes:"))
    assert found.held == {"gates", "rush"}
    above = found.pipeline("rush").specs[0].above
    assert above is not None
    assert above.fingerprint == found.pipeline("gates").spec("minute").fingerprint
    for name in ("gates", "rush"):
        approve(settings, name, Catalog.read(settings.pipelines).pipeline(name).digest)
    found = catalog_in_force(settings)
    assert (found.held, found.errors) == (frozenset(), ())


HOUR = "  hour: {from: minute, keys: [gate], window: {size: PT60M}, measures: {n: sum(n)}}\n"
OVER = """
source: {pipeline: gates, step: minute}
columns: {gate: string, n: long}
steps:
  rush: {keys: [gate], window: {size: PT1H}, measures: {most: max(n)}}
"""
MINUTES = "source: {pipeline: gates}\n" + LOG[LOG.index("steps") :]
"""A guest that asks what ``gates`` does."""
HEAVIEST = MINUTES.replace("count(*)", "max(weight)")


def run_all(settings: Settings, **files: str) -> Catalog:
    """Files, and what runs then; it is kept."""
    for name, text in files.items():
        (settings.pipelines / f"{name}.yaml").write_text(text)
    catalog = catalog_to_run(settings)
    assert said(catalog) == []
    keep(settings, catalog)
    return catalog


def pasts(catalog: Catalog) -> dict[str, tuple[str, str, str]]:
    """Where each step has its past, and what it computes."""
    return {
        f"{p.name}.{s.name}": (p.log, s.id, s.fingerprint) for p in catalog.pipelines
        for s in p.specs
    }  # fmt: skip


ANEW = {
    "a guest gets a source of its own": ({"trucks": MINUTES}, {"trucks": LOG}),
    "it becomes a guest": ({"trucks": LOG}, {"trucks": MINUTES}),
    "a guest moves": (
        {"doors": LOG, "trucks": MINUTES},
        {"trucks": MINUTES.replace("gates", "doors")},
    ),
    "one that shares a run waits otherwise": (
        {"gates": LOG + HOUR, "trucks": MINUTES + HOUR},
        {"gates": LOG.replace("PT10S", "PT20S") + HOUR},
    ),
    "more columns of answers": (
        {"rush": OVER},
        {"rush": OVER.replace("n: long}", "n: long, n_records: long}")},
    ),
    "other sizes of what answers come in": (
        {"rush": OVER},
        {"rush": OVER + "micro_batch: {least: 10, most: 1000}\n"},
    ),
    "another type for a guest": (
        {"trucks": HEAVIEST},
        {"gates": LOG.replace("weight: double", "weight: long")},
    ),
    "a guest would have no column": (
        {"trucks": HEAVIEST},
        {"gates": LOG.replace("weight", "load"), "trucks": HEAVIEST.replace("weight", "load")},
    ),
    "what is over it asks for more": (
        {"rush": OVER},
        {"gates": LOG.replace("count(*)", "count(*), w: max(weight)"),
         "rush": OVER.replace("n: long", "n: long, w: double")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ANEW)
def test_whatever_has_a_past_computed_anew_waits(tmp_path: Path, case: str) -> None:
    settings = settings_of(tmp_path)
    files, edit = ANEW[case]
    before = pasts(run_all(settings, **({"gates": LOG, "other": LOG} | files)))
    for _ in range(2):
        found = run_all(settings, **edit)
        assert (found.held, pasts(found)) == ({*edit}, before)
        assert pasts(catalog_in_force(settings)) == before
    for name in edit:  # those that others stand on first
        approve(settings, name, read_files(settings).pipeline(name).digest)
    found = run_all(settings)
    assert not found.held
    assert pasts(found) != before
    assert {p.name: p.digest for p in found.pipelines} == {
        p.name: p.digest for p in read_files(settings).pipelines
    }


def test_what_finds_its_past_does_not_wait(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    later = {"gates": LOG.replace("PT10S", "PT20S"), "vans": MINUTES.replace("PT10S", "PT20S")}
    run_all(settings, **(later | {"gates": LOG, "trucks": MINUTES}))
    found = run_all(settings, **later)
    assert not found.held
    assert pasts(found)["gates.minute"] == pasts(found)["vans.minute"], "shares its run"
    found = run_all(settings, bikes=LOG, cars=MINUTES, rush=OVER)
    assert not found.held, "new ones have none"


def test_what_was_taken_back_waits_though_others_have_its_past(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    before = pasts(run_all(settings, gates=LOG, trucks=MINUTES))
    run_all(settings, gates=LOG.replace("PT10S", "PT20S"))
    approve(settings, "gates", read_files(settings).pipeline("gates").digest)
    run_all(settings, vans=MINUTES.replace("PT10S", "PT20S"))
    take_back(settings, "gates")
    found = run_all(settings)
    assert found.held == {"gates"}
    assert {step: pasts(found)[step] for step in before} == before


def test_a_file_that_was_changed_back_while_it_was_read_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)
    before = pasts(run_all(settings, gates=LOG))
    file = settings.pipelines / "gates.yaml"
    file.write_text(OTHER)
    read = kept.read_files

    def meanwhile(settings: Settings) -> Catalog:
        found = read(settings)
        file.write_text(LOG)
        return found

    monkeypatch.setattr(kept, "read_files", meanwhile)
    assert pasts(catalog_to_run(settings)) == before
