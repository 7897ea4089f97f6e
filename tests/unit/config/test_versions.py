"""An edit is built beside the definition in force; a switch is one rename, as is its way back."""

import random
from pathlib import Path

import pytest

from penstock.config import kept
from penstock.config.catalog import Catalog
from penstock.config.kept import approve, build, catalog_in_force, catalog_to_run, keep, take_back
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from tests.rarely import rare

TOP = """
source: {files: gates, format: jsonl}
columns: {gate: string, lane: string, weight: double}
event_time: at
steps:
"""
GUEST = "source: {pipeline: gates}\nsteps:\n"
STEP = """  {name}: {{keys: [{key}], window: {{size: PT{size}M}}, measures: {{n: count(*)}},
    slack: {{fixed: PT9S}}}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(home=tmp_path / "home", pipelines=tmp_path / "files", approve=True)
    found.pipelines.mkdir()
    return found


def write(settings: Settings, name: str = "gates", key: str = "gate", **steps: int) -> Catalog:
    """A file with steps by the size of their windows; what is in force then is kept."""
    said = "".join(STEP.format(name=each, size=size, key=key) for each, size in steps.items())
    (settings.pipelines / f"{name}.yaml").write_text((TOP if name == "gates" else GUEST) + said)
    found = catalog_to_run(settings)
    assert not found.errors
    keep(settings, found)
    return found


def runs(settings: Settings) -> dict[str, tuple[int, str]]:
    """Minutes of the window and the run of each step; readers see what those see who run them."""
    told = [
        {f"{p.name}.{s.name}": (s.window.size // 60_000_000, s.id)
         for p in catalog.every for s in p.specs}
        for catalog in (catalog_to_run(settings), catalog_in_force(settings))
    ]  # fmt: skip
    assert told[0] == told[1]
    by_run = dict[str, set[int]]()
    for size, run in told[0].values():
        by_run.setdefault(run, set()).add(size)
    assert all(len(sizes) == 1 for sizes in by_run.values()), "a run means one thing"
    return told[0]


def digest(settings: Settings, name: str = "gates") -> str:
    return Catalog.read(settings.pipelines).pipeline(name).digest


def test_it_is_built_switched_to_and_taken_back(settings: Settings) -> None:
    write(settings, minute=1, hour=60)
    before = {"gates.minute": (1, "minute"), "gates.hour": (60, "hour")}
    assert write(settings, minute=1, hour=120).held == {"gates"}
    assert runs(settings) == before, "nobody has let it be built"
    built = build(settings, "gates", digest(settings))
    assert built is not None
    beside = {"gates@next.minute": (1, "minute"), "gates@next.hour": (120, "hour.2")}
    assert (built.name, runs(settings)) == ("gates@next", before | beside)
    for _ in range(2):
        approve(settings, "gates", digest(settings))
        switched = {
            "gates.minute": (1, "minute"), "gates.hour": (120, "hour.2"),
            "gates@former.minute": (1, "minute"), "gates@former.hour": (60, "hour"),
        }  # fmt: skip
        assert runs(settings) == switched
    for _ in range(2):
        take_back(settings, "gates")
        assert runs(settings) == before | beside
        assert catalog_in_force(settings).held == {"gates"}
    approve(settings, "gates", digest(settings))
    assert runs(settings) == switched


def test_a_version_goes_with_what_it_is_a_version_of(settings: Settings) -> None:
    write(settings, hour=60)
    write(settings, hour=120)
    assert build(settings, "gates", digest(settings)) is not None
    write(settings, hour=180)
    assert [*runs(settings)] == ["gates.hour"], "the file says something else than is built"
    write(settings, hour=60)
    assert [*runs(settings)] == ["gates.hour"]
    write(settings, hour=120)
    assert runs(settings)["gates@next.hour"] == (120, "hour.2"), "it is known still"
    approve(settings, "gates", digest(settings))
    (settings.pipelines / "gates.yaml").unlink()
    assert runs(settings) == {}


def test_a_version_stays_while_its_file_says_the_same_in_other_words(settings: Settings) -> None:
    write(settings, hour=60)
    write(settings, hour=120)
    assert build(settings, "gates", digest(settings)) is not None
    before, file = runs(settings), settings.pipelines / "gates.yaml"
    file.write_text(f"# a comment\n{file.read_text()}")
    assert runs(settings) == before
    assert "gates@next.hour" in before
    approve(settings, "gates", digest(settings))
    assert runs(settings)["gates.hour"] == before["gates@next.hour"]


def test_keys_may_change_and_the_log_stays_as_the_one_in_force_says_it(settings: Settings) -> None:
    write(settings, hour=60)
    before = catalog_in_force(settings).pipeline("gates")
    write(settings, key="lane", hour=60)
    built = build(settings, "gates", digest(settings))
    assert built is not None
    assert (built.log, built.log_digest) == ("gates", before.log_digest)
    assert built.definitions[""].keys == ("gate",)
    assert built.specs[0].key_names == ("lane",)


def test_a_guest_has_versions_of_its_own(settings: Settings) -> None:
    write(settings, hour=60)
    write(settings, "trucks", day=1440, hours=60)
    write(settings, "trucks", day=2880, hours=60)
    assert build(settings, "trucks", digest(settings, "trucks")) is not None
    found = runs(settings)
    assert found["trucks@next.day"] == (2880, "trucks.day.2")
    assert {found[f"{name}.hours"][1] for name in ("trucks", "trucks@next")} == {"hour"}
    approve(settings, "trucks", digest(settings, "trucks"))
    assert runs(settings)["trucks.day"] == (2880, "trucks.day.2")
    assert runs(settings)["trucks@former.day"] == (1440, "trucks.day")


def test_another_log_is_not_built_beside(settings: Settings) -> None:
    write(settings, hour=60)
    file = settings.pipelines / "gates.yaml"
    write(settings, hour=120)
    file.write_text(file.read_text().replace("files: gates", "files: ports"))
    assert catalog_in_force(settings).held == {"gates"}
    assert build(settings, "gates", digest(settings)) is None
    assert [*runs(settings)] == ["gates.hour"]
    approve(settings, "gates", digest(settings))
    assert runs(settings) == {"gates.hour": (120, "hour")}, "it begins anew"
    keeps = file.read_text().replace("PT120M", "PT60M") + "keep: P30D\n"
    file.write_text(keeps)
    assert build(settings, "gates", digest(settings)) is None, "records would go that it needs"


def test_nothing_is_taken_back_that_is_not_there(settings: Settings) -> None:
    write(settings, hour=60)
    with pytest.raises(ConfigError, match="gates has no former version"):
        take_back(settings, "gates")
    write(settings, hour=120)
    approve(settings, "gates", digest(settings))
    follows = settings.model_copy(update={"approve": False})
    with pytest.raises(ConfigError, match=r"followed by themselves: change .*gates.yaml back"):
        take_back(follows, "gates")


def test_a_former_version_that_does_not_fit_now_is_neither_taken_back_nor_lost(
    settings: Settings,
) -> None:
    write(settings, hour=60)
    write(settings, hour=120)
    approve(settings, "gates", digest(settings))
    file = settings.pipelines / "gates.yaml"
    edited = file.read_text().replace("files: gates", "files: ports")
    for text in (edited, edited.replace("PT120M", "PT180M")):  # another log, and then an edit there
        file.write_text(text)
        keep(settings, catalog_to_run(settings))
    assert build(settings, "gates", digest(settings)) is not None
    assert [*runs(settings)] == ["gates.hour", "gates@next.hour"]
    with pytest.raises(ConfigError, match=r"no former version\. There are: gates@next"):
        take_back(settings, "gates")
    assert in_force(settings)["gates.hour"][0] == 120
    file.write_text(edited.replace("files: ports", "files: gates"))
    keep(settings, catalog_to_run(settings))
    assert runs(settings)["gates@former.hour"][0] == 60
    take_back(settings, "gates")
    assert in_force(settings)["gates.hour"][0] == 60


def test_it_is_approved_as_it_was_planned(settings: Settings) -> None:
    write(settings, hour=60)
    write(settings, hour=120)
    planned = digest(settings)
    write(settings, hour=180)
    for act in (build, approve):
        with pytest.raises(ConfigError, match="edited since that was planned"):
            act(settings, "gates", planned)
    assert [*runs(settings)] == ["gates.hour"]


class Killed(BaseException):
    """Nobody catches it."""


class Deadly:
    """Stands for ``reached``: notes the points, and dies at one of them."""

    def __init__(self) -> None:
        self.fatal, self.points = "", list[str]()

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if point == self.fatal:
            self.fatal = ""
            raise Killed


def in_force(settings: Settings) -> dict[str, tuple[int, str]]:
    return {step: it for step, it in runs(settings).items() if "@" not in step}


def go_back(folder: Path, files: dict[Path, bytes]) -> None:
    for file in folder.glob("*.*"):
        file.unlink()
    for file, content in files.items():
        file.write_bytes(content)


def test_what_is_edited_meanwhile_is_neither_built_nor_in_force(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for it is told, and what was in force stays so, with its former version."""
    write(settings, hour=60)
    write(settings, hour=120)
    approve(settings, "gates", digest(settings))
    write(settings, hour=180)
    before, planned = runs(settings), digest(settings)
    read = kept.catalog_in_force

    def meanwhile(settings: Settings) -> Catalog:
        found = read(settings)
        write(settings, hour=240)
        return found

    for act in (build, approve):
        write(settings, hour=180)
        with monkeypatch.context() as patched:
            patched.setattr(kept, "catalog_in_force", meanwhile)
            with pytest.raises(ConfigError, match=r"was edited since that was planned\. Trigger"):
                act(settings, "gates", planned)
        assert runs(settings) == before
        assert catalog_in_force(settings).held == {"gates"}


def test_a_death_while_it_is_taken_back_and_an_edit_then(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings, hour=60)
    write(settings, hour=120)
    assert build(settings, "gates", digest(settings)) is not None
    runs(settings)
    approve(settings, "gates", digest(settings))
    write(settings, hour=180)
    deadly = Deadly()
    deadly.fatal = "after taken back"
    with monkeypatch.context() as patched:
        patched.setattr(kept, "reached", deadly)
        with pytest.raises(Killed):
            take_back(settings, "gates")
    for _ in range(2):
        take_back(settings, "gates")
        assert runs(settings) == {"gates.hour": (60, "hour")}
        assert catalog_in_force(settings).held == {"gates"}


ACTS = {
    "build": lambda known: build(known, "gates", digest(known)),
    "approve": lambda known: approve(known, "gates", digest(known)),
    "take back": lambda known: take_back(known, "gates"),
}


@pytest.mark.parametrize("last", ACTS)
def test_whoever_dies_meanwhile_readers_are_here_or_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """At each point; what is done again then ends where it would have without."""
    write(settings, hour=60, day=1440)
    write(settings, hour=120, day=1440)
    for name in [*ACTS][: [*ACTS].index(last)]:
        ACTS[name](settings)
    folder, deadly = settings.home / "definitions", Deadly()
    monkeypatch.setattr(kept, "reached", deadly)
    before, then = runs(settings), in_force(settings)
    files = {file: file.read_bytes() for file in folder.glob("*.*")}
    ACTS[last](settings)
    after, now, points = runs(settings), in_force(settings), [*deadly.points]
    assert before != after
    assert len(points) >= 2
    for point in points:
        go_back(folder, files)
        deadly.fatal = point
        with pytest.raises(Killed):
            ACTS[last](settings)
        assert in_force(settings) in (then, now)
        ACTS[last](settings)
        assert runs(settings) == after


def act(settings: Settings, name: str, what: str, rng: random.Random) -> None:
    """Whatever somebody may do; nothing is taken back where nothing is."""
    if what == "edit":
        steps = {"gates": ("hour", "day"), "trucks": ("hours",)}[name]
        write(settings, name, **{each: rng.choice([60, 120, 180, 1440]) for each in steps})
    elif what != "take back":
        {"build": build, "approve": approve}[what](settings, name, digest(settings, name))
    elif f"{name}@former" in {each.name for each in catalog_in_force(settings).versions}:
        take_back(settings, name)


@pytest.mark.parametrize("seed", [*range(10), *map(rare, range(10, 40))])
def test_readers_keep_their_runs_whatever_is_done(settings: Settings, seed: int) -> None:
    """Who means the same keeps its run; a switch and its way back give those of the version."""
    rng, switches = random.Random(seed), 0  # noqa: S311
    write(settings, hour=60, day=1440)
    write(settings, "trucks", hours=60)
    before = runs(settings)
    for _ in range(60):
        name, what = rng.choice(["gates", "trucks"]), rng.choice(["edit", "edit", *ACTS])
        act(settings, name, what, rng)
        now = runs(settings)
        same = {step for step in before.keys() & now.keys() if before[step][0] == now[step][0]}
        assert {step: now[step] for step in same} == {step: before[step] for step in same}
        gets = f"{name}@former." if what == "take back" else f"{name}@next."
        version = {step.partition(".")[2]: it for step, it in before.items() if gets in step}
        if what in ("approve", "take back") and version:
            switches += 1
            mine = {step: now[f"{name}.{step}"] for step in version}
            assert {*mine.values()} == {*version.values()}, "of two that mean the same either"
            assert {step: size for step, (size, _) in mine.items()} == {
                step: size for step, (size, _) in version.items()
            }
        before = now
    assert switches
