"""Steps over steps in one file: the same as pipelines over answers in files of their own."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from penstock.config.answers import OverAnswers
from penstock.config.catalog import Catalog, others_of, spec_of
from penstock.config.kept import approve, build, catalog_in_force, keep, take_back
from penstock.config.links import stands_on
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.floor import file_of
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.explain import show_explanation
from penstock.runtime.terminal.removal import remove_pipeline
from penstock.runtime.terminal.to_remove import StoodOnError
from tests.catalogs import require_said, said

ONE = """description: Who passes which gate
source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
audit: {cron: 3 * * * *}
steps:
  minute:
    keys: [gate]
    window: {size: PT1M}
    measures: {passed: count(*), heavy: max(weight)}
    slack: {fixed: PT10S}
  rush:
    from: minute
    keys: [gate]
    window: {size: PT1H}
    measures: {most: max(passed), hours: count(*)}
  day:
    from: rush
    window: {size: P1D}
    measures: {most: max(most), hours: sum(hours)}
  heavy:
    from: minute
    window: {size: PT1H}
    measures: {heavy: max(heavy), n: sum(n_records)}
"""
RUSH = ONE.index("  rush:")
EVERY = ["gates", "gates-minute", "gates-rush"]
ABOVE = """source: {pipeline: gates, step: minute}
columns: {gate: string, passed: long, heavy: double, n_records: long}
steps:
  rush:
    keys: [gate]
    window: {size: PT1H}
    measures: {most: max(passed), hours: count(*)}
  heavy:
    window: {size: PT1H}
    measures: {heavy: max(heavy), n: sum(n_records)}
"""
TOP = """source: {pipeline: above, step: rush}
columns: {most: long, hours: long}
steps:
  day:
    window: {size: P1D}
    measures: {most: max(most), hours: sum(hours)}
"""


def read(folder: Path, text: str = ONE) -> Catalog:
    folder.mkdir(exist_ok=True)
    (folder / "gates.yaml").write_text(text)
    return Catalog.read(folder)


def test_a_file_is_its_own_pipeline_and_a_floor_above_each_step(tmp_path: Path) -> None:
    catalog = read(tmp_path)
    assert said(catalog) == []
    steps = {each.name: [*each.steps] for each in catalog.pipelines}
    assert steps == {
        "gates": ["minute"], "gates-minute": ["rush", "heavy"], "gates-rush": ["day"],
    }  # fmt: skip
    top = catalog.pipeline("gates-rush")
    assert isinstance(top, OverAnswers)
    assert stands_on(top) == ("gates-minute", "gates")
    assert {file_of(name) for name in (*steps, "gates-rush@next")} == {"gates"}
    assert (top.description, top.audit.cron) == ("Who passes which gate", "3 * * * *")
    assert top.path == tmp_path / "gates.yaml"


def test_it_means_what_files_of_their_own_mean(tmp_path: Path) -> None:
    floors = read(tmp_path / "one")
    read(tmp_path / "more", ONE[:RUSH])
    (tmp_path / "more" / "above.yaml").write_text(ABOVE)
    (tmp_path / "more" / "top.yaml").write_text(TOP)
    files = Catalog.read(tmp_path / "more")
    assert said(files) == []
    for name, other in zip(EVERY, ("gates", "above", "top"), strict=True):
        one, two = floors.pipeline(name), files.pipeline(other)
        assert one.specs == two.specs
        assert two.types.items() <= one.types.items(), "all that an answer has"


def test_an_edit_is_one_of_the_floor_that_it_is_on(tmp_path: Path) -> None:
    before = read(tmp_path)
    after = read(tmp_path, ONE.replace("max(most)", "min(most)"))
    changed = [name for name in EVERY
               if before.pipeline(name).digest != after.pipeline(name).digest]  # fmt: skip
    assert changed == ["gates-rush"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("from: minute\n    keys", "from: minut\n    keys"),
         r":13 steps.rush.from minut is no step of this file. Did you mean minute\?"),
        (("from: minute\n    keys", "from: day\n    keys"), r":13 steps.rush.from rush is from it"),
        (("from: rush", "from: day"), r":18 steps.day.from day is from itself"),
        (("from: rush", "from: [rush]"), r":18 steps.day.from \['rush'\] is no step"),
        (("max(passed)", "max(passd)"), r":16 steps.rush.measures.most passd is no .* passed\?"),
        (("max(passed)", "max(passd)"), r":18 steps.day.from rush has problems itself"),
        (("PT1H}\n    measures: {most", "PT90S}\n    measures: {most"),
         r":15 steps.rush.window windows of minute would lie in two of its own"),
        (("size: P1D}", "size: P1D}\n    slack: {fixed: PT1S}"), r":20 steps.day.slack answ"),
        (("window: {size: P1D}", "windw: {size: P1D}"), r":19 steps.day.windw unknown key"),
        (("columns:", "keep: P9D\ncolumns:"), r":3 keep gates keeps records for a while"),
        (("    keys: [gate]\n    window: {size: PT1M}\n    measures: {passed: count(*), heavy: "
          "max(weight)}", "    kind: latest\n    keys: [gate]\n    columns: [weight]"),
         r":1\d steps.rush.measures.most passed is no .*are: gate, n_records, weight\. Take"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where_it_stands(
    change: tuple[str, str], expected: str, tmp_path: Path
) -> None:
    assert change[0] in ONE
    catalog = read(tmp_path, ONE.replace(*change, 1))
    require_said(catalog, expected)
    assert not any("slack is missing" in line for line in said(catalog))


def test_another_file_may_take_the_answers_of_a_floor(tmp_path: Path) -> None:
    text = TOP.replace("pipeline: above", "pipeline: gates-minute")
    (tmp_path / "top.yaml").write_text(text)
    catalog = read(tmp_path)
    assert said(catalog) == []
    assert stands_on(catalog.pipeline("top")) == ("gates-minute", "gates")


def test_a_guest_may_have_floors(tmp_path: Path) -> None:
    text = "source: {pipeline: gates}\n" + ONE[ONE.index("steps:") :]
    (tmp_path / "guest.yaml").write_text(text)
    catalog = read(tmp_path, ONE[:RUSH])
    assert said(catalog) == []
    assert stands_on(catalog.pipeline("guest-rush")) == ("guest-minute", "guest", "gates")


class Kept:
    """What is in force of a folder of files."""

    def __init__(self, home: Path, *, approve: bool = False, text: str = ONE) -> None:
        home.mkdir(exist_ok=True)
        self.settings = Settings(home=home / "home", pipelines=home / "files", approve=approve)
        self.write(text)

    def write(self, text: str) -> Catalog:
        read(self.settings.pipelines, text)
        found = catalog_in_force(self.settings)
        keep(self.settings, found)
        return found


def test_all_floors_stay_in_force_while_the_file_has_problems(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    before = catalog_in_force(kept.settings)
    typo = ONE.replace("max(passed)", "max(passd)")  # seen only once they are linked
    for text in (typo, typo.replace("max(weight)", "min(weight)")):
        found = kept.write(text)
        assert found.standing_in == {*EVERY}
        assert all(found.pipeline(each).digest == before.pipeline(each).digest for each in EVERY)
    found = kept.write(ONE.replace("event_time", "event_tme"))
    assert found.standing_in == {*EVERY}
    assert [step.name for step in found.pipeline("gates-minute").specs] == ["rush", "heavy"]
    kept.write(ONE[:RUSH])
    found = kept.write(ONE[:RUSH].replace("event_time", "event_tme"))
    assert found.standing_in == {"gates"}, "what was taken out of the file is meant to be gone"


WEEK = "  week: {from: heavy, window: {size: P7D}, measures: {heavy: max(heavy)}}\n"


def test_nothing_of_a_file_with_problems_is_in_force_that_was_not_before(tmp_path: Path) -> None:
    kept, typo = Kept(tmp_path / "known"), ONE.replace("max(most)", "max(mst)")
    for _ in range(2):
        found = kept.write(typo + WEEK)
        assert [each.name for each in found.pipelines] == EVERY
    fresh = Kept(tmp_path / "fresh", text=typo)
    for _ in range(2):
        found = fresh.write(typo)
        assert found.pipelines == ()
        assert len(found.errors) == 1


def test_an_edit_of_a_floor_waits_and_is_built_beside_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path, approve=True)
    edited = ONE.replace("max(most)", "min(most)")
    found = kept.write(edited)
    assert found.held == {"gates-rush"}
    digest = Catalog.read(kept.settings.pipelines).pipeline("gates-rush").digest
    assert build(kept.settings, "gates-rush", digest) is not None
    assert [each.name for each in catalog_in_force(kept.settings).versions] == ["gates-rush@next"]
    approve(kept.settings, "gates-rush", digest)
    found = catalog_in_force(kept.settings)
    assert (found.held, [v.name for v in found.versions]) == (set(), ["gates-rush@former"])
    (step,) = found.pipeline("gates-rush").own_specs
    assert step == read(tmp_path / "x", edited).pipeline("gates-rush").own_specs[0]


def test_it_is_removed_from_the_top(tmp_path: Path) -> None:
    settings = Kept(tmp_path).settings
    events = Path(Tables(settings.lake_uri, "gates-rush").uri("events"))
    events.mkdir(parents=True)
    (events / "part").write_text("a row")
    out = Console(file=io.StringIO(), width=400)
    with pytest.raises(StoodOnError, match="gates-rush"):
        remove_pipeline(settings, "gates-minute", out, sure=True)
    assert remove_pipeline(settings, "gates-rush", out, sure=True) == 0
    assert not events.exists()
    assert "delete its steps in " in out.file.getvalue()  # type: ignore[attr-defined]


def test_whoever_asks_the_wrong_one_is_told_which_is_meant(tmp_path: Path) -> None:
    gates = read(tmp_path).pipeline("gates")
    assert [each.name for each in others_of(gates)] == EVERY[1:]
    with pytest.raises(ConfigError, match=r"has no step rush.* rush is a step of gates-minute"):
        spec_of(gates, "rush")
    with pytest.raises(ConfigError, match=r"Its steps: minute\.$"):
        spec_of(gates, "rash")
    out = Console(file=io.StringIO(), width=200)
    show_explanation(Settings(home=tmp_path), gates, datetime(2026, 1, 1, tzinfo=UTC), out)
    assert "gates-minute (rush, heavy), gates-rush (day)" in out.file.getvalue()  # type: ignore[attr-defined]


def test_no_version_is_built_of_what_takes_other_answers(tmp_path: Path) -> None:
    kept = Kept(tmp_path, approve=True)
    found = kept.write(ONE.replace("max(passed)", "min(passed)").replace("max(most)", "min(most)"))
    assert found.held == {"gates-minute", "gates-rush"}
    files = Catalog.read(kept.settings.pipelines)
    built = [build(kept.settings, name, files.pipeline(name).digest) for name in EVERY[1:]]
    assert [each and each.name for each in built] == ["gates-minute@next", None]

    kept.write(ONE.replace("size: PT1H", "size: PT2H").replace("size: P1D", "size: PT2H"))
    files = Catalog.read(kept.settings.pipelines)
    for name in EVERY[1:]:
        approve(kept.settings, name, files.pipeline(name).digest)
    take_back(kept.settings, "gates-minute")
    kept.write(ONE.replace("size: PT1H", "size: PT2H").replace("size: P1D", "size: PT4H"))
    digest = Catalog.read(kept.settings.pipelines).pipeline("gates-rush").digest
    assert build(kept.settings, "gates-rush", digest) is None
