"""Landmark answers as of an instant: the merge of the periods since the landmark, at read time."""

import duckdb
import pyarrow as pa

from penstock.core.measure import Function
from penstock.core.step import StepSpec, count_name

MERGES = {Function.COUNT: "sum", Function.SUM: "sum", Function.MIN: "min", Function.MAX: "max"}


def so_far(answers: pa.Table, step: StepSpec) -> pa.Table:
    """For every period and key that has records: the answer since the landmark.

    Args:
        answers: the answers in force of a landmark step, one row a period and key.
        step: the step.

    Returns:
        ``as_of`` (end of the period), the keys, the measures and ``n_records`` since the
        landmark; ordered by ``as_of``. A key's answer as of t is its last row with as_of <= t.
    """
    keys = [f'"{name}"' for name in step.key_names]
    since = f"OVER ({_partition(keys)} ORDER BY window_start)"
    merged = []
    for measure in step.measures:
        name, merge = f'"{measure.name}"', MERGES.get(measure.function)
        if merge is None:  # an average needs the counts it was taken over
            count = f'"{count_name(measure.name)}"'
            value = f"sum({name} * {count}) {since} / nullif(sum({count}) {since}, 0)"
        else:
            value = f"{merge}({name}) {since}"
        kind = "BIGINT" if pa.types.is_int64(answers.schema.field(measure.name).type) else "DOUBLE"
        merged.append(f"CAST({value} AS {kind}) AS {name}")
    columns = ["window_end AS as_of", *keys, *merged]
    columns.append(f"CAST(sum(n_records) {since} AS BIGINT) AS n_records")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("answers", answers)
        listed = ", ".join(columns)
        order = ", ".join(["as_of", *keys])
        sql = f"SELECT {listed} FROM answers ORDER BY {order}"  # noqa: S608  own names
        return connection.sql(sql).to_arrow_table()


def _partition(keys: list[str]) -> str:
    return f"PARTITION BY {', '.join(keys)}" if keys else ""
