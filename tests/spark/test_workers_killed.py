"""Python workers and their nursery killed with -9 under a running stream: nothing is lost."""

import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penstock.spark import nursery
from tests import reference as ref
from tests.spark.conftest import Scene
from tests.spark.test_law0_on_spark import assert_answers_of_the_log, batches, eventually, slow_host

pytestmark = [pytest.mark.spark, pytest.mark.all]


def nurse(host: psutil.Process) -> psutil.Process:
    """What the workers of a host are forks of."""
    [found] = [child for child in host.children() if nursery.__name__ in child.cmdline()]
    return found


def task_worker(host: psutil.Process) -> psutil.Process:
    """One that Spark's daemon of them has forked, and so a fork of a fork."""
    daemons = nurse(host).children()
    return next(worker for daemon in daemons for worker in daemon.children())


def source_worker(host: psutil.Process) -> psutil.Process:
    """One that the nursery itself has forked and that forks no others."""
    return next(worker for worker in nurse(host).children() if not worker.children())


@pytest.mark.parametrize("killed", [nurse, task_worker, source_worker])
def test_a_stream_loses_nothing(
    killed: Callable[[psutil.Process], psutil.Process],
    log: Scene,
    truth: dict[str, ref.Answers],
    tmp_path: Path,
) -> None:
    scene = log.copy(tmp_path)
    hourly, environment = scene.lakes["hourly"], scene.environment()
    with slow_host(environment, tmp_path / "killed.log") as process:
        eventually(lambda: batches(hourly) >= 3 or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "killed.log").read_text()[-2_000:]
        killed(psutil.Process(process.pid)).send_signal(signal.SIGKILL)
        eventually(lambda: process.poll() is not None)
    if process.returncode != 0:  # its supervisor starts it again
        with slow_host(environment, tmp_path / "again.log") as process:
            eventually(lambda: process.poll() is not None)
        assert process.returncode == 0, (tmp_path / "again.log").read_text()[-2_000:]
    assert_answers_of_the_log(scene, truth)
