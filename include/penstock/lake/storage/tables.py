"""The tables of a pipeline: where they lie and what their rows are.

Every table is Delta, without column mapping or deletion vectors, so that any Delta reader can read
it. Rows are appended, never changed; they go only with a freeze. Instants are microseconds, UTC.
"""

from dataclasses import dataclass

import pyarrow as pa

from penstock.columns.types import ARROW, INSTANT, fields_of
from penstock.core.measure import ColumnType
from penstock.core.side import VERSION, SideTable
from penstock.core.step import STREAM, StepSpec
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.spec import INTERNAL, SHEDS, TableSpec


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one pipeline below a lake's URI."""

    lake: str
    pipeline: str

    def uri(self, *parts: str) -> str:
        """Where a table of this pipeline lies."""
        return "/".join((self.lake.rstrip("/"), self.pipeline, *parts))

    def events(self, columns: dict[str, ColumnType], streams: tuple[str, ...] = ()) -> TableSpec:
        """One accepted record a row, with what was not declared.

        That is a field of ``undeclared`` in its own type, or in ``extra`` as JSON. With several
        sources there is a column ``stream``; readers of some ``streams`` take only their rows.
        """
        named = dict.fromkeys([STREAM] if streams else [], ColumnType.STRING)
        declared = [pa.field(name, ARROW[kind]) for name, kind in {**named, **columns}.items()]
        schema = pa.schema(
            [
                ("arrival_seq", pa.int64()),
                ("event_time", INSTANT),
                ("ingest_time", INSTANT),
                ("block", pa.int64()),
                ("origin", pa.string()),
                ("extra", pa.string()),
                ("read_as", pa.string()),
                *declared,
            ]
        )
        indexed = ("arrival_seq", "event_time", *(n for n in schema.names if n == STREAM))
        return TableSpec(
            self.uri("events"), schema, ("origin",), indexed, "events", streams=streams
        )

    def quarantine(self) -> TableSpec:
        """One refused record a row, raw, with its reason and place.

        Here and in the other tables of the log, ``stream`` is there only with several sources.
        """
        return TableSpec(
            self.uri("quarantine"),
            pa.schema(
                [
                    ("arrival_seq", pa.int64()),
                    ("reason", pa.string()),
                    ("detail", pa.string()),
                    ("place", pa.string()),
                    ("raw", pa.string()),
                    ("ingest_time", INSTANT),
                    ("block", pa.int64()),
                    ("origin", pa.string()),
                    (STREAM, pa.string()),
                ]
            ),
            indexed=("arrival_seq",),
            name="quarantine",
            optional=(STREAM,),
        )

    def plans(self) -> TableSpec:
        """One ingest batch a row, written before it is read."""
        return TableSpec(
            self.uri("plans"),
            pa.schema(
                [
                    ("number", pa.int64()),
                    ("kind", pa.string()),
                    ("origin", pa.string()),
                    ("first_seq", pa.int64()),
                    ("first_block", pa.int64()),
                    ("arrived_at", INSTANT),
                    ("positions", pa.string()),
                    ("adopts", pa.string()),
                    ("definition", pa.string()),
                    ("block_size", pa.int64()),
                    ("refused_before_us", pa.int64()),
                    (STREAM, pa.string()),
                    ("taken", pa.string()),
                ]
            ),
            name="plans",
            optional=(STREAM, "taken"),
        )

    def blocks(self) -> TableSpec:
        """One sealed block a row; until a block stands here nothing of it exists for a reader."""
        return TableSpec(
            self.uri("blocks"),
            pa.schema(
                [
                    ("block", pa.int64()),
                    ("kind", pa.string()),
                    ("origin", pa.string()),
                    ("first_seq", pa.int64()),
                    ("last_seq", pa.int64()),
                    ("accepted", pa.int64()),
                    ("quarantined", pa.int64()),
                    ("accepted_total", pa.int64()),
                    ("t_max", INSTANT),
                    ("lateness_us", pa.int64()),
                    ("arrived_at", INSTANT),
                    ("plan", pa.int64()),
                    ("sealed_at", INSTANT),
                    (STREAM, pa.string()),
                    ("mark_us", pa.int64()),
                ]
            ),
            name="blocks",
            form=2,
            optional=(STREAM, "mark_us"),
        )

    def decisions(self) -> TableSpec:
        """One slack of a step, or content of a side table, with its first block, a row.

        Or a proposal, which holds from no block (``decided_before`` counts what was decided before
        it), or a word on a file. A content stands as ``content@position``.
        """
        return TableSpec(
            self.uri("decisions"),
            pa.schema(
                [
                    ("step", pa.string()),
                    ("block", pa.int64()),
                    ("what", pa.string()),
                    ("value", pa.string()),
                    ("reason", pa.string()),
                    ("decided_before", pa.int64()),
                    ("decided_at", INSTANT),
                ]
            ),
            name="decisions",
            form=2,
        )

    def side(self, table: SideTable) -> TableSpec:
        """One row of one content of a side table a row."""
        schema = pa.schema([*fields_of(table.columns), (VERSION, pa.string())])
        return TableSpec(self.uri("side", table.name, table.form), schema, name="side")

    def registry(self) -> TableSpec:
        """One generation of one step a row."""
        return TableSpec(
            self.uri("registry"),
            pa.schema(
                [
                    ("step", pa.string()),
                    ("fingerprint", pa.string()),
                    ("generation", pa.int64()),
                    ("epoch", pa.int64()),
                    ("start_block", pa.int64()),
                    ("start_seq", pa.int64()),
                    ("watermark_us", pa.int64()),
                    ("t_max_us", pa.int64()),
                    ("k_us", pa.int64()),
                    ("slack_us", pa.int64()),
                    ("slack", pa.string()),
                    ("controller", pa.string()),
                    ("live", pa.bool_()),
                    ("reason", pa.string()),
                    ("frozen_seq", pa.int64()),
                    ("started_at", INSTANT),
                ]
            ),
            name="registry",
            form=2,
        )

    def corrections(self) -> TableSpec:
        """One frozen plan, or its completion, a row."""
        return TableSpec(
            self.uri("corrections"),
            pa.schema(
                [
                    ("step", pa.string()),
                    ("fingerprint", pa.string()),
                    ("epoch", pa.int64()),
                    ("plan", pa.int64()),
                    ("state", pa.string()),
                    ("reason", pa.string()),
                    ("after_seq", pa.int64()),
                    ("through_seq", pa.int64()),
                    ("watermark_us", pa.int64()),
                    ("window_from_us", pa.int64()),
                    ("window_to_us", pa.int64()),
                    ("recheck", pa.bool_()),
                    ("base", pa.int64()),
                    ("answers", pa.int64()),
                    ("changed", pa.int64()),
                    ("run_id", pa.string()),
                    ("recorded_at", INSTANT),
                ]
            ),
            name="corrections",
        )

    def freezes(self) -> TableSpec:
        """One freeze, asked for or in effect, a row; ``steps``: what audits of each go on from."""
        return TableSpec(
            self.uri("freezes"),
            pa.schema(
                [
                    ("number", pa.int64()),
                    ("state", pa.string()),
                    ("through_seq", pa.int64()),
                    ("block", pa.int64()),
                    ("newest_us", pa.int64()),
                    ("window_from_us", pa.int64()),
                    ("refused_before_us", pa.int64()),
                    ("steps", pa.string()),
                    ("streams", pa.string()),
                    ("recorded_at", INSTANT),
                ]
            ),
            name="freezes",
            optional=("streams",),
        )

    def audits(self) -> TableSpec:
        """One step in one audit a row; ``state`` passed, failed, or nothing: none was compared.

        ``footing`` is what the next one goes on from.
        """
        return TableSpec(
            self.uri("audits"),
            pa.schema(
                [
                    ("run_id", pa.string()),
                    ("audited_at", INSTANT),
                    ("step", pa.string()),
                    ("through_seq", pa.int64()),
                    ("state", pa.string()),
                    ("passed", pa.bool_()),
                    ("comparisons", pa.string()),
                    ("failed", pa.string()),
                    ("everything", pa.bool_()),
                    ("footing", pa.string()),
                ]
            ),
            name="audits",
            form=2,
        )

    def answers(self, step: Definition) -> TableSpec:
        """One answer a row: timely (of a micro-batch), corrected or of the history (of a plan)."""
        values = [pa.field(value.name, ARROW[value.type]) for value in step.values]
        schema = pa.schema(
            [
                *fields_of(step.identity),
                ("window_start", INSTANT),
                ("window_end", INSTANT),
                *values,
                ("n_records", pa.int64()),
                ("revision", pa.int64()),
                ("reason", pa.string()),
                ("epoch", pa.int64()),
                ("generation", pa.int64()),
                ("micro_batch", pa.int64()),
                ("plan", pa.int64()),
                ("through_seq", pa.int64()),
                ("published_at", INSTANT),
            ]
        )
        return TableSpec(
            self._of(step, "answers"), schema, (), ("window_start", "through_seq"), "answers", 2
        )

    def merged(self, step: Definition) -> TableSpec:
        """One answer in force a row, as of the last merge: a copy that spares readers theirs."""
        answers = self.answers(step)
        schema = pa.schema([field for field in answers.schema if field.name not in INTERNAL])
        return TableSpec(self._of(step, "merged"), schema, (), ("window_start",), "merged")

    def merges(self) -> TableSpec:
        """One read of answers in force that had much to merge, or what maintenance chose, a row.

        ``what`` is ``read``, with the time that a merge would have spared; ``append`` or
        ``rewrite``, the choice, with the time that a merge takes; or ``written``, as it took.
        """
        schema = pa.schema(
            [
                ("number", pa.int64()),
                ("step", pa.string()),
                ("fingerprint", pa.string()),
                ("what", pa.string()),
                ("rows", pa.int64()),
                ("seconds", pa.float64()),
                ("reason", pa.string()),
                ("recorded_at", INSTANT),
            ]
        )
        return TableSpec(self.uri("merges"), schema, name="merges")

    def late(self, step: StepSpec, partial_fields: list[pa.Field]) -> TableSpec:
        """Pairs (record, window) of one micro-batch that missed a window, summed by key."""
        schema = pa.schema(
            [
                *fields_of(step.keys),
                ("window_start", INSTANT),
                ("window_end", INSTANT),
                *partial_fields,
                ("n_records", pa.int64()),
                ("last_seq", pa.int64()),
                ("reason", pa.string()),
                ("generation", pa.int64()),
                ("micro_batch", pa.int64()),
                ("published_at", INSTANT),
            ]
        )
        return TableSpec(self._of(step, "late"), schema, (), ("window_start", "last_seq"), "late")

    def excluded(self, step: Definition) -> TableSpec:
        """One record a row that the step leaves out; one may be found, and stand there, again."""
        names = ("arrival_seq", "generation", "micro_batch")
        texts = {"reason": pa.string(), "published_at": INSTANT}
        schema = pa.schema(dict.fromkeys(names, pa.int64()) | texts)
        return TableSpec(self._of(step, "excluded"), schema, (), names[:1], "excluded")

    def control(self, step: Definition) -> TableSpec:
        """One micro-batch a row: its commit seals the step up to ``through_seq``."""
        return TableSpec(
            self._of(step, "control"),
            pa.schema(
                [
                    *_longs("generation", "micro_batch", "block", "through_seq"),
                    *_longs("watermark_us", "t_max_us", "k_us", "slack_us"),
                    ("controller", pa.string()),
                    ("alpha", pa.float64()),
                    ("margin", pa.float64()),
                    ("threshold", pa.float64()),
                    ("coverage", pa.float64()),
                    ("coverage_least", pa.float64()),
                    *_longs("windows_measured", "windows_below", "records", "size"),
                    ("size_reason", pa.string()),
                    *_longs("class_1", "class_2", "class_3", "late_from_us", "late_to_us"),
                    *_longs("pairs_late", "pairs_answered", "late_total", "answered_total"),
                    *_longs("pairs_open", "answers", "compared", *SHEDS),
                    ("published_at", INSTANT),
                ]
            ),
            name="control",
            form=2,
            optional=("compared", *SHEDS),
        )

    def coverage(self, step: StepSpec) -> TableSpec:
        """One window a row, as of ``through_seq``; the newest row of a window counts."""
        schema = pa.schema(
            [
                ("window_start", INSTANT),
                ("window_end", INSTANT),
                ("slack_us", pa.int64()),
                ("alpha", pa.float64()),
                ("threshold", pa.float64()),
                ("records_timely", pa.int64()),
                ("records_early", pa.int64()),
                ("records", pa.int64()),
                ("coverage_early", pa.float64()),
                ("coverage", pa.float64()),
                ("error_predicted", pa.float64()),
                ("error_observed", pa.float64()),
                *_longs("answers", "records_judged", "answers_beyond", "through_seq"),
                ("recorded_at", INSTANT),
            ]
        )
        uri = self._of(step, "coverage")
        return TableSpec(uri, schema, (), ("window_start", "through_seq"), "coverage")

    def _of(self, step: Definition, table: str) -> str:
        return self.uri(table, step.id, step.fingerprint)

    def checkpoint(self, *parts: str | int) -> str:
        """Spark's checkpoint of a query and number, or the folder of those: a cache, no truth."""
        return self.uri("checkpoints", *map(str, parts))


def _longs(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.int64()) for name in names]
