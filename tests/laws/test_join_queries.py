"""Queries that share a join come and go: each pair names those in force at its later record."""

import random
from pathlib import Path

import pytest
import yaml

from penstock.kinds.join.views import views
from penstock.lake.history.generation import generations
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.side_files import SideFiles
from penstock.lake.log.blocks import decisions_of
from penstock.lake.log.proposed import values
from penstock.lake.log.side import REFUSED, owner
from penstock.lake.storage.commit import Table
from tests.asking import ASKED, QUERIES, Asking
from tests.joins import oracle_of, seen
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.side import taken_at_once
from tests.streams import write_jsonl
from tests.worlds import World, living

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.law
FIRST = {"queries": {"far": QUERIES["far"][0]}}


class QueryWorld(World):
    """Queries are edited now and then, while streams, doors and corrections run."""

    def __init__(self, home: Path, seed: int) -> None:
        super().__init__(home, (ASKED | FIRST, oracle_of("far")[1]), seed, longer=2)
        self.asking = Asking(self.lake, random.Random(seed + 7))  # noqa: S311

    def change_slack(self) -> None:
        self.asking.change()


@pytest.mark.parametrize("seed", [1, rare(2), rare(3)])
def test_whatever_is_asked_when_the_pairs_are_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    world = QueryWorld(tmp_path, seed)
    lake = world.lake
    for _ in living(world, 60):
        world.asking.check(settled=False)
    world.finish()
    assert world.asking.check(settled=True)
    assert len(world.asking.decided()) > 1, "they changed while records came"
    assert len({g.epoch for g in generations(lake.tables, lake.step)}) == 1
    assert not lake.correct(recheck=True)


def lake_of(home: Path) -> Lake:
    lake = make_lake(home, (ASKED | FIRST, oracle_of("far")[1]))
    write_jsonl(home / "live" / "0.jsonl", seen(random.Random(3), 30, 1.0))  # noqa: S311
    return lake


def test_a_running_door_follows_the_file_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    asking = Asking(lake, random.Random(1))  # noqa: S311
    asking.change(["far"])
    files = SideFiles(lake.tables, [lake.pipeline], lake.home, lake.clock)
    files.look()
    asking.change(["near", "up"])
    files.look()
    asked = owner(files.places[0].table)
    decisions = Table(lake.tables.decisions())
    told = values(decisions_of(decisions, asked))
    assert len(told) == 2
    good = (tmp_path / "p.yaml").read_text()
    (tmp_path / "p.yaml").write_text(good.replace("left.code < right.code", "left.code <"))
    files.look()
    refused = [r["value"] for r in decisions_of(decisions, asked) if r["what"] == REFUSED]
    assert len(refused) == 1
    assert "queries.up" in refused[0]
    assert "p.yaml" in refused[0]
    assert values(decisions_of(decisions, asked)) == told
    (tmp_path / "p.yaml").write_text(good)
    files.look()
    assert values(decisions_of(decisions, asked)) == told
    other = good.replace("PT5S", "PT6S")  # another definition: who reads it next says what holds
    (tmp_path / "p.yaml").write_text(other.replace("left.code < right.code", "left.code > 1"))
    files.look()
    assert values(decisions_of(decisions, asked)) == told
    mine = yaml.safe_load(good)
    guest = {"source": {"pipeline": "q"}, "steps": mine["steps"]}  # it stands on another log by now
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(guest))
    files.look()
    assert values(decisions_of(decisions, asked)) == told


def test_views_follow_queries(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    asking = Asking(lake, random.Random(1))  # noqa: S311
    asking.change(["far", "up", "same"])
    lake.query()
    lake.ingest()
    lake.query().run()
    lake.correct()
    rows = answers_in_force(lake.tables, lake.step)
    shown = views(lake.step)
    assert {*shown} == {"far", "up", "same"}
    for name, (_, view) in shown.items():
        mine = [names for names in rows["queries"].to_pylist() if name in names.split(",")]
        assert view(rows)["queries"].to_pylist() == mine
        assert mine
