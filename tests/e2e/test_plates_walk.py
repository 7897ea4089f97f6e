"""A walk in the browser: history by form and by backfill, alarms, a late record, an audit."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from playwright.sync_api import Browser, Page, expect

from penstock.config.settings import Settings
from penstock.lake.serve.show import received
from penstock.runtime.demo.airflow import RunFailedError
from tests.e2e.browsing import log_in_at, new_context, open_trigger, pick
from tests.e2e.running import Embedded, Rest, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.all]
NAME = "plates"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SOON = timedelta(minutes=30)
Alarm = tuple[str, str, str, str]
"""Plate, the site that was told first, the one told later, and when that was."""


@dataclass
class Sightings:
    """Files of sightings, and what is true of all that were written."""

    home: Path
    rows: list[tuple[datetime, str, str]] = field(default_factory=list)

    def write(self, folder: str, name: str, *rows: tuple[datetime, str, str]) -> None:
        """One file."""
        path = self.home / "plates" / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"ts": str(at), "plate": p, "site": s}) for at, p, s in rows]
        (path.parent / f".{name}").write_text("\n".join(lines) + "\n")
        (path.parent / f".{name}").rename(path)
        self.rows += rows

    def history(self) -> None:
        """Three months: every plate is seen every five days; one plate in six is a fake."""
        for month in range(3):
            begin = BEGIN + timedelta(days=31 * month)
            rows = list[tuple[datetime, str, str]]()
            for day in range(0, 25, 5):
                for plate in range(60):
                    at = begin + timedelta(days=day, minutes=plate)
                    rows.append((at, f"P{plate:02}", f"site {(plate + day) % 7}"))
                    if plate % 6 == 0 and day == 10:
                        rows.append((at + SOON / 2, f"P{plate:02}", f"site {(plate + 5) % 7}"))
            self.write("history", f"{month}.jsonl", *rows)

    def alarms(self) -> set[Alarm]:
        """All there are: two sightings of a plate, one after the other, and too soon."""
        found = set[Alarm]()
        for plate in {plate for _, plate, _ in self.rows}:
            mine = [(at, n, site) for n, (at, seen, site) in enumerate(self.rows) if seen == plate]
            for one, other in pairwise(sorted(mine)):
                if one[2] != other[2] and other[0] - one[0] < SOON:
                    old, new = sorted((one, other), key=lambda seen: seen[1])
                    found.add((plate, old[2], new[2], f"{new[0]:%Y-%m-%d %H:%M:%S}"))
        return found


@pytest.fixture(scope="module")
def here(program: str) -> Iterator[Embedded]:
    """Embedded mode with a pipeline of plates."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-plates-"))
    (folder / "pipelines").mkdir()
    shutil.copy(Path(__file__).parent / "plates.yaml", folder / "pipelines")
    settings = Settings(home=folder / "home", port=free_port(), pipelines=folder / "pipelines")
    found = Embedded(settings, NAME)
    try:
        done = found.call("up")
        assert done.returncode == 0, done.stderr
        yield found
    finally:
        found.call("down")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def page(here: Embedded, browser: Browser) -> Iterator[Page]:
    context = new_context(browser, here)
    page = context.new_page()
    log_in_at(page, here, "admin")
    yield page
    context.close()


@pytest.fixture(scope="module")
def sightings(here: Embedded) -> Sightings:
    found = Sightings(here.settings.home)
    found.history()
    return found


def shown(page: Page) -> dict[Alarm, str]:
    """What the page *Alarms* shows, and how each was said."""
    page.goto("/penstock/")
    page.get_by_role("link", name="Alarms").click()
    expect(page.get_by_role("heading", name="Alarms")).to_be_visible()
    names = page.locator("thead th").all_inner_texts()
    found = {}
    for row in page.locator("tbody tr").all():
        cells = dict(zip(names, row.locator("td").all_inner_texts(), strict=True))
        key = cells["plate"], cells["old_site"], cells["new_site"], cells["new_time"]
        found[key] = cells["said"]
    return found


def in_force(page: Page) -> set[Alarm]:
    return {alarm for alarm, said in shown(page).items() if said != "taken back"}


def stopped(here: Embedded) -> None:
    here.rest().stop_stream()
    assert eventually(lambda: here.stream.state == "stopped"), here.stream


def started_again(here: Embedded) -> None:
    airflow = here.rest()
    again = airflow.runs("stream__plates", "scheduled")[0]
    airflow.pause("stream__plates", paused=False)
    airflow.clear(again, "stream")


def test_history_is_taken_in_by_the_form_and_by_a_backfill(
    here: Embedded, page: Page, sightings: Sightings
) -> None:
    airflow = here.rest()
    airflow.pause("preload__plates", paused=False)
    dialog = open_trigger(page, "preload__plates", "Records from")
    for at, day in ((1, "2024/01/01"), (2, "2024/02/01")):  # the first is the logical date
        pick(page, dialog.get_by_test_id("datetime-input").nth(at), day)
    dialog.get_by_role("button", name="Trigger").last.click()
    expect(page.get_by_text("Dag Run Triggered").first).to_be_visible()
    (run,) = eventually(lambda: airflow.runs("preload__plates", "manual"))
    assert airflow.finish(run).state == "success"
    assert received(here.tables) == len(sightings.rows) / 3

    dialog = open_trigger(page, "preload__plates", "Records from")
    dialog.get_by_text("Backfill", exact=True).click()
    expect(dialog.get_by_text("Reprocess Behavior")).to_be_visible()
    for at, day in enumerate(("2024/02/01", "2024/03/01")):
        pick(page, dialog.get_by_test_id("datetime-input").nth(at), day)
    expect(dialog.get_by_text("2 runs will be triggered")).to_be_visible()
    dialog.get_by_role("button", name="Run Backfill").click()
    assert eventually(lambda: len(airflow.runs("preload__plates", "backfill")) == 2)
    runs = airflow.runs("preload__plates", "backfill")
    ended = [airflow.finish(run) for run in runs]
    assert [run.state for run in ended] == ["success", "success"]
    assert received(here.tables) == len(sightings.rows)
    page.goto("/penstock/alarms")
    expect(page.get_by_text("start stream__plates")).to_be_visible()


def test_live_sightings_are_compared_with_all_of_it_after_a_restart_too(
    here: Embedded, page: Page, sightings: Sightings
) -> None:
    airflow, live = here.rest(), BEGIN + timedelta(days=100)
    airflow.start("stream__plates", by_itself=True)
    assert eventually(lambda: in_force(page) == sightings.alarms() != set()), here.stream
    assert {*shown(page).values()} == {"of the history"}
    last = max(at for at, plate, _ in sightings.rows if plate == "P07")
    sightings.write("live", "0.jsonl", (last + SOON / 3, "P07", "elsewhere"), (live, "P08", "x"))
    assert eventually(lambda: in_force(page) == sightings.alarms()), here.stream
    mine = next(alarm for alarm in shown(page) if alarm[0] == "P07")
    assert (mine[2], shown(page)[mine]) == ("elsewhere", "at once")

    stopped(here)
    sightings.write("live", "1.jsonl", (live + SOON / 2, "P08", "y"))
    started_again(here)
    assert eventually(lambda: in_force(page) == sightings.alarms()), here.stream
    assert ("P08", "x", "y", f"{live + SOON / 2:%Y-%m-%d %H:%M:%S}") in in_force(page)


def test_a_late_sighting_takes_an_alarm_back_and_reveals_another(
    here: Embedded, page: Page, sightings: Sightings
) -> None:
    live = BEGIN + timedelta(days=100)
    before = in_force(page)
    sightings.write("live", "2.jsonl", (live + SOON / 4, "P08", "between"))
    assert eventually(lambda: here.sealed() == len(sightings.rows)), here.stream
    run, _ = here.rest().correct_and_audit()
    assert run.state == "success"
    said, true = shown(page), sightings.alarms()
    assert {alarm for alarm, how in said.items() if how == "taken back"} == before - true
    assert before - true
    assert in_force(page) == true
    page.goto("/penstock/")
    row = page.get_by_role("row", name=re.compile("^plates Passed"))
    expect(row).to_contain_text(str(len(true)))


def dropped(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def doubled(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def invented(rows: pa.Table) -> pa.Table:
    """One more, of a record that is of another plate."""
    false = rows.slice(0, 1)
    at = rows.schema.get_field_index("old_seq")
    false = false.set_column(at, rows.schema.field(at), rows["old_seq"].slice(1, 1))
    return pa.concat_tables([rows, false])


def assert_red(here: Embedded, page: Page) -> None:
    airflow: Rest = here.rest()
    with pytest.raises(RunFailedError, match="audit found what must not be"):
        airflow.finish(airflow.start("audit__plates"))
    page.goto("/penstock/")
    expect(page.get_by_role("row", name=re.compile("^plates Failed"))).to_be_visible()


@pytest.mark.parametrize("falsified", [dropped, doubled, invented])
def test_a_falsified_alarm_makes_the_audit_red(
    here: Embedded, page: Page, falsified: Callable[[pa.Table], pa.Table]
) -> None:
    table = DeltaTable(here.tables.answers(here.pipeline.specs[0]).uri)
    true = table.to_pyarrow_table().combine_chunks()
    write_deltalake(table, falsified(true), mode="overwrite")
    try:
        assert_red(here, page)
    finally:
        write_deltalake(table, true, mode="overwrite")


def test_a_changed_state_makes_the_audit_red(
    here: Embedded, page: Page, sightings: Sightings
) -> None:
    airflow = here.rest()
    audit = airflow.finish(airflow.start("audit__plates"))
    assert audit.state == "success", "what was falsified is put right"
    stopped(here)
    for path in Path(here.tables.checkpoint()).rglob("*.arrow"):
        rows = pa.ipc.open_file(path.read_bytes()).read_all()
        forged = pa.array(["elsewhere"] * rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index("site"), "site", forged)
        with pa.ipc.new_file(path, rows.schema) as writer:
            writer.write_table(rows)
    last = max(at for at, plate, _ in sightings.rows if plate == "P09")
    sightings.write("live", "3.jsonl", (last + SOON / 3, "P09", "elsewhere"))
    started_again(here)
    assert eventually(lambda: here.sealed() == len(sightings.rows)), here.stream
    (missed,) = sightings.alarms() - in_force(page)
    assert missed[0] == "P09"
    assert_red(here, page)
