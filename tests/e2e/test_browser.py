"""The user interface in a real browser, as a new user meets it."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.quality.checks import CHECKS
from tests.clusters import TestCluster
from tests.e2e.browsing import fill_login, new_context, open_trigger, pick
from tests.e2e.rides import STEPS
from tests.e2e.running import Embedded, Rest, eventually

pytestmark = pytest.mark.e2e
CLAIMS = 2 + len(CHECKS)
"""Of an audit: one a check, every step is there, none is there twice."""
DAGS = ("preload__rides", "stream__rides", "correct__rides", "audit__rides", "query__rides",
        "maintain__lake")  # fmt: skip
QUESTION = (
    "SELECT zone, CAST(sum(rides) AS BIGINT) AS rides FROM fares_per_zone GROUP BY ALL ORDER BY ALL"
)
DAY = ("2024/03/02", "2024/03/03")
DAY_MICROS = (1_709_337_600_000_000, 1_709_424_000_000_000)


@pytest.fixture(scope="module", autouse=True)
def no_audits(program: str, audited: None, airflow: Rest) -> None:
    """Keep the two cores for what is looked at: corrections would start audits."""
    airflow.pause("audit__rides")


def test_the_printed_address_asks_for_a_login(
    browser: Browser, embedded: Embedded, screenshots: Path
) -> None:
    context = new_context(browser, embedded)
    page = context.new_page()
    page.goto(embedded.state.url)
    expect(page).to_have_url(re.compile("/auth/login"))
    fill_login(page, "admin", "wrong")
    expect(page.get_by_text("Invalid credentials")).to_be_visible()
    page.screenshot(path=screenshots / "login.png")
    page.goto("/penstock/")
    expect(page).to_have_url(re.compile("/auth/login"))
    fill_login(page, "admin", embedded.password["admin"])
    expect(page.get_by_role("heading", name="Quality reports")).to_be_visible()
    context.close()


def test_the_dags_are_there_described_and_tagged(page: Page, airflow: Rest) -> None:
    page.goto("/dags")
    for dag in DAGS:
        verb, _, pipeline = dag.partition("__")
        expect(page.get_by_role("link", name=dag, exact=True)).to_be_visible()
        expect(page.get_by_role("link", name=verb, exact=True).first).to_be_visible()
        said = airflow.dags()[dag]
        assert said["description"]
        wanted = {"penstock", verb} | ({pipeline} if pipeline == "rides" else set())
        assert {tag["name"] for tag in said["tags"]} == wanted
    page.goto("/dags/correct__rides")
    page.get_by_role("button", name="Dag Docs").click()
    docs = page.get_by_role("dialog")
    expect(docs).to_contain_text("Correct the answers of rides")
    expect(docs).to_contain_text("Rides of a city's cabs")


def test_a_range_is_corrected_by_the_form(
    page: Page, embedded: Embedded, airflow: Rest, screenshots: Path
) -> None:
    dialog = open_trigger(page, "correct__rides")
    for field, day in zip((1, 2), DAY, strict=True):  # the first field is the logical date
        pick(page, dialog.get_by_test_id("datetime-input").nth(field), day)
    dialog.get_by_text("Recheck", exact=True).scroll_into_view_if_needed()
    dialog.locator("[data-scope=switch][data-part=control]").click()
    page.screenshot(path=screenshots / "form.png")
    before = {run.name for run in airflow.runs("correct__rides", "manual")}
    dialog.get_by_role("button", name="Trigger").last.click()
    expect(page.get_by_text("Dag Run Triggered").first).to_be_visible()
    (asked,) = (run for run in airflow.runs("correct__rides", "manual") if run.name not in before)
    run = airflow.finish(asked)
    assert run.state == "success"
    assert airflow.outcome(run) == {"answers": 0, "changed": 0}  # they were right before
    rows = read_table(
        Table(embedded.tables.corrections()),
        where=(pc.field("run_id") == run.name) & (pc.field("state") == "planned"),
    ).to_pylist()
    asked_for = {(r["step"], r["window_from_us"], r["window_to_us"], r["recheck"]) for r in rows}
    assert asked_for == {(step, *DAY_MICROS, True) for step in STEPS}


def test_a_past_range_is_backfilled_by_the_dialog(
    page: Page, airflow: Rest, screenshots: Path
) -> None:
    dialog = open_trigger(page, "correct__rides")
    dialog.get_by_text("Backfill", exact=True).click()
    expect(dialog.get_by_text("Reprocess Behavior")).to_be_visible()
    for field, day in enumerate(DAY):
        pick(page, dialog.get_by_test_id("datetime-input").nth(field), day)
    expect(dialog.get_by_text("2 runs will be triggered")).to_be_visible()
    page.screenshot(path=screenshots / "backfill.png")
    dialog.get_by_role("button", name="Run Backfill").click()
    expect(page.get_by_text("Backfill in progress").first).to_be_visible()
    runs = eventually(lambda: airflow.runs("correct__rides", "backfill"))
    assert len(runs) == 2
    assert [airflow.finish(run).state for run in runs] == ["success", "success"]
    page.goto("/dags/correct__rides/backfills")
    expect(page.get_by_role("cell", name="2024-03-02 00:00:00")).to_be_visible()


def test_a_question_is_asked_by_the_form_and_its_rows_are_seen_and_taken(
    page: Page, embedded: Embedded, airflow: Rest, screenshots: Path, tmp_path: Path
) -> None:
    dialog = open_trigger(page, "query__rides", "One SELECT in DuckDB")
    assert dialog.get_by_text("Pairs", exact=True).count() == 0, "there is no join"
    dialog.locator("#element_sql").fill(QUESTION)
    page.screenshot(path=screenshots / "question.png")
    dialog.get_by_role("button", name="Trigger").last.click()
    expect(page.get_by_text("Dag Run Triggered").first).to_be_visible()
    (asked,) = airflow.runs("query__rides", "manual")
    assert airflow.finish(asked).state == "success"
    with answered(views(embedded.tables, embedded.pipeline), QUESTION) as found:
        rows = found.fetchall()
    assert len(rows) > 1
    page.goto("/")
    page.get_by_role("link", name="Quality").click()
    view = page.frame_locator("iframe")
    view.get_by_role("link", name="Queries").click()
    expect(view.get_by_role("heading", name=f"rides: {len(rows)} rows")).to_be_visible()
    shown = view.locator("table.result tbody tr")
    expect(shown).to_have_count(len(rows))
    assert [row.split("\t") for row in shown.all_inner_texts()] == [[*map(str, r)] for r in rows]
    page.screenshot(path=screenshots / "queries.png")
    with page.expect_download() as download:
        view.get_by_role("link", name="All rows, as Parquet").click()
    download.value.save_as(tmp_path / "rows.parquet")
    assert [tuple(r.values()) for r in pq.read_table(tmp_path / "rows.parquet").to_pylist()] == rows


def test_the_newest_audit_is_read_offline(page: Page, embedded: Embedded) -> None:
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    page.goto("/")
    page.get_by_role("link", name="Quality").click()
    view = page.frame_locator("iframe")
    expect(view.get_by_role("heading", name="Quality reports")).to_be_visible()
    row = view.get_by_role("row", name=re.compile("^rides Passed"))
    expect(row).to_contain_text(f"{CLAIMS} of {CLAIMS} hold")
    picture = view.get_by_role("img", name=re.compile("answers were: rides, step"))
    expect(picture.first).to_be_visible()
    assert picture.first.evaluate("image => image.naturalWidth") > 0
    row.get_by_role("link", name="Passed", exact=True).click()
    expect(view.get_by_text(f"{CLAIMS} of {CLAIMS} expectations hold.")).to_be_visible()
    expect(view.get_by_role("heading", level=1)).to_contain_text("rides: audit")
    slacks = view.get_by_role("table").filter(has_text="arrival to answer")
    expect(slacks.locator("tbody tr").filter(has_text="fixed").first).to_be_visible()
    claims = view.get_by_role("table").filter(has_text="Expectation").locator("tbody tr")
    expect(claims).to_have_count(CLAIMS)
    expect(claims.filter(has_text="holds")).to_have_count(CLAIMS)
    expect(claims.filter(has_text="Every compared answer equals its recomputation")).to_have_count(
        1
    )
    assert asked - {""} == {urlsplit(embedded.state.url).netloc}


def test_a_viewer_reads_and_cannot_trigger(
    log_in: Callable[[str], BrowserContext], airflow: Rest, screenshots: Path
) -> None:
    before = len(airflow.runs("correct__rides", "manual"))
    page = log_in("viewer").new_page()
    dialog = open_trigger(page, "correct__rides")
    dialog.get_by_role("button", name="Trigger").last.click()
    expect(dialog.get_by_text("403 Forbidden").first).to_be_visible()
    page.screenshot(path=screenshots / "viewer.png")
    page.goto("/plugin/quality")
    report = page.frame_locator("iframe").get_by_role("link", name="Passed", exact=True)
    expect(report).to_be_visible()
    page.close()
    assert len(airflow.runs("correct__rides", "manual")) == before


def test_nodes_are_asked_for_by_the_form_and_seen_to_come_and_be_lost(
    page: Page, embedded: Embedded, airflow: Rest, screenshots: Path
) -> None:
    done = embedded.call("cluster", "up")
    assert done.returncode == 0, done.stderr
    dialog = open_trigger(page, "scale__cluster", "Nodes")
    dialog.get_by_role("spinbutton").fill("2")
    dialog.locator("input[name=element_reason]").fill("more riders")
    page.screenshot(path=screenshots / "scale.png")
    dialog.get_by_role("button", name="Trigger").last.click()
    expect(page.get_by_text("Dag Run Triggered").first).to_be_visible()
    (asked,) = airflow.runs("scale__cluster", "manual")
    assert airflow.finish(asked).state == "success"
    page.goto("/")
    page.get_by_role("link", name="Quality").click()
    view = page.frame_locator("iframe")
    view.get_by_role("link", name="Cluster").click()
    expect(view.locator(".nodes tbody tr").filter(has_text="registered")).to_have_count(2)
    scaling = view.locator(".scalings tbody tr")
    expect(scaling).to_have_count(1)
    for text in ("done", "asked", "more riders", asked.name):
        expect(scaling).to_contain_text(text)
    page.screenshot(path=screenshots / "cluster.png")
    TestCluster(embedded.settings).lose("node1")

    def restarted() -> bool:
        page.goto("/penstock/cluster")
        row = page.locator(".nodes tbody tr").filter(has_text="node1")
        return re.search(r"registered\s+1", row.inner_text()) is not None

    assert eventually(restarted)
    assert embedded.call("cluster", "status").returncode == 0
    assert embedded.call("cluster", "down").returncode == 0
