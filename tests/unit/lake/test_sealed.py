"""Where a step is sealed is found at the end of ``control``, and is what all its rows say."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.step import StepSpec
from penstock.lake.history import sealed
from penstock.lake.history.sealed import last_sealed, sealed_rows
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from tests.steps import SITES, make_pipeline
from tests.streams import BEGIN

Row = dict[str, Any]


@dataclass(frozen=True)
class Life:
    """Generations of a step with their epochs and starts, and rows of ``control``."""

    generations: list[tuple[int, int, int]]
    rows: list[Row]

    def counting(self, epoch: int) -> list[Row]:
        """Rows of an epoch that no later generation has replaced, in order."""
        numbers = [n for n, of, _ in self.generations if of == epoch]
        found = [
            row
            for row in self.rows
            if row["generation"] in numbers
            and all(row["block"] <= b for n, _, b in self.generations if n > row["generation"])
        ]
        return sorted(found, key=lambda r: (r["block"], r["generation"], r["micro_batch"]))

    def lasts(self, epoch: int) -> list[tuple[int, int]]:
        """The last such row of each generation, as (generation, micro-batch)."""
        found = {row["generation"]: row["micro_batch"] for row in self.counting(epoch)}
        return [*found.items()]


def lived(random: Random) -> Life:
    """A life as the registry and the sinks write it: some rows come after their time."""
    generations, rows = [], []
    block = epoch = 0
    for number in range(random.randint(1, 6)):
        if number and random.random() < 0.3:
            epoch, block = number, block + random.randint(0, 4)
        generations.append((number, epoch, block))
        at = block
        for micro_batch in range(random.choice((0, 1, 2, 20))):
            at += random.randint(0 if micro_batch == 0 else 1, 3)
            rows.append({"generation": number, "micro_batch": micro_batch, "block": at})
        over = random.choice((0, 0, 1))  # sealed by a sink that did not know it was replaced
        block = rows[-1 - over]["block"] if at > block and len(rows) > over else block
        block = max(block, generations[-1][2])
    return Life(generations, rows)


@pytest.fixture
def step(tmp_path: Path) -> StepSpec:
    return make_pipeline(tmp_path, {"s": SITES}).specs[0]


def write(tables: Tables, step: StepSpec, life: Life, random: Random) -> None:
    zero = {"watermark_us": 0, "t_max_us": 0, "k_us": 0, "slack_us": 0}
    registry = Table(tables.registry())
    for number, epoch, block in life.generations:
        row = zero | {
            "step": step.name, "fingerprint": step.fingerprint, "generation": number,
            "epoch": epoch, "start_block": block, "start_seq": block, "started_at": BEGIN,
            "slack": step.slack.to_text(),
        }  # fmt: skip
        registry.append(pa.Table.from_pylist([row], registry.spec.schema), "r", number)
    control = Table(tables.control(step))
    left = [*enumerate(life.rows)]
    while left:
        size = random.choice((1, 1, 5, 40))
        some, left = left[:size], left[size:]
        rows = [zero | row | {"through_seq": row["block"], "pairs_open": 0} for _, row in some]
        control.append(pa.Table.from_pylist(rows, control.spec.schema), "c", some[0][0])
        if random.random() < 0.1:
            control.refresh().optimize.compact()


@pytest.mark.parametrize("seed", range(40))
def test_the_ends_of_generations_are_what_all_rows_say(
    tmp_path: Path, step: StepSpec, seed: int
) -> None:
    random, tables = Random(seed), Tables(str(tmp_path), "p")  # noqa: S311
    life = lived(random)
    write(tables, step, life, random)
    for epoch in {epoch for _, epoch, _ in life.generations}:
        until = min((n for n, of, _ in life.generations if of > epoch), default=None)
        found = last_sealed(tables, step, epoch, until)
        assert [(s.generation, s.micro_batch) for s in found] == life.lasts(epoch)
        rows = sealed_rows(tables, step, epoch, until)
        assert [(s.generation, s.micro_batch, s.block) for s in rows] == [
            (r["generation"], r["micro_batch"], r["block"]) for r in life.counting(epoch)
        ]


@pytest.mark.parametrize("compacted", [False, True])
def test_only_the_end_of_control_is_read(
    tmp_path: Path, step: StepSpec, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    tables = Tables(str(tmp_path), "p")
    rows = [{"generation": 0, "micro_batch": n, "block": n + 1} for n in range(200)]
    later = [{"generation": 1, "micro_batch": n, "block": n + 201} for n in range(5)]
    life = Life([(0, 0, 0), (1, 0, 200)], rows + later)
    write(tables, step, life, Random(1))  # noqa: S311
    if compacted:
        Table(tables.control(step)).refresh().optimize.compact()
    taken: list[int] = []

    def read(*asked: Any) -> pa.Table:
        found = sealed_read(*asked)
        taken.append(found.num_rows)
        return found

    sealed_read = sealed.read_files
    monkeypatch.setattr(sealed, "read_files", read)
    found = last_sealed(tables, step, 0)
    assert [(s.generation, s.micro_batch) for s in found] == [(0, 199), (1, 4)]
    assert sum(taken) == 2, "a row of each generation"
