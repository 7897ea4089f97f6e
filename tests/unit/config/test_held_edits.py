"""With the setting, an edit that has a past computed anew waits until somebody approves it."""

from pathlib import Path

import pytest

from penstock.config.catalog import Catalog
from penstock.config.kept import approve, catalog_in_force, catalog_to_run, keep
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError

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
