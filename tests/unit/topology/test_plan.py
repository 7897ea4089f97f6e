"""What files change, beside what has run: told before it is done, and nothing once it is."""

from dataclasses import replace
from pathlib import Path

from penstock.config.kept import catalog_in_force, catalog_to_run, keep
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import Shares, shared
from penstock.core.clock import SystemClock
from penstock.lake.history.registry import Registry, end_step
from penstock.lake.log.register import Register
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.lake.topology.plan import Change, Outlook, What, planned
from tests.guests import guest, log_of
from tests.lakes import ROWS, Lake
from tests.streams import write_jsonl

STEPS = [
    {"run": run, "kind": "aggregate", "fingerprint": "", "query": "together", "epoch": 0,
     "generation": 0, "state": "runs", "why": ""}
    for run in ("s", "g.s")
]  # fmt: skip


def changes(lake: Lake, *pipelines: Pipeline, known: bool = True) -> dict[str, Change]:
    """By pipeline and step."""
    before = shared(pipelines, Shares())
    found = planned(str(lake.home / "lake"), pipelines, before if known else Shares())
    return {f"{each.pipeline}.{each.step}": each for each in found}


def ran(lake: Lake, *others: Lake) -> None:
    """All records are taken, answered and corrected."""
    steps = [each.step for each in (lake, *others)]
    lake.query(steps=steps)
    write_jsonl(lake.home / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query(steps=steps).run()
    for each in (lake, *others):
        each.correct()


def test_a_step_starts_with_all_that_came_before_it(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    found = changes(lake, lake.pipeline)["p.s"]
    assert (found.what, found.records, found.seconds) == (What.STARTS, 0, None)
    ran(lake)
    assert changes(lake, lake.pipeline)["p.s"].what is What.STAYS
    other = guest(lake, "g", "codes")
    found = changes(lake, lake.pipeline, other.pipeline)["g.s"]
    assert (found.what, found.run, found.records) == (What.STARTS, "g.s", len(ROWS))
    assert "stream__g" in found.because


def test_it_takes_as_long_as_a_former_history_took_for_each_record(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query().run()
    lake.correct()
    rows = read_table(Table(lake.tables.corrections())).sort_by("recorded_at").to_pylist()
    seconds = (rows[-1]["recorded_at"] - rows[0]["recorded_at"]).total_seconds()
    assert [row["reason"] for row in rows] == ["backfill"] * 2
    found = changes(lake, lake.pipeline, guest(lake, "g", "codes").pipeline)["g.s"]
    assert found.records == len(ROWS)
    assert found.seconds is not None
    assert abs(found.seconds - seconds) < 1e-6


def test_an_equal_step_shares_the_run_and_reads_nothing(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    ran(lake, other := guest(lake, "g", "codes"))
    mate = guest(lake, "h", "codes")
    every = lake.pipeline, other.pipeline, mate.pipeline
    found = changes(lake, *every, known=False)["h.s"]
    assert (found.what, found.run, found.records) == (What.SHARES, "g.s", 0)
    assert found.because == "means what g.s means: nothing is read for it"
    assert changes(lake, *every)["h.s"].what is What.STAYS


def test_another_definition_is_rebuilt_and_another_slack_waits_otherwise(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    ran(lake, guest(lake, "g", "codes"), guest(lake, "h", "both"))
    edited = guest(lake, "g", "seen").pipeline
    slower = guest(lake, "h", "both", slack={"fixed": "PT7S"}).pipeline
    found = changes(lake, lake.pipeline, edited, slower)
    assert (found["g.s"].what, found["g.s"].records) == (What.REBUILT, len(ROWS))
    assert (found["h.s"].what, found["h.s"].records) == (What.WAITS, 0)
    assert found["h.s"].because == "slack fixed in place of max_delay"


def test_what_follows_an_edit_and_still_owes_its_past_is_told(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    ran(lake, guest(lake, "g", "codes"))
    edited = guest(lake, "g", "seen")
    lake.query(steps=[lake.step, edited.step])
    found = changes(lake, lake.pipeline, edited.pipeline)
    assert (found["g.s"].what, found["g.s"].records) == (What.STAYS, len(ROWS))
    said = f"past not answered yet: {len(ROWS):,} records, for correct__g"
    assert found["g.s"].because == said
    assert found["g.s"].about
    assert (found["p.s"].records, found["p.s"].because) == (0, "")
    lake.query(steps=[lake.step, edited.step]).run()
    assert changes(lake, lake.pipeline, edited.pipeline)["g.s"].because == said
    edited.correct()
    found = changes(lake, lake.pipeline, edited.pipeline)
    assert (found["g.s"].records, found["g.s"].because) == (0, "")


def test_another_number_of_tasks_reads_nothing(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    ran(lake, guest(lake, "g", "codes"))
    edited = guest(lake, "g", "codes", parallelism=3).pipeline
    assert changes(lake, lake.pipeline, edited)["g.s"].what is What.STAYS, "nothing runs"
    steps = [row | {"tasks": 2} for row in STEPS]
    Register(lake.tables, lake.clock).say({"steps": steps})
    found = changes(lake, lake.pipeline, edited)
    assert (found["g.s"].what, found["g.s"].records) == (What.RESCALED, 0)
    assert (found["g.s"].because, found["p.s"].what) == ("from 2 tasks to 3", What.STAYS)
    mate = guest(lake, "h", "codes", parallelism=2).pipeline
    assert changes(lake, lake.pipeline, edited, mate)["g.s"].because == "from 2 tasks to 3"
    fewer = guest(lake, "g", "codes").pipeline
    assert changes(lake, lake.pipeline, fewer, mate)["g.s"].what is What.STAYS


def test_what_no_file_asks_for_ends_until_it_is_removed(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    ran(lake, other := guest(lake, "g", "codes"))
    found = changes(lake, lake.pipeline)
    assert (found[".g.s"].what, found["p.s"].what) == (What.ENDS, What.STAYS)
    assert changes(lake)[".s"].what is What.ENDS, "the log itself has no file"
    end_step(lake.tables, "g.s", SystemClock())
    assert [*changes(lake, lake.pipeline)] == ["p.s"]
    again = changes(lake, lake.pipeline, replace(other).pipeline)["g.s"]
    assert (again.what, again.because) == (What.STARTS, "was removed before; with stream__g")


def test_what_stays_in_force_while_its_file_has_problems_does_not_end(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, pipelines=tmp_path / "files")
    settings.pipelines.mkdir()
    steps = "steps:\n  s: {window: {size: PT%dM}, measures: {n: count(*)}, slack: {fixed: PT1S}}\n"
    log = "source: {files: live, format: jsonl}\ncolumns: {site: string}\nevent_time: at\n"
    (settings.pipelines / "p.yaml").write_text(log + steps % 1)
    (settings.pipelines / "g.yaml").write_text("source: {pipeline: p}\n" + steps % 2)
    keep(settings, catalog := catalog_to_run(settings))
    tables = Tables(settings.lake_uri, "p")
    Registry(tables, SystemClock(), catalog.pipeline("p")).start_all(
        {"together": [step for each in catalog.pipelines for step in each.specs]}
    )

    def told() -> dict[str, tuple[What, str]]:
        found = Outlook.of(settings, catalog_in_force(settings), ()).changes
        return {each.name: (each.what, each.because) for each in found}

    assert told() == {"p.s": (What.STAYS, ""), "g.s": (What.STAYS, "")}
    (settings.pipelines / "p.yaml").write_text(log + steps % 3 + "oops: 1\n")
    former = (What.STAYS, "its last valid definition stays in force")
    assert told() == {"p.s": former, "g.s": former}
    wrong = "  t: {from: s, window: {size: PT6M}, measures: {most: max(nn)}}\n"
    (settings.pipelines / "p.yaml").write_text(log + steps % 3 + wrong)
    assert told() == {"p.s": former, "g.s": (What.STAYS, "")}, "a file is valid as a whole"
    (settings.pipelines / "g.yaml").unlink()
    ends = "no file asks for it any more; what it answered stays until it is removed"
    assert told() == {"p.s": former, "": (What.ENDS, ends)}
