"""The fake plates of plates_peer.py on PyFlink, whose own Python runs this: LAG over keyed state.

    python plates_flink.py FOLDER ALARMS --pairs FILE [--backend rocksdb | hashmap]

Reads the files of FOLDER in order of their names; writes alarms as Parquet, and prints a line when
the engine is ready, and one when it is done. Sites are compared by a list of pairs in the query:
Flink has no cheaper way to a table of ten thousand pairs.
"""

import argparse
import time
from pathlib import Path

from pyflink.common import Configuration, WatermarkStrategy
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.connectors.hybrid_source import HybridSource
from pyflink.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

SETTINGS = {
    "parallelism.default": "2", "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "2g", "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC", "pipeline.auto-watermark-interval": "50 ms",
    "rest.port": "0", "rest.bind-port": "0", "restart-strategy.type": "none",
    "execution.checkpointing.interval": "5 s", "execution.checkpointing.incremental": "true",
    "execution.checkpointing.storage": "filesystem",
}  # fmt: skip
FILES = 2
"""So many are read at a time, as there are two readers: others wait, or order is lost."""
TYPES = {"ts_ms": DataTypes.BIGINT(), "plate": DataTypes.STRING(), "site": DataTypes.STRING()}


class OfFormat(TypeInformation):
    """The type of rows, which a chain of sources forgets."""

    def __init__(self, form: ParquetColumnarRowInputFormat) -> None:
        self.form = form

    def get_java_type_info(self):
        """As the format has it."""
        return self.form._j_bulk_format.getProducedType()


def form() -> ParquetColumnarRowInputFormat:
    """Of all files."""
    row = DataTypes.ROW([DataTypes.FIELD(name, kind) for name, kind in TYPES.items()])
    return ParquetColumnarRowInputFormat(
        row_type=row, batch_size=2048, is_utc_timestamp=True, is_case_sensitive=True
    )


def source(files: list[str]) -> HybridSource:
    """Files in order."""
    groups = [files[at : at + FILES] for at in range(0, len(files), FILES)]
    each = [FileSource.for_bulk_file_format(form(), *group).build() for group in groups]
    chain = HybridSource.builder(each[0])
    for one in each[1:]:
        chain = chain.add_source(one)
    return chain.build()


def main() -> None:
    """Run until all files are read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("alarms", type=Path)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--backend", default="rocksdb")
    args = parser.parse_args()
    conf, work = Configuration(), args.alarms.absolute()
    own = {"state.backend.type": args.backend, "execution.checkpointing.dir": f"file://{work}-cp"}
    for name, value in (SETTINGS | own).items():
        conf.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    tables = StreamTableEnvironment.create(env)
    print("ready", time.time(), flush=True)
    files = [f"file://{path.absolute()}" for path in sorted(args.folder.glob("*.parquet"))]
    rows = env.from_source(
        source(files), WatermarkStrategy.no_watermarks(), "files", OfFormat(form())
    )
    schema = (
        Schema.new_builder()
        .from_fields([*TYPES], [*TYPES.values()])
        .column_by_expression("et", "TO_TIMESTAMP_LTZ(ts_ms, 3)")
        .watermark("et", "et - INTERVAL '10' SECOND")
    )
    tables.create_temporary_view("seen", tables.from_data_stream(rows, schema.build()))
    tables.execute_sql(
        "CREATE TABLE alarms (plate STRING, here STRING, there STRING)"
        f" WITH ('connector'='filesystem', 'path'='file://{work}', 'format'='parquet')"
    )
    pairs = ", ".join(f"'{pair}'" for pair in args.pairs.read_text().split())
    tables.execute_sql(f"""
        INSERT INTO alarms SELECT plate, here, there FROM (
            SELECT plate, site AS there, LAG(site) OVER w AS here, ts_ms,
                LAG(ts_ms) OVER w AS before_ms
            FROM seen WINDOW w AS (PARTITION BY plate ORDER BY et))
        WHERE here <> there AND ts_ms - before_ms < CASE WHEN here || there IN ({pairs})
            THEN 345600000 ELSE 60000 END
    """).wait()
    print("done", time.time(), flush=True)


if __name__ == "__main__":
    main()
