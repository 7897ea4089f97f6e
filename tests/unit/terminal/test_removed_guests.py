"""A pipeline on the log of another one is removed, and the log stays."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from penstock.config.kept import catalog_in_force, keep
from penstock.config.settings import Settings
from penstock.config.shares import Shares, changing, remember, shared, shares_of
from penstock.lake.history.generation import generations
from penstock.lake.history.plans import CorrectionPlan, plans
from penstock.lake.history.position import BACKFILL, position
from penstock.lake.history.standing import answers_in_force, ever_run, left_behind, notes
from penstock.lake.storage.remove import stored
from penstock.runtime.streams.control import take_lock
from penstock.runtime.streams.links import link, unlink
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.terminal import removal
from penstock.runtime.terminal.removal import (
    ChangedMeanwhileError,
    StreamRunsError,
    remove_pipeline,
)
from tests.guests import guest, log_of
from tests.lakes import ROWS, Lake
from tests.streams import write_jsonl

LOG = """source: {files: live, format: jsonl}
columns: {site: string}
event_time: at
steps:
  s: {keys: [site], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT1S}}
"""


def answered(home: Path) -> tuple[Lake, Lake, Settings]:
    """A log with a step of its own and a guest's, both corrected."""
    lake = log_of(home)
    other = guest(lake, "g", "codes")
    steps = [lake.step, other.step]
    write_jsonl(home / "live" / "0.jsonl", ROWS)
    lake.query(steps=steps)
    lake.ingest()
    lake.query(steps=steps).run()
    for each in (lake, other):
        each.correct()
        each.check()
    return lake, other, Settings(home=home, pipelines=home / "files")


def removed(settings: Settings, name: str) -> str:
    out = io.StringIO()
    assert remove_pipeline(settings, name, Console(file=out, width=200), sure=True) == 0
    return out.getvalue()


def test_what_its_steps_wrote_goes_and_nothing_else(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    before = lake.in_force()
    assert other.in_force()
    assert "g.s in " in removed(settings, "g")
    assert ever_run(lake.tables) == ["s"]
    assert notes(other.tables, [other.step]) == []
    assert left_behind(lake.tables, [other.step]) == []
    assert lake.in_force() == before
    lake.check()


def test_removed_twice_is_removed_once(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    removed(settings, "g")
    count = len(generations(lake.tables, other.step))
    with pytest.raises(Exception, match="no pipeline is called g"):
        removed(settings, "g")
    assert len(generations(lake.tables, other.step)) == count


def test_one_that_comes_again_begins_anew_and_answers_all(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    before = other.in_force()
    removed(settings, "g")
    assert answers_in_force(other.tables, other.step).num_rows == 0
    lake.query(steps=[lake.step, other.step]).run()
    other.correct()
    other.check()
    assert other.in_force() == before
    assert [g.epoch for g in generations(other.tables, other.step)] == [0, 1, 2]


def late_comer(home: Path) -> tuple[Lake, Lake, Settings]:
    """A guest that came to a log with records, and has answered its past."""
    lake = log_of(home)
    lake.query()
    write_jsonl(home / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query().run()
    other = guest(lake, "g", "codes")
    past_of(lake, other)
    return lake, other, Settings(home=home, pipelines=home / "files")


def past_of(lake: Lake, other: Lake) -> CorrectionPlan:
    """A guest is started, and answers its past; the plan of that."""
    lake.query(steps=[lake.step, other.step]).run()
    other.correct()
    plan = plans(other.tables, other.step)[0][0]
    assert plan.reason == BACKFILL
    return plan


def test_one_that_came_late_and_comes_again_answers_its_past_once_more(tmp_path: Path) -> None:
    lake, other, settings = late_comer(tmp_path)
    before = other.in_force()
    assert before
    for _ in range(2):
        removed(settings, "g")
        assert past_of(lake, other).base is None, "what it had answered went with it"
        other.check()
        at = position(other.tables, other.step)
        assert at is not None
        assert not at.owes
        assert other.in_force() == before


def test_what_it_has_answered_since_it_came_again_holds_on(tmp_path: Path) -> None:
    lake, other, settings = late_comer(tmp_path)
    before = other.in_force()
    removed(settings, "g")
    since = past_of(lake, other)
    past_of(lake, guest(lake, "g", "codes", window={"size": "PT7M"}))
    assert past_of(lake, other).base == since.number
    other.check()
    assert other.in_force() == before


def test_what_others_share_stays_until_they_go_too(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    mate = guest(lake, "h", "codes")
    with changing(settings):
        remember(settings, shared([lake.pipeline, other.pipeline, mate.pipeline], Shares()))
    assert mate.step.id == "g.s"
    before = mate.in_force()
    settings.pipelines.mkdir()
    (settings.pipelines / "p.yaml").write_text(LOG)
    (settings.pipelines / "h.yaml").write_text(
        "source: {pipeline: p}\n" + LOG[LOG.index("steps") :]
    )
    removed(settings, "g")
    assert ever_run(lake.tables) == ["g.s", "s"]
    assert mate.in_force() == before
    assert [share.pipeline for share in shares_of(settings).runs] == ["h", "p"]
    (settings.pipelines / "h.yaml").unlink()
    assert "g.s in " in removed(settings, "h")
    assert ever_run(lake.tables) == ["s"]
    assert [share.pipeline for share in shares_of(settings).runs] == ["p"]
    lake.check()


def test_what_others_come_to_share_while_it_asks_stays(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    settings.pipelines.mkdir()
    steps = LOG[LOG.index("steps") :]

    class Asked(Console):
        def input(self, *_: object, **__: object) -> str:
            (settings.pipelines / "p.yaml").write_text(LOG)
            (settings.pipelines / "h.yaml").write_text("source: {pipeline: p}\n" + steps)
            mate = guest(lake, "h", "codes")
            with changing(settings):
                remember(settings, shared([lake.pipeline, mate.pipeline], shares_of(settings)))
            assert mate.step.id == "g.s"
            return "g"

    with changing(settings):
        remember(settings, shared([lake.pipeline, other.pipeline], Shares()))
    before = other.in_force()
    with pytest.raises(ChangedMeanwhileError, match="No table was deleted"):
        remove_pipeline(settings, "g", Asked(file=io.StringIO()), sure=False)
    assert ever_run(lake.tables) == ["g.s", "s"]
    assert other.in_force() == before


def test_it_is_not_removed_if_its_stream_starts_while_it_asks(tmp_path: Path) -> None:
    lake, _, settings = answered(tmp_path)
    host = StreamPaths(settings.streams, "p")

    class Asked(Console):
        def input(self, *_: object, **__: object) -> str:
            assert link(host, "g")
            assert take_lock(host.supervisor_lock) is not None
            return "g"

    with pytest.raises(StreamRunsError, match="stream__g"):
        remove_pipeline(settings, "g", Asked(file=io.StringIO()), sure=False)
    assert ever_run(lake.tables) == ["g.s", "s"]


@pytest.mark.parametrize("at", ["end_step", "remove_tables"])
def test_killed_and_called_again_it_finds_a_run_that_has_the_name_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    lake, other, settings = answered(tmp_path)
    mate = guest(lake, "h", "codes")
    with changing(settings):
        known = shared([lake.pipeline, other.pipeline, mate.pipeline], Shares())
        remember(settings, Shares(tuple(each for each in known.runs if each.pipeline != "g")))
    with monkeypatch.context() as killed:
        killed.setattr(removal, at, die)
        with pytest.raises(KeyboardInterrupt):
            removed(settings, "h")
    assert stored(lake.tables, ["g.s"]).files > 0
    removed(settings, "h")
    assert stored(lake.tables, ["g.s"]).files == 0
    assert ever_run(lake.tables) == ["s"]
    assert [share.pipeline for share in shares_of(settings).runs] == ["p"]


def test_it_is_not_removed_while_its_steps_run(tmp_path: Path) -> None:
    *_, settings = answered(tmp_path)
    host = StreamPaths(settings.streams, "p")
    assert link(host, "g")
    lock = take_lock(host.supervisor_lock)
    assert lock is not None
    with pytest.raises(StreamRunsError, match="stream__g"):
        removed(settings, "g")


def test_a_log_stays_when_its_own_pipeline_is_removed(tmp_path: Path) -> None:
    lake, other, settings = answered(tmp_path)
    mate = guest(lake, "h", "sites")
    with changing(settings):
        remember(settings, shared([lake.pipeline, other.pipeline, mate.pipeline], Shares()))
    settings.pipelines.mkdir()
    (settings.pipelines / "p.yaml").write_text(LOG)
    steps = LOG[LOG.index("steps") :]
    (settings.pipelines / "g.yaml").write_text("source: {pipeline: p}\n" + steps)
    (settings.pipelines / "h.yaml").write_text("source: {pipeline: p}\n" + steps)
    keep(settings, catalog_in_force(settings))
    before = other.in_force()
    host = StreamPaths(settings.streams, "p")
    assert link(host, "h")
    lock = take_lock(host.supervisor_lock)
    assert lock is not None, "the stream of the log goes on for others"
    shares = {(share.pipeline, share.run) for share in shares_of(settings).runs}
    assert shares >= {("p", "s"), ("h", "s"), ("g", "g.s")}
    (settings.pipelines / "p.yaml").unlink()
    assert "Its log stays, as its file last said it: g, h stand on it" in removed(settings, "p")
    assert ever_run(lake.tables) == ["g.s", "s"], "h has the run that p had"
    assert [share.pipeline for share in shares_of(settings).runs] == ["g", "h"]
    assert other.in_force() == before
    assert catalog_in_force(settings).pipeline("g").log == "p"
    (settings.pipelines / "h.yaml").unlink()
    unlink(settings.streams, "h", "its file is gone")
    removed(settings, "h")
    assert ever_run(lake.tables) == ["g.s"]
    os.close(lock)
    (settings.pipelines / "g.yaml").unlink()
    removed(settings, "g")
    removed(settings, "p")
    assert not Path(lake.tables.uri()).exists()
