"""The code of the how-to is run, and says what plain Python says."""

import random
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.config.catalog import read_pipeline
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door
from tests.lakes import Lake
from tests.streams import BEGIN, write_jsonl

pytestmark = pytest.mark.law
ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "write-your-own-step.md"
SHIPPED = ROOT / "include" / "examples"
NAMES = ("www.Example.org", "example.org", "a.b.example.net", "example.net", "localhost", None)


def block(language: str, page: Path = HOW_TO) -> str:
    """The first of a language in a how-to."""
    found = re.search(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def domain(query: str) -> str:
    return ".".join(query.lower().split(".")[-2:])


def asked(count: int) -> list[dict[str, Any]]:
    draw, begin = random.Random(7), BEGIN  # noqa: S311
    return [
        {"id.orig_h": f"h{draw.randrange(3)}", "query": draw.choice(NAMES), "rtt": 0.5,
         "ts": (begin + timedelta(seconds=draw.randrange(600))).isoformat(),
         "_write_ts": (begin + timedelta(seconds=600 + number)).isoformat()}
        for number in range(count)
    ]  # fmt: skip


def test_the_step_of_the_how_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 20)
    (tmp_path / "dns.py").write_text(block("python"))
    (tmp_path / "dns.yaml").write_text(block("yaml"))
    pipeline, problems = read_pipeline(tmp_path / "dns.yaml")
    assert pipeline is not None, problems
    shipped, problems = read_pipeline(SHIPPED / "dns.yaml")
    assert shipped is not None, problems
    assert (shipped.specs, shipped.definition) == (pipeline.specs, pipeline.definition)
    lake = Lake(tmp_path, pipeline, None, {}, "first_contact")  # type: ignore[arg-type]
    records = asked(200)
    write_jsonl(tmp_path / "demo" / "dns" / "live" / "1.jsonl", records)
    lake.query().run()
    lake.ingest()
    lake.query(blocks=3).run()

    first: dict[tuple[str, str], datetime] = {}
    expected = []
    for seq, record in enumerate(records):
        if record["query"] is None:
            continue
        key, ts = (
            (record["id.orig_h"], domain(record["query"])),
            datetime.fromisoformat(record["ts"]),
        )
        if key not in first or ts < first[key]:
            first[key] = ts
            expected.append((*key, seq, ts))
    rows = answers_in_force(lake.tables, lake.step).to_pylist()
    names = ("host", "domain", "arrival_seq", "first_seen")
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(expected)
    assert len(expected) > len(first), "some were first seen later than they asked first"


def test_the_join_of_the_how_to_is_the_one_that_is_shipped(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_text(block("yaml pipeline", HOW_TO.with_name("pair-records.md")))
    told, problems = read_pipeline(tmp_path / "air.yaml")
    assert told is not None, problems
    shipped, problems = read_pipeline(SHIPPED / "air.yaml")
    assert shipped is not None, problems
    assert (told.specs, told.definition) == (shipped.specs, shipped.definition)
