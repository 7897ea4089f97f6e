"""What a topology under fire has come to: every answer again by DuckDB, balances, the register."""

from collections.abc import Iterator
from pathlib import Path

import duckdb

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.version import pipeline_of
from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.register import SPECS
from penstock.lake.log.rescalings import DECIDED, rescalings
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests.soak.logs import Log


class Judge:
    """Of one log and all that stands on it.

    Args:
        settings: of the home.
        log: which.
        source: folder of its files.
        sent: records in them.
    """

    def __init__(self, settings: Settings, log: Log, source: Path, sent: int) -> None:
        self.lake, self.log, self.sent = settings.lake_uri, log, sent
        self.tables, self.answers = Tables(self.lake, log.name), 0
        self.db = duckdb.connect()
        self.db.execute("set timezone = 'UTC'")
        self.db.execute(
            f"create table record as select {log.key}, {log.value}, epoch_us(\"at\") as us"
            " from read_parquet(?)", [str(source / "*.parquet")],
        )  # fmt: skip

    def wrong(self, pipelines: list[Pipeline], running: set[str]) -> Iterator[str]:
        """Everything that is, in words."""
        mine = [each for each in pipelines if each.log == self.log.name]
        yield from self._register([each for each in mine if pipeline_of(each.name) in running])
        for pipeline in mine:
            yield from self._compared(pipeline)
        for pipeline in pipelines:
            if isinstance(pipeline, OverAnswers) and pipeline.other.log == self.log.name:
                yield from self._compared_over(pipeline)
        for each in rescalings(self.tables):
            if each.state == DECIDED:
                yield f"{each.run} is still on its way from {each.tasks_before} to {each.tasks}"

    def _register(self, pipelines: list[Pipeline]) -> Iterator[str]:
        steps = [(each.name, step) for each in pipelines for step in each.specs]
        wanted = {
            "pipelines": {(each.name,) for each in pipelines},
            "steps": {(step.id, "runs") for _, step in steps},
            "shares": {(name, step.name, step.id) for name, step in steps},
            "tasks": {(step.id,) for _, step in steps},
        }
        columns = {"pipelines": ("pipeline",), "steps": ("run", "state"), "tasks": ("run",),
                   "shares": ("pipeline", "step", "run")}  # fmt: skip
        for spec in (of(self.tables) for of in SPECS):
            rows = read_table(Table(spec), columns[spec.name]).to_pylist()
            said = {tuple(row[name] for name in columns[spec.name]) for row in rows}
            if said != wanted[spec.name]:
                yield f"register: {spec.name} says {said}, {wanted[spec.name]} is"

    def _compared(self, pipeline: Pipeline) -> Iterator[str]:
        key, value = self.log.key, self.log.value
        for step in pipeline.specs:
            name, size = f"{pipeline.name}.{step.name}", step.window.size
            at, found = position(self.tables, step), balance(self.tables, step)
            if at is None or found is None:
                yield f"{name} has sealed nothing"
                continue
            self.db.execute(f"""create or replace table truth as
                select {key}, us // {size} * {size} as w, count(*) as n, max({value}) as most
                from record where {pipeline.steps[step.name].where or "true"} group by all""")
            pairs = self.db.execute("select coalesce(sum(n), 0) from truth").fetchall()[0][0]
            if not self.sent == found.received == found.accepted or found.pairs != pairs:
                yield f"{name}: {found}, {self.sent} and {pairs}"
            rows = answers_in_force(self.tables, step)
            self.answers += rows.num_rows
            self.db.register("answer", rows)
            bad = self.db.execute(f"""
                select * from (from truth where w + {size} <= ?) as t
                full join (select *, epoch_us(window_start) as w from answer) as g using ({key}, w)
                where t.n is distinct from g.n or t.most is distinct from g.most""",
                [at.sealed.state.watermark]).fetchall()  # fmt: skip
            if bad:
                yield f"{name}: {len(bad)} wrong: {bad[0]}"

    def _compared_over(self, pipeline: OverAnswers) -> Iterator[str]:
        """The greatest count of a key's windows in each wider one."""
        tables, (step,) = Tables(self.lake, pipeline.log), pipeline.specs
        at, rows, key = position(tables, step), answers_in_force(tables, step), self.log.key
        self.db.register("answer", rows)
        size, narrow = step.window.size, pipeline.over.window.size
        where = pipeline.other.steps[pipeline.source.step].where or "true"
        bad = self.db.execute(f"""
            with narrow as (select {key}, us // {narrow} * {narrow} + {narrow} as e,
                count(*) as n from record where {where} group by all),
            truth as (select {key}, (e - 1) // {size} * {size} as w, max(n) as most
                from narrow group by all)
            select * from (from truth where w + {size} <= ?) as t
            full join (select *, epoch_us(window_start) as w from answer) as g using ({key}, w)
            where t.most is distinct from g.most""",
            [0 if at is None else at.sealed.state.watermark]).fetchall()  # fmt: skip
        self.answers += rows.num_rows
        if bad or not rows.num_rows:
            yield f"{pipeline.name}: {rows.num_rows} answers, {len(bad)} wrong: {bad[:1]}"
