"""The file of the cluster: what it means, and what is said of a wrong one."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from penstock.config.cluster import checked_cluster, read_cluster
from penstock.config.settings import ROOT, Settings
from penstock.core.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def test_the_file_that_comes_with_the_project_is_valid() -> None:
    cluster = read_cluster(Settings().cluster)
    assert cluster.url == "spark://127.0.0.1:7077"
    rules = cluster.rules(datetime(2026, 1, 1, tzinfo=UTC))
    assert (rules.idle, rules.target, rules.overloaded) == (0.2, 0.4, 0.82)
    assert (rules.out_after, rules.in_after) == (30_000_000, 300_000_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool: k8s", ":1  pool  Input should be 'standalone' or 'compose'"),
        ("pool: compose\nmaster: {port: 1}", ":1  file  pool compose has the master of docker-"),
        ("nodes: {least: 3, start: 1}", ":1  nodes  start (1) lies outside of least (3)"),
        ("nodes:\n  moost: 3", ":2  nodes.moost  unknown key. Did you mean most?"),
        ("worker: {memory: 1}", ":1  worker.memory  "),
        ("scale:\n  out_after: 30s", ":2  scale.out_after  '30s' is not a duration. Write PT30S"),
        ("scale: {idle: 0.5}", ":1  scale  idle (0.5) must lie below half of busy (0.4)"),
        ("scale:\n  schedule:\n  - {cron: nine, least: 3}", ":3  scale.schedule.0.cron  'nine'"),
        ("pool: standalone\npool: standalone", ":2  pool  stands twice. Delete one"),
        ("", ":1  file  is empty or not a mapping"),
    ],
)
def test_a_wrong_file_is_told_with_line_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    found, problems = checked_cluster(path)
    assert found is None
    assert str(problems[0]).startswith(f"{path}{said}")
    with pytest.raises(ConfigError, match="has problems"):
        read_cluster(path)


def test_a_pool_of_containers_has_the_master_that_the_services_have(tmp_path: Path) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    cluster = read_cluster(written(tmp_path, "pool: compose"))
    assert cluster.url == services["scheduler"]["environment"]["PENSTOCK_SPARK_MASTER"]


def test_the_least_number_follows_the_hours(tmp_path: Path) -> None:
    text = """
nodes: {least: 1, start: 1, most: 8}
scale:
  schedule:
    - {cron: "0 8 * * 1-5", least: 8}
    - {cron: "0 18 * * 1-5", least: 2}
"""
    cluster = read_cluster(written(tmp_path, text))
    told = {
        datetime(2026, 11, 25, 7, 59, tzinfo=UTC): 2,
        datetime(2026, 11, 25, 8, 0, 1, tzinfo=UTC): 8,
        datetime(2026, 11, 25, 17, 59, tzinfo=UTC): 8,
        datetime(2026, 11, 25, 18, 0, 1, tzinfo=UTC): 2,
        datetime(2026, 11, 29, 12, 0, tzinfo=UTC): 2,  # a Sunday
    }
    assert {at: cluster.rules(at).least for at in told} == told
