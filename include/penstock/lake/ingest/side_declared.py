"""Side data that a pipeline file holds, such as queries: what the file says now is what counts.

A running stream follows its file: it need not start again for an edit that leaves the definition as
it is. A process that knows another definition than the file has no say.
"""

import pyarrow as pa

from penstock.columns.content import content_name
from penstock.columns.types import fields_of
from penstock.config.catalog import read_pipeline
from penstock.config.linked import link_as
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.side import Declared, SideTable
from penstock.core.step import StepSpec
from penstock.lake.ingest.side_content import Stamp, UnfitError


class OutdatedError(Exception):
    """The file has another definition by now: whoever reads it next says what holds."""


class DeclaredPlace:
    """What a step of a pipeline file holds.

    Args:
        pipeline: as the process knows it.
        step: of it.
        declared: of the step.
    """

    def __init__(self, pipeline: Pipeline, step: StepSpec, declared: Declared) -> None:
        self.place, self.pipeline = pipeline.path, pipeline
        self.step, self.declared = step, declared

    @property
    def table(self) -> SideTable:
        """The side table."""
        return self.declared.table

    def stamps(self) -> list[Stamp]:
        """What tells whether the file is as it was; of one that is not there nothing."""
        try:
            stat = self.place.stat()
        except FileNotFoundError:
            return [(str(self.place), 0, 0, 0, 0)]
        found = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        return [(str(self.place), *found)]

    def read(self, _: object) -> tuple[str, pa.Table]:
        """The content's name, and its rows.

        Raises:
            OutdatedError: the file has another definition.
            UnfitError: it has problems.
        """
        declared = self._now() if self.place.exists() else self.declared
        schema = pa.schema(fields_of(self.table.columns))
        columns = zip(*declared.rows, strict=True)
        rows = pa.table([pa.array([*values], pa.string()) for values in columns], schema=schema)
        return content_name(rows, self.table.keys), rows

    def _now(self) -> Declared:
        pipeline, problems = read_pipeline(self.place)
        if pipeline is None:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise UnfitError(f"{problems[0]}{more}")
        try:
            link_as(pipeline, self.pipeline)
            specs = pipeline.specs
        except (ValueError, KeyError, ConfigError):  # it stands on another log by now
            raise OutdatedError from None
        for spec in specs:
            if (spec.id, spec.fingerprint) == (self.step.id, self.step.fingerprint):
                return next(each for each in spec.declares if each.table == self.table)
        raise OutdatedError
