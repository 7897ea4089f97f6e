"""What every tier may use."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests import archive

os.environ.setdefault("PENSTOCK_SYNC", "false")  # tests of lasting switch it on; no disk fails here

MEAN = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xshare:auto"
os.environ.setdefault("JDK_JAVA_OPTIONS", MEAN)  # a JVM of tests ends before it is compiled well
for name, value in archive.options().items():
    os.environ.setdefault(name, value)

settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=18,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("penstock")


HERE = Path(__file__).parent
TIERS = ("compose", "e2e", "laws", "spark", "crash", "airflow", "unit")
"""Long ones first, so that two processes end at about the same time; beside e2e, the laws: both
Airflow and Spark want both cores."""
AT_ONCE = ("compose", "e2e", "spark")
"""Tiers of one process: their tests share what takes long to start."""
EMBEDDED = (
    "test_loop", "test_browser", "test_outages", "test_embedded", "test_scaling_walk",
    "test_plates_walk",
)  # fmt: skip
"""What breaks processes comes last, what ends them all at the very end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the tiers, in one process, too."""

    def place(item: pytest.Item) -> tuple[int, int]:
        tier, name = item.path.relative_to(HERE).parts[0], item.path.stem
        return TIERS.index(tier), EMBEDDED.index(name) if tier == "e2e" else 0

    items.sort(key=place)


class ByTier(LoadScopeScheduling):
    """Hands out whole files, and some tiers as one (its own ``loadgroup`` misses pytest 9)."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        tier = file.split("/")[1]
        return tier if tier in AT_ONCE else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByTier:
    """For ``pytest -n 2``."""
    return ByTier(config, log)


def pytest_unconfigure() -> None:
    """py4j says goodbye as the interpreter ends, when the stream it would write to is closed."""
    logging.getLogger("py4j").setLevel(logging.WARNING)


ODD = "la ke #1 50% ?ü{a}&+'"
"""A folder's name that breaks every URI put together by hand."""


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """Every temporary folder, of ``tmp_path`` too, lies below a folder of that name."""
    base = tmp_path_factory.getbasetemp() / ODD
    base.mkdir()
    tmp_path_factory._basetemp = base
    return tmp_path_factory
