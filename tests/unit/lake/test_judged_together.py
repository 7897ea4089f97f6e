"""Small files are judged together: the same rows as if each were judged by itself."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.ingest import judging
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.verdict import judge
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.gates import Gate, T
from tests.lakes import json_of
from tests.streams import disordered, write_parquet

ODD = ["", "\n", "no\n", "[1]\n", '{"site": "a"}\n', '{"site": 1, "more": [1, {"a": "é"}]}\n']


def fill(live: Path, kind: str, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    live.mkdir(parents=True)
    for number in range(30):
        rows: list[Any] = disordered(draw.randint(0, 4), seed=number, apart=9.0, late_share=0.3)
        file = live / f"{number:02}.{kind}"
        if kind == "parquet":
            write_parquet(file, rows)
            if draw.random() < 0.2:
                file.write_bytes(b"PAR1 no")
            continue
        lines = [json_of(row, bags="x" if draw.random() < 0.2 else row["bags"]) for row in rows]
        file.write_text("".join(f"{line}\n" for line in lines) + draw.choice(ODD))
        if kind == "csv":
            more = ["", ",y"][draw.random() < 0.3]
            sites = [draw.choice(["x", "", '"']) for _ in rows]
            text = "".join(f"{T},{site},{i}\n" for i, site in enumerate(sites))
            file.write_text(f"event_time,site,code{more}\n{text}")


@pytest.mark.parametrize("more", [
    {}, {"id": {"column": "code", "horizon": "PT1H"}},
    {"ambiguous": "by order", "zone": "Europe/Vienna"},
], ids=["plain", "ids", "by order"])  # fmt: skip
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_the_same_rows_come_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, more: dict[str, Any]
) -> None:
    found = []
    fill(tmp_path / "live", kind, seed=len(more) + len(kind))
    calls = []

    def counted(*given: Any) -> Any:
        calls[-1] += 1
        return judge(*given)

    monkeypatch.setattr(judging, "judge", counted)
    for together in (0, 16_384):
        monkeypatch.setattr(judging, "TOGETHER", together)
        calls.append(0)
        gate = Gate(tmp_path, kind, **more)
        gate.take()
        gate.conserved()
        tables = (gate.tables.events(gate.pipeline.types), gate.tables.quarantine())
        rows = [read_table(Table(t)).sort_by("arrival_seq").to_pylist() for t in tables]
        found.append(rows)
        shutil.rmtree(tmp_path / "lake")
    assert found[0] == found[1]
    assert found[0][0]
    assert calls[1] == calls[0] if "ambiguous" in more else calls[1] < calls[0]


def test_one_that_fails_is_named_and_the_others_wait_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path, "jsonl")
    for name in "abc":
        gate.write(f"{name}.jsonl", f'{{"event_time": "{T}", "site": "{name}"}}\n')

    def fails(received: Any, *given: Any) -> Any:
        if "b" in received.columns["site"].to_pylist():
            raise MemoryError
        return judge(received, *given)

    with monkeypatch.context() as patched:
        patched.setattr(judging, "judge", fails)
        with pytest.raises(SourceError, match=r"b\.jsonl: MemoryError"):
            gate.take()
    assert gate.take() == 3
    assert gate.conserved() == (3, 0)
