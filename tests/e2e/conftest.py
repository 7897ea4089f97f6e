"""One running embedded mode for all of these tests, and one pipeline of made-up rides in it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from penstock.config.settings import Settings
from tests.clusters import nodes_asked_for, two_free_ports
from tests.e2e.browsing import PATIENCE, log_in_at, new_context
from tests.e2e.rides import LOOP, RideFiles
from tests.e2e.running import Embedded, Rest, eventually, free_port

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REMEDY = "no browser is installed: apt-get install chromium"


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[Embedded]:
    """Jobs run on this machine; with PENSTOCK_TEST_NODES=n on a cluster of so many nodes."""
    # Not below pytest's own folder: as root, PostgreSQL runs as another user, and every start of
    # any pytest shuts that folder to others.
    folder = Path(tempfile.mkdtemp(prefix="penstock-e2e-"))
    pipelines = folder / "pipelines"
    pipelines.mkdir()
    shutil.copy(Path(__file__).parent / "rides.yaml", pipelines)
    shutil.copy(Settings().root / "include" / "pipelines" / "flights.yaml", pipelines)
    cluster, port = folder / "cluster.yaml", two_free_ports()
    text = f"master: {{port: {port}}}\nworker: {{memory: 512m}}\n"
    nodes = nodes_asked_for()
    cluster.write_text(text + (f"nodes: {{start: {nodes}}}\n" if nodes else ""))
    settings = Settings(
        home=folder / "home", port=free_port(), pipelines=pipelines, cluster=cluster,
        **({"spark_master": f"spark://127.0.0.1:{port}"} if nodes else {}),
    )  # fmt: skip
    embedded = Embedded(settings)
    failed_before = request.session.testsfailed
    try:
        for words in ((("cluster", "up"),) if nodes else ()) + (("up",),):
            done = embedded.call(*words)
            assert done.returncode == 0, done.stderr
        yield embedded
    finally:
        embedded.call("cluster", "down")
        embedded.call("down")
        if request.session.testsfailed == failed_before:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"\nkept, with all logs: {folder}")


@pytest.fixture(scope="session")
def rides(embedded: Embedded) -> RideFiles:
    """Source folders with the history in them, and no live file yet."""
    files = RideFiles(embedded.settings.home)
    files.write_history()
    return files


@pytest.fixture(scope="session")
def airflow(embedded: Embedded) -> Rest:
    return embedded.rest()


@pytest.fixture(scope="session")
def audited(embedded: Embedded, rides: RideFiles, airflow: Rest) -> None:
    """The pipeline with an audit behind it, as ``test_loop`` leaves it, whether that ran or not."""
    if any(run.state == "success" for run in airflow.runs("audit__rides", "asset_triggered")):
        return
    airflow.finish(airflow.start("preload__rides"))
    rides.arrive(LOOP - rides.arrived)
    airflow.start("stream__rides", by_itself=True)
    assert eventually(lambda: embedded.sealed() == rides.received), embedded.stream
    airflow.correct_and_audit()
    airflow.stop_stream()
    assert eventually(lambda: embedded.stream.state == "stopped"), embedded.stream


@pytest.fixture(scope="session")
def program() -> str:
    """Of a browser; asked for before anything is started."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        needed = os.environ.get("PENSTOCK_REQUIRE_BROWSER") == "1"
        (pytest.fail if needed else pytest.skip)(REMEDY)
    return program


@pytest.fixture(scope="module")
def browser(program: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screenshots")


@pytest.fixture(scope="module")
def log_in(browser: Browser, embedded: Embedded) -> Iterator[Callable[[str], BrowserContext]]:
    """Log in by the form, once for each user."""
    known: dict[str, BrowserContext] = {}

    def context_of(user: str) -> BrowserContext:
        if user not in known:
            known[user] = new_context(browser, embedded)
            page = known[user].new_page()
            log_in_at(page, embedded, user)
            page.close()
        return known[user]

    yield context_of
    for context in known.values():
        context.close()


@pytest.fixture
def page(
    log_in: Callable[[str], BrowserContext], screenshots: Path, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A page of a logged-in administrator; what it shows at the end is kept."""
    page = log_in("admin").new_page()
    yield page
    page.screenshot(path=screenshots / f"{request.node.name}.png")
    page.close()
