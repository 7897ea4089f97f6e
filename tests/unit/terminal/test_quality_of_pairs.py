"""``penstock show --quality`` of a join: how its pairs were said, not how large they are."""

import random
from io import StringIO
from pathlib import Path

from rich.console import Console

from penstock.config.settings import Settings
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.runtime.terminal.quality import show_quality
from tests.joins import CASES, check_settled, join_lake, seen
from tests.streams import write_jsonl


def test_it_says_which_share_of_the_pairs_was_there_at_once(tmp_path: Path) -> None:
    lake = join_lake(tmp_path, "far")
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", seen(random.Random(8), 150, 1.0))  # noqa: S311
    lake.ingest()
    lake.query().run()
    lake.correct()
    pairs = check_settled(lake, CASES["far"])
    rows = read_table(Table(lake.tables.control(lake.step)), ["compared", "answers"])
    compared, told = (sum(rows[name].to_pylist()) for name in rows.column_names)
    assert 0 < told < pairs
    out = Console(file=StringIO(), width=160)
    settings = Settings(home=tmp_path)
    assert settings.lake_uri == str(tmp_path / "lake")
    show_quality(settings, lake.pipeline, [lake.step], out)
    said = out.file.getvalue()  # type: ignore[attr-defined]
    shown = [" ".join(line.split()) for line in said.splitlines()]
    assert f"at once {told:,} {100 * told / pairs:.1f} %" in shown
    assert f"by a correction {pairs - told:,} {100 * (1 - told / pairs):.1f} %" in shown
    assert (
        f"{told / compared:.2%} of {compared:,} candidates compared are pairs told at once."
        in shown
    )
    assert "mean error" not in said
    assert "needed" not in said
