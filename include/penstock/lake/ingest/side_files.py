"""Takes the side data that a pipeline loads: whoever changes its files changes what holds.

Content is stored once, and proposed; the door adopts it with its next plan.
"""

import hashlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from penstock.columns.groups import group
from penstock.columns.types import fields_of
from penstock.config.pipeline import Pipeline
from penstock.config.side import SideConfig
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TransientError
from penstock.core.place import path_of
from penstock.core.side import VERSION, SideJoin, SideTable
from penstock.lake.log import proposed
from penstock.lake.log.blocks import decisions_of
from penstock.lake.log.side import REFUSED, owner
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

BROKEN = (pa.ArrowException, UnicodeError, ValueError, KeyError)
"""What a file's content can make Arrow raise."""


class UnfitError(ValueError):
    """What the files hold cannot be used; says which, why, and the remedy."""


class SideFiles:
    """The side data of one pipeline: takes what its files hold.

    Args:
        tables: of the pipeline.
        pipeline: its file.
        home: where relative places start.
        clock: tells when something was seen.
    """

    def __init__(self, tables: Tables, pipeline: Pipeline, home: Path, clock: Clock) -> None:
        self.tables, self.load, self.home, self.clock = tables, pipeline.load, home, clock
        self.joins = [join for step in pipeline.specs for join in step.looked_up]
        self._seen: dict[str, Any] = {}

    @property
    def owners(self) -> list[str]:
        """Whose decisions those of the side data are."""
        return [owner(name) for name in self.load]

    def look(self) -> None:
        """Take what has changed; what cannot be used is noted, and the former content holds on.

        Raises:
            ConfigError: there is nothing to hold on to.
            TransientError: the files cannot be read now, and there is nothing to hold on to.
        """
        for name, config in self.load.items():
            self._look(config.table(name), config)

    def _look(self, table: SideTable, config: SideConfig) -> None:
        name, place = table.name, self.home / path_of(config.files)
        try:
            files = _files(place, config.format)
            stamps = [(path, s.st_size, s.st_mtime_ns) for path in files for s in [path.stat()]]
            if self._seen.get(name) == stamps:
                return
            content = [(path, path.read_bytes()) for path in files]
        except OSError as failed:
            if not self._contents(name):
                raise TransientError(f"load.{name}: {place}: {failed.strerror}") from failed
            if self._seen.get(name) != str(failed):  # once: it is looked at again and again
                log.warning("side data cannot be read now name=%s why=%s", name, failed)
            self._seen[name] = str(failed)
            return
        try:
            self._take(table, *_read(table, config, place, content))
        except UnfitError as wrong:
            self._refuse(name, str(wrong))
        self._seen[name] = stamps

    def _take(self, table: SideTable, version: str, rows: pa.Table) -> None:
        for join in self.joins:
            if join.table == table:
                _require_unique(join, rows)
        known = self._contents(table.name)
        if known and known[-1] == version:
            return
        stored = Table(self.tables.side(table))
        rows = rows.append_column(VERSION, pa.repeat(version, rows.num_rows))
        stored.append(rows, f"side:{version}", 0)
        log.info("side data taken name=%s version=%s rows=%d", table.name, version, rows.num_rows)
        proposed.offer(self.tables, owner(table.name), version, self.clock)

    def _contents(self, name: str) -> list[str]:
        """Versions that were decided, or proposed since, in order."""
        return proposed.values(decisions_of(Table(self.tables.decisions()), owner(name)))

    def _refuse(self, name: str, why: str) -> None:
        if not self._contents(name):
            raise ConfigError(f"load.{name}: {why}")
        log.warning("side data refused name=%s why=%s", name, why)
        proposed.note(self.tables, owner(name), REFUSED, why, self.clock)


def _files(place: Path, form: str) -> list[Path]:
    """A file, or those of a folder, in the order of their names."""
    if not place.is_dir():
        return [place]
    return sorted(p for p in place.glob(f"*.{form}") if not p.name.startswith((".", "_")))


def _read(
    table: SideTable, config: SideConfig, place: Path, content: Sequence[tuple[Path, bytes]]
) -> tuple[str, pa.Table]:
    """The version's name, and its rows."""
    if not content:
        raise UnfitError(f"{place}: no .{config.format} file is there. Put one there")
    digest, parts = hashlib.sha256(), list[pa.Table]()
    schema = pa.schema(fields_of(table.columns))
    for path, held in content:
        digest.update(held)
        try:
            parts.append(READ[config.format](held, schema).cast(schema))
        except BROKEN as wrong:
            said = str(wrong.args[0]).splitlines()[0]
            raise UnfitError(f"{path}: {said}. Mend the file, or load.{table.name}") from wrong
    return digest.hexdigest()[:16], pa.concat_tables(parts)


def _csv(held: bytes, schema: pa.Schema) -> pa.Table:
    options = csv.ConvertOptions(
        column_types=schema, include_columns=schema.names, strings_can_be_null=True
    )
    return csv.read_csv(io.BytesIO(held), convert_options=options)


def _parquet(held: bytes, schema: pa.Schema) -> pa.Table:
    file = parquet.ParquetFile(io.BytesIO(held))
    missing = [name for name in schema.names if name not in file.schema_arrow.names]
    if missing:
        raise KeyError(f"no column {', '.join(missing)}")
    return file.read(columns=schema.names).select(schema.names)


READ = {"csv": _csv, "parquet": _parquet}


def _require_unique(join: SideJoin, rows: pa.Table) -> None:
    """Refuse two rows that a step could not tell apart."""
    ids, first = group([rows[key] for key in join.keys], rows.num_rows)
    if len(first) == rows.num_rows:
        return
    seen = set[int]()
    twice = next(at for at, number in enumerate(ids) if number in seen or seen.add(number))
    which = ", ".join(f"{key} = {rows[key][twice].as_py()}" for key in join.keys)
    raise UnfitError(f"two rows have {which}. Leave one of them out")
