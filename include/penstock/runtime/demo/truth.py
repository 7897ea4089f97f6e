"""Holds a pipeline's answers against the truth: DuckDB over the raw files, no table of ours."""

from dataclasses import dataclass
from datetime import timedelta
from glob import escape
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.kinds import part
from penstock.core.place import path_of
from penstock.core.step import StepSpec
from penstock.core.window import instant

TIMELY = "speed"
"""Reason of an answer that the stream gave."""
SIDES = ("timely", "now", "truth")


@dataclass(frozen=True, slots=True)
class Example:
    """One window and key, with its answers side by side.

    Attributes:
        window: as text, UTC.
        key: its key columns, joined.
        values: by name: timely, now, truth.
        changed: the correction said something else than the timely answer.
    """

    window: str
    key: str
    values: dict[str, tuple[object, object, object]]
    changed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison of one step found.

    Attributes:
        step: its name.
        windows: windows x keys in which the raw files have a record; alarms of a look-up.
        pairs: (record, window) pairs in them; records that a look-up compares.
        preloaded: of the windows x keys, first answered from the history.
        timely: first answered by the stream, when the window closed.
        unanswered: neither: they had only late records.
        changed: first answers that were not right, because records came late.
        wrong: answers that are not true now: missing, extra, doubled or different.
        examples: a few windows, those that changed most first.
    """

    step: str
    windows: int
    pairs: int
    preloaded: int
    timely: int
    unanswered: int
    changed: int
    wrong: int
    examples: tuple[Example, ...]


def raw_of(step: StepSpec) -> Any:
    """What the kind of a step must answer, in SQL over raw records.

    ``names(step)`` of the values that raw records can tell; ``columns(step, config)`` of the true
    ones by window and key, or where answers hang on all records of a key ``answers(step, config,
    sides)`` and ``records(step, config)``; ``unequal(step, one, other)``, conditions under which
    two answers differ, ``r`` being the true one.
    """
    return part(step.kind, "raw")


class Truth:
    """The raw files of a pipeline, and what its steps must answer.

    Args:
        pipeline: as its file says it; conditions and measures are SQL already.
        files: the raw Parquet files, in the order in which they were taken.
        home: where relative places start.
    """

    def __init__(self, pipeline: Pipeline, files: list[Path], home: Path) -> None:
        self._pipeline, self._home = pipeline, home
        self._db = duckdb.connect()
        self._db.execute("set TimeZone = 'UTC'")
        named = ", ".join(
            f'"{column.source or name}" as "{name}"' for name, column in pipeline.columns.items()
        )
        self._db.execute(
            f'create view record as select "{pipeline.event_time}" as event_time, {named},'  # noqa: S608
            " row_number() over (order by filename, file_row_number) - 1 as _seq"
            f" from read_parquet([{_named(files)}], filename = true, file_row_number = true)"
        )

    def records(self) -> int:
        """How many records the raw files hold."""
        return self._count("select count(*) from record")

    def judge(self, step: StepSpec, first: pa.Table, in_force: pa.Table) -> Verdict:
        """Compare every window and key.

        Args:
            step: the step.
            first: the answers of revision 0: key columns, window_start, window_end, measures,
                n_records, and reason: ``speed`` if the stream gave it.
            in_force: the answers now, in the same columns.

        Raises:
            ConfigError: the step has a landmark window.
        """
        if step.window.landmark:
            raise ConfigError(f"{step.name}: the demo compares no landmark windows")
        self._answer(step)
        self._compare(step, first, in_force)
        return Verdict(
            step=step.name,
            windows=self._count("select count(*) from truth"),
            pairs=self._pairs(step),
            preloaded=self._count("select count(*) from side where _given and not _timely"),
            timely=self._count("select count(*) from side where _timely"),
            unanswered=self._count("select count(*) from side where not _given"),
            changed=self._count("select count(*) from side where _given and _changed"),
            wrong=self._count("select count(*) from side where _wrong"),
            examples=self._examples(step),
        )

    def alarms(self, step: StepSpec) -> duckdb.DuckDBPyRelation:
        """Every alarm of a look-up: keys, positions, values."""
        sides = {name: self._side(name) for name in self._pipeline.load}
        return self._db.sql(raw_of(step).answers(step, self._pipeline.steps[step.name], sides))

    def _pairs(self, step: StepSpec) -> int:
        if not step.by_key:
            return self._count("select coalesce(sum(n_records), 0) from truth")
        compared = raw_of(step).records(step, self._pipeline.steps[step.name])
        return self._count(f"select count(*) from ({compared})")  # noqa: S608

    def close(self) -> None:
        """Let the database go."""
        self._db.close()

    def _count(self, sql: str) -> int:
        row = self._db.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def _answer(self, step: StepSpec) -> None:
        config, window = self._pipeline.steps[step.name], step.window
        if step.by_key:
            self.alarms(step).create_view("alarm")
            self._db.execute("create or replace table truth as from alarm")
            return
        keys = "".join(f', "{key}"' for key in step.identity_names)
        columns = ", ".join(["", *raw_of(step).columns(step, config)])
        self._db.execute(f"""
            create or replace table truth as
            with placed as (
                select *, unnest(range({-(-window.size // window.slide)})) as _back,
                    (epoch_us(event_time) - {window.origin}) // {window.slide} as _slot
                from record where {config.where or "true"}
            )
            select {window.origin} + (_slot - _back) * {window.slide} as _start {keys},
                count(*) as n_records {columns}
            from placed
            where epoch_us(event_time) < _start + {window.size}
            group by all
        """)  # noqa: S608  the pipeline file is the user's own

    def _side(self, name: str) -> str:
        """SQL that reads a side table."""
        side = self._pipeline.load[name]
        place = self._home / path_of(side.files)
        files = [*place.glob(f"*.{side.format}")] if place.is_dir() else [place]
        return f"read_{side.format}([{_named(files)}])"

    def _compare(self, step: StepSpec, first: pa.Table, in_force: pa.Table) -> None:
        using = ", ".join(["_start", *(f'"{key}"' for key in step.identity_names)])
        self._db.register("first_rows", first)
        self._db.register("in_force_rows", in_force)
        for name in ("first", "in_force"):
            self._db.execute(f"""
                create or replace table "{name}" as
                select *, epoch_us(window_start) as _start, true as _there from {name}_rows
            """)  # noqa: S608
        values = "".join(
            f', t."{name}" as "timely_{name}", f."{name}" as "now_{name}",'
            f' r."{name}" as "truth_{name}"'
            for name in raw_of(step).names(step)
        )
        end = f"epoch_us(f.window_end) is distinct from _start + {step.window.size}"
        self._db.execute(f"""
            create or replace table side as
            select {using}, t._there is not null as _given,
                coalesce(t.reason = '{TIMELY}', false) as _timely,
                abs(coalesce(r.n_records, 0) - coalesce(t.n_records, 0)) as _missed,
                f._there is null or r._there is null or f._times > 1 or {end}
                    or {_unequal(step, "f", "r")} as _wrong,
                {_unequal(step, "t", "r")} as _changed {values}
            from (select *, true as _there from truth) as r
            full join (select *, count(*) over (partition by {using}) as _times from in_force) as f
                using ({using})
            full join first as t using ({using})
        """)  # noqa: S608

    def _examples(self, step: StepSpec, changed: int = 3, same: int = 1) -> tuple[Example, ...]:
        """Windows that late records changed, each of another key, and one they did not."""
        key = "concat_ws(', ', " + ", ".join(["''", *(f'"{k}"' for k in step.identity_names)]) + ")"
        names = raw_of(step).names(step)
        values = ", ".join(f'"{side}_{name}"' for name in names for side in SIDES)
        rows = self._db.execute(f"""
            with ranked as (
                select *, trim({key}, ', ') as _key, row_number() over (
                    partition by _changed, _key order by _missed desc, _start) as _rank
                from side where _timely
            )
            (select _start, _key, _changed, {values} from ranked
             where _changed and _rank = 1 order by _missed desc, _start, _key limit {changed})
            union all
            (select _start, _key, _changed, {values} from ranked
             where not _changed order by "truth_{names[0]}" desc, _start, _key limit {same})
        """).fetchall()  # noqa: S608
        return tuple(
            Example(
                window=_window(row[0], step.window.size),
                key=row[1],
                changed=row[2],
                values={
                    name: (row[3 + 3 * i], row[4 + 3 * i], row[5 + 3 * i])
                    for i, name in enumerate(names)
                },
            )
            for row in rows
        )


def _unequal(step: StepSpec, one: str, other: str) -> str:
    """SQL: whether two answers differ in any value."""
    parts = [f"{one}.n_records is distinct from {other}.n_records"]
    return "(" + " or ".join([*parts, *raw_of(step).unequal(step, one, other)]) + ")"


def _window(start_us: int, size_us: int) -> str:
    """As in ``10-01 00:15-01:15``, with a second date where it is another day."""
    start, end = instant(start_us), instant(start_us + size_us)
    if (end - timedelta(microseconds=1)).date() != start.date():
        return f"{start:%m-%d %H:%M} to {end:%m-%d %H:%M}"
    last = f"{end:%H:%M}" if end.date() == start.date() else "24:00"
    return f"{start:%m-%d %H:%M}-{last}"


def _named(files: list[Path]) -> str:
    """Files for SQL: no letter of a name is a pattern's or ends the text."""
    return ", ".join("'" + escape(str(file)).replace("'", "''") + "'" for file in files)
