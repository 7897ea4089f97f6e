"""Steps of equal meaning on one log have one run, and keep it whatever others do."""

import random
from pathlib import Path

import pytest

from penstock.config import shares as module
from penstock.config.kept import catalog_in_force, catalog_to_run
from penstock.config.settings import Settings
from penstock.config.shares import Share, shares_file, shares_of
from penstock.core.errors import ConfigError

LOG = """
source: {files: gates, format: jsonl}
columns: {gate: string, weight: double}
event_time: at
steps:
"""
GUEST = "source: {pipeline: gates}\nsteps:\n"
STEP = "  {name}: {{keys: [gate], window: {{size: {size}}}, measures: {{n: count(*)}}, {more}}}\n"
SLACK = "slack: {fixed: PT10S}"
Steps = dict[str, tuple[str, str]]
"""Size of the window and what else is said, by the name of a step."""


def write(settings: Settings, **pipelines: Steps | None) -> None:
    """Files of pipelines; none: it has none."""
    settings.pipelines.mkdir(exist_ok=True)
    for name, steps in pipelines.items():
        file = settings.pipelines / f"{name}.yaml"
        if steps is None:
            file.unlink(missing_ok=True)
            continue
        said = "".join(STEP.format(name=step, size=size, more=more)
                       for step, (size, more) in steps.items())  # fmt: skip
        file.write_text((LOG if name == "gates" else GUEST) + said)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", pipelines=tmp_path / "files")


def runs(settings: Settings) -> dict[str, str]:
    """Names of runs, by pipeline and step; nobody is told another one than who runs them."""
    found = catalog_to_run(settings)
    assert not found.errors
    said = {f"{p.name}.{s.name}": s.id for p in found.pipelines for s in p.specs}
    read = catalog_in_force(settings).pipelines
    assert said == {f"{p.name}.{s.name}": s.id for p in read for s in p.specs}
    return said


def test_equal_steps_have_one_run_by_the_name_of_the_first(settings: Settings) -> None:
    write(settings, gates={"minute": ("PT1M", SLACK)},
          trucks={"mine": ("PT1M", SLACK), "hour": ("PT1H", SLACK)},
          vans={"hours": ("PT1H", SLACK), "day": ("P1D", SLACK)})  # fmt: skip
    assert runs(settings) == {
        "gates.minute": "minute", "trucks.mine": "minute", "trucks.hour": "trucks.hour",
        "vans.hours": "trucks.hour", "vans.day": "vans.day",
    }  # fmt: skip


@pytest.mark.parametrize(
    "more", ["slack: {fixed: PT20S}", f"{SLACK}, apart: true",
             f"{SLACK}, shed: {{model: linear, base: 0.5, from: 0.8}}",
             "slack: {quantile: {}}, quality: {epsilon: 0.1, delta: 0.1}"]
)  # fmt: skip
def test_another_wait_or_another_process_is_a_run_of_its_own(settings: Settings, more: str) -> None:
    write(settings, gates={"minute": ("PT1M", SLACK)}, trucks={"minute": ("PT1M", more)})
    assert runs(settings) == {"gates.minute": "minute", "trucks.minute": "trucks.minute"}


def test_whoever_edits_leaves_the_others_as_they_were(settings: Settings) -> None:
    write(
        settings, gates={"s": ("PT1M", SLACK)}, a={"s": ("PT1M", SLACK)}, b={"s": ("PT1M", SLACK)}
    )
    assert set(runs(settings).values()) == {"s"}
    write(settings, gates={"s": ("PT2M", SLACK)})
    assert runs(settings) == {"gates.s": "s.2", "a.s": "s", "b.s": "s"}
    write(settings, a={"s": ("PT2M", SLACK)})
    assert runs(settings) == {"gates.s": "s.2", "a.s": "s.2", "b.s": "s"}
    write(settings, gates={"s": ("PT1M", SLACK)})
    assert runs(settings) == {"gates.s": "s", "a.s": "s.2", "b.s": "s"}


def test_whoever_has_a_run_alone_keeps_it_by_whatever_name(settings: Settings) -> None:
    write(settings, gates={"s": ("PT1M", SLACK)}, a={"s": ("PT1M", SLACK)})
    assert runs(settings) == {"gates.s": "s", "a.s": "s"}
    write(settings, gates={"s": ("PT2M", SLACK)})
    write(settings, a=None)
    assert runs(settings) == {"gates.s": "s"}
    write(settings, gates={"s": ("PT1M", SLACK)}, a={"s": ("PT1M", SLACK)})
    runs(settings)
    write(settings, gates={"s": ("PT2M", SLACK)})
    assert runs(settings) == {"gates.s": "s.2", "a.s": "s"}
    write(settings, gates={"s": ("PT3M", SLACK)}, a={"s": ("PT1M", SLACK)})
    assert runs(settings) == {"gates.s": "s.2", "a.s": "s"}


def test_whoever_goes_leaves_its_run_to_the_others_and_finds_it_again(settings: Settings) -> None:
    both: Steps = {"hour": ("PT1H", SLACK)}
    write(settings, gates={"s": ("PT1M", SLACK)}, a=both, b=both)
    before = runs(settings)
    assert before["b.hour"] == "a.hour"
    write(settings, a=None)
    assert runs(settings) == {"gates.s": "s", "b.hour": "a.hour"}
    write(settings, a=both)
    assert runs(settings) == before


class KilledError(BaseException):
    """As if the process died."""


@pytest.mark.parametrize("point", ["before shares", "after shares"])
def test_whoever_is_killed_leaves_what_was_or_what_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    write(settings, gates={"s": ("PT1M", SLACK)}, a={"s": ("PT1M", SLACK)})
    before = runs(settings)
    write(settings, gates={"s": ("PT2M", SLACK)})

    def dies(name: str) -> None:
        if name == point:
            raise KilledError

    monkeypatch.setattr(module, "reached", dies)
    with pytest.raises(KilledError):
        catalog_to_run(settings)
    monkeypatch.undo()
    remembered = {f"{s.pipeline}.{s.step}": s.run for s in shares_of(settings).runs}
    after = {"gates.s": "s.2", "a.s": "s"}
    assert remembered == (before if point == "before shares" else after)
    assert runs(settings) == after


@pytest.mark.parametrize("content", [b"[{", b'[{"log": "gates"}]', b"7", b"\xff\xfe{}"])
def test_a_damaged_file_is_told_with_its_remedy(settings: Settings, content: bytes) -> None:
    write(settings, gates={"s": ("PT1M", SLACK)})
    runs(settings)
    shares_file(settings).write_bytes(content)
    with pytest.raises(ConfigError, match=r"shares.json is damaged: .* Put it back from a backup"):
        catalog_in_force(settings)


def test_two_steps_of_one_pipeline_have_a_run_each(settings: Settings) -> None:
    write(settings, gates={"s": ("PT1M", SLACK)},
          a={"one": ("PT1M", SLACK), "two": ("PT1M", SLACK)})  # fmt: skip
    assert runs(settings) == {"gates.s": "s", "a.one": "s", "a.two": "a.two"}


def test_a_step_that_is_renamed_keeps_its_run(settings: Settings) -> None:
    write(settings, gates={"s": ("PT1M", SLACK), "t": ("PT2M", SLACK)})
    assert runs(settings) == {"gates.s": "s", "gates.t": "t"}
    write(settings, gates={"u": ("PT1M", SLACK), "t": ("PT2M", SLACK)})
    assert runs(settings) == {"gates.u": "s", "gates.t": "t"}
    write(settings, gates={"u": ("PT1M", SLACK), "s": ("PT5M", SLACK)})
    assert runs(settings) == {"gates.u": "s", "gates.s": "s.2"}, "the name is taken"
    write(settings, gates={"s": ("PT1M", SLACK)})
    assert runs(settings) == {"gates.s": "s"}


@pytest.mark.parametrize("seed", range(20))
def test_random_edits(settings: Settings, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  reproducible
    sizes = ["PT1M", "PT2M", "PT3M"]
    files: dict[str, Steps | None] = {"gates": {"s": ("PT1M", SLACK)}}
    before: dict[str, Share] = {}
    for _ in range(25):
        name = draw.choice(["gates", "a", "b", "c"])
        steps = {step: (draw.choice(sizes), SLACK) for step in ("s", "t") if draw.random() < 0.7}
        files[name] = steps or ({"s": ("PT1M", SLACK)} if name == "gates" else None)
        write(settings, **files)
        told = runs(settings)
        now = {f"{s.pipeline}.{s.step}": s for s in shares_of(settings).runs}
        live = {key: now[key] for key in told if key in now}
        assert not live or live.keys() == told.keys()
        meanings: dict[str, str] = {}
        for key, share in live.items():
            assert told[key] == share.run
            assert meanings.setdefault(share.run, share.meaning) == share.meaning
            others = [s for k, s in live.items() if k != key and s.meaning == share.meaning]
            own = {
                s.run for k, s in live.items() if k.startswith(f"{share.pipeline}.") and k != key
            }
            assert share.run not in own
            beside = {s.run for s in others if s.pipeline != share.pipeline} - own
            assert not beside or share.run in beside or key in before, "it shares what there is"
            if key in before and before[key].meaning == share.meaning:
                assert before[key] == share, "it did not change"
        before = now
