"""An operator's walk in the browser: three nodes by the form, a fourth by the rule, then away."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from penstock.config.settings import Settings
from tests.clusters import TestCluster, two_free_ports
from tests.e2e.browsing import log_in_at, new_context, open_trigger
from tests.e2e.rides import ZONES
from tests.e2e.running import PIPELINE, Embedded, eventually, free_port

BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
pytestmark = [pytest.mark.e2e, pytest.mark.all]
FILE = """
master: {{port: {port}}}
worker: {{cores: 1, memory: 512m}}
nodes: {{start: 1, least: 1, most: 4}}
scale: {{idle: 0.03, busy: 0.19, overloaded: 0.2, out_after: PT10S, in_after: PT20S,
         cool_down: PT5S}}
"""
"""Two cores under four nodes are soon overloaded; less busy than 3 % is nothing to do."""


@dataclass
class Feed:
    """Files of rides, one after the other, a second apart."""

    folder: Path
    sent: int = 0

    def arrive(self, count: int = 5_000) -> None:
        """One more file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / ".new"
        with hidden.open("w") as file:
            for number in range(self.sent, self.sent + count):
                at = BEGIN + timedelta(seconds=number)
                ride = {"zone": ZONES[number % 7], "fare": 9.5, "riders": 2, "picked_up": str(at)}
                file.write(json.dumps(ride) + "\n")
        hidden.rename(self.folder / f"{self.sent:09d}.jsonl")
        self.sent += count


@pytest.fixture(scope="module")
def here(program: str) -> Iterator[Embedded]:
    """Embedded mode whose jobs run on a cluster of its own."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-walk-"))
    (folder / "pipelines").mkdir()
    shutil.copy(Path(__file__).parent / "rides.yaml", folder / "pipelines")
    port = two_free_ports()
    (folder / "cluster.yaml").write_text(FILE.format(port=port))
    settings = Settings(
        home=folder / "home", port=free_port(), pipelines=folder / "pipelines",
        cluster=folder / "cluster.yaml", spark_master=f"spark://127.0.0.1:{port}",
    )  # fmt: skip
    found = Embedded(settings)
    try:
        for words in (("cluster", "up"), ("up",)):
            done = found.call(*words)
            assert done.returncode == 0, done.stderr
        yield found
    finally:
        found.call("down")
        found.call("cluster", "down")
        shutil.rmtree(folder, ignore_errors=True)


def test_nodes_by_the_form_by_the_rule_and_lost(here: Embedded, browser: Browser) -> None:
    context = new_context(browser, here)
    page = context.new_page()
    log_in_at(page, here, "admin")
    airflow, rides = here.rest(), Feed(here.settings.home / "rides" / "live")
    rides.arrive()
    airflow.start(f"stream__{PIPELINE}", by_itself=True)
    assert eventually(lambda: here.sealed() >= rides.sent), here.stream

    dialog = open_trigger(page, "scale__cluster", "Nodes")
    dialog.get_by_role("spinbutton").fill("3")
    dialog.locator("input[name=element_reason]").fill("three for the evening")
    dialog.get_by_role("button", name="Trigger").last.click()
    seen(page, lambda text: "3 of 3 wanted nodes registered" in text)
    seen(page, lambda text: "three for the evening" in text and "done" in text)

    airflow.pause("scale__cluster", paused=False)

    def fed(text: str) -> bool:
        rides.arrive()
        return re.search(r"out\s+busy \d+% for \d+ s, above 20%", text) is not None

    seen(page, fed)
    seen(page, lambda text: "4 of 4 wanted nodes registered" in text)
    seen(page, lambda text: re.search(r"in\s+busy \d+% for \d+ s, below 3%", text) is not None)
    TestCluster(here.settings).lose("node1")
    seen(page, lambda text: re.search(r"node1\s+went\s+worker lost", text) is not None)
    assert eventually(lambda: here.sealed() >= rides.sent), here.stream
    context.close()


def seen(page: Page, true: Callable[[str], bool]) -> None:
    """The page *Cluster* shows it, sooner or later."""

    def looked() -> bool:
        page.goto("/penstock/cluster")
        return true(page.locator("main").inner_text())

    assert eventually(looked), page.locator("main").inner_text()
