"""One running embedded mode for all of these tests, and one pipeline of made-up rides in it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from tests.e2e.rides import LOOP, RideFiles
from tests.e2e.running import Embedded, Rest, eventually, free_port


@pytest.fixture(scope="session")
def embedded(request: pytest.FixtureRequest) -> Iterator[Embedded]:
    # Not below pytest's own folder: as root, PostgreSQL runs as another user, and every start of
    # any pytest shuts that folder to others.
    folder = Path(tempfile.mkdtemp(prefix="penstock-e2e-"))
    pipelines = folder / "pipelines"
    pipelines.mkdir()
    shutil.copy(Path(__file__).parent / "rides.yaml", pipelines)
    shutil.copy(Settings().root / "include" / "pipelines" / "flights.yaml", pipelines)
    embedded = Embedded(Settings(home=folder / "home", port=free_port(), pipelines=pipelines))
    failed_before = request.session.testsfailed
    done = embedded.call("up")
    try:
        assert done.returncode == 0, done.stderr
        yield embedded
    finally:
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
