"""A typo in a live file: the last valid definition stays in force, beside the error."""

from pathlib import Path

import pytest

from penstock.__main__ import main
from penstock.config.catalog import UnknownPipelineError, file_state
from penstock.config.kept import catalog_in_force, keep, kept_file, state_in_force
from penstock.config.settings import Settings
from penstock.control.job import pipeline_of
from penstock.core.request import Job, JobRequest
from tests.unit.config.test_pipeline_files import GOOD

TYPO = GOOD.replace("measures:", "mesures:")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two valid pipelines in use."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "home" / "in").mkdir(parents=True)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path / "pipelines"))
    made = Settings()
    for name in ("cars", "trams"):
        write(made, GOOD, name)
    keep(made, catalog_in_force(made))
    return made


def write(settings: Settings, text: str, name: str = "cars") -> Path:
    file = settings.pipelines / f"{name}.yaml"
    file.write_text(text)
    return file


def test_a_typo_leaves_the_former_definition_in_force_beside_the_error(settings: Settings) -> None:
    digest = catalog_in_force(settings).pipeline("cars").digest
    file = write(settings, TYPO)

    found = catalog_in_force(settings)

    assert [p.name for p in found.pipelines] == ["cars", "trams"]
    assert found.standing_in == {"cars"}
    assert found.pipeline("cars", digest).path == file, "messages name the file, not the copy"
    assert any(str(e).startswith(f"{file}:10  steps.per_site.mesures") for e in found.errors)
    asked = JobRequest(job=Job.CORRECT, run_id="r", pipeline="cars", digest=digest)
    assert pipeline_of(asked, settings).digest == digest


@pytest.mark.parametrize("text", ["", "a: [1", "- a", TYPO])
def test_whatever_the_typo_is(settings: Settings, text: str) -> None:
    write(settings, text)

    assert catalog_in_force(settings).standing_in == {"cars"}


def test_a_file_that_cannot_be_read_has_a_problem_too(settings: Settings) -> None:
    write(settings, GOOD).unlink()
    (settings.pipelines / "cars.yaml").mkdir()

    found = catalog_in_force(settings)

    assert found.standing_in == {"cars"}
    assert len(found.errors) == 1


def test_a_hidden_file_is_an_editors_and_no_pipeline(settings: Settings) -> None:
    before = state_in_force(settings)
    (settings.pipelines / ".#cars.yaml").symlink_to("user@host.1234:99")  # Emacs, not saved yet
    (settings.pipelines / ".vans.yml").write_text("steps: [")

    found = catalog_in_force(settings)

    assert ([p.name for p in found.pipelines], found.errors) == (["cars", "trams"], ())
    assert state_in_force(settings) == before


def test_a_file_that_goes_while_its_state_is_asked_for_is_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "penstock.config.catalog.files_in",
        lambda folder: [folder / "cars.yaml", folder / "vans.yaml"],  # as it was listed
    )

    assert [name for name, *_ in file_state(settings.pipelines)] == ["cars.yaml"]


def test_a_removed_or_renamed_file_is_no_typo(settings: Settings) -> None:
    (settings.pipelines / "cars.yaml").rename(settings.pipelines / "vans.yaml")
    (settings.pipelines / "trams.yaml").unlink()

    found = catalog_in_force(settings)

    assert [p.name for p in found.pipelines] == ["vans"]
    assert not found.errors
    with pytest.raises(UnknownPipelineError):
        found.pipeline("cars")


def test_a_renamed_file_with_a_typo_is_a_new_pipeline_that_never_was_valid(
    settings: Settings,
) -> None:
    (settings.pipelines / "cars.yaml").unlink()
    write(settings, TYPO, "vans")

    found = catalog_in_force(settings)

    assert [p.name for p in found.pipelines] == ["trams"]
    assert found.errors


def test_what_never_was_in_use_is_not_put_in_force(settings: Settings) -> None:
    """A look by ``validate`` is no use: only Airflow's parsing keeps."""
    write(settings, GOOD.replace("PT1H", "PT2H"))
    assert main(["validate"]) == 0
    write(settings, TYPO)

    former = catalog_in_force(settings).pipeline("cars")

    assert former.steps["per_site"].window.spec().size == 3_600_000_000


def test_the_mended_file_counts_again_and_is_the_next_to_be_kept(settings: Settings) -> None:
    write(settings, TYPO)
    keep(settings, catalog_in_force(settings))
    write(settings, GOOD.replace("PT1H", "PT2H"))

    found = catalog_in_force(settings)
    assert not found.standing_in
    keep(settings, found)
    write(settings, TYPO)

    assert catalog_in_force(settings).pipeline("cars").digest == found.pipeline("cars").digest


def test_a_file_edited_while_it_is_kept_never_becomes_a_kept_typo(settings: Settings) -> None:
    write(settings, GOOD.replace("PT1H", "PT2H"))
    seen = catalog_in_force(settings)
    write(settings, TYPO)  # after it was read, before it is kept

    keep(settings, seen)

    assert catalog_in_force(settings).standing_in == {"cars"}
    kept = kept_file(settings, "cars").parent.iterdir()
    assert sorted(file.name for file in kept) == ["cars.yaml", "trams.yaml"]


def test_a_damaged_copy_stands_in_for_nothing(settings: Settings) -> None:
    kept_file(settings, "cars").write_bytes(b"")
    write(settings, TYPO)

    assert not catalog_in_force(settings).standing_in


def test_validate_and_the_commands_say_both(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(settings, TYPO)

    assert main(["validate"]) == 1
    said = capsys.readouterr()
    assert "cars: its last valid definition stays in force: per_site" in said.out
    assert f"{file}:10  steps.per_site.mesures" in said.err

    assert main(["query", "cars"]) == 0
    said = capsys.readouterr()
    assert "cars: views for SQL" in said.out
    assert "the file of cars has problems; its last valid definition is in force" in said.err
    assert f"{file}:10" in said.err

    main(["status"])
    said = capsys.readouterr()
    assert f"{file}:10  steps.per_site.mesures" in said.out
    assert "cars: its last valid definition stays in force" in said.out


def test_what_is_removed_is_forgotten(settings: Settings) -> None:
    (settings.home / "streams").mkdir(parents=True)
    (settings.home / "streams" / "cars.json").write_text("{}")

    assert main(["remove", "cars", "--yes"]) == 0

    assert not kept_file(settings, "cars").exists()
    assert kept_file(settings, "trams").exists()
