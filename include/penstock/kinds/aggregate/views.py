"""What readers may ask of an aggregate besides its answers.

Landmark answers as of an instant: the merge of the periods since the landmark, at read time.
"""

from collections.abc import Callable, Mapping

import duckdb
import pyarrow as pa

from penstock.core.measure import Function
from penstock.kinds.aggregate.spec import AggregateSpec, count_name

MERGES = {Function.COUNT: "sum", Function.SUM: "sum", Function.MIN: "min", Function.MAX: "max"}
SHRINK = f"{2.0**-80!r}::DOUBLE"


def views(step: AggregateSpec) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """By ending of their name: what a row says, and how it comes from the answers in force."""
    if not step.window.landmark:
        return {}
    return {"so_far": ("since the landmark", lambda answers: so_far(answers, step))}


def so_far(answers: pa.Table, step: AggregateSpec) -> pa.Table:
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
        whole = pa.types.is_int64(answers.schema.field(measure.name).type)
        if merge is None:  # an average needs the counts it was taken over
            count = f'"{count_name(measure.name)}"'
            mean = f"sum({{}} * {count}) {since} / nullif(sum({count}) {since}, 0)"
            least, most = (f"{end}({name}) {since}" for end in ("min", "max"))
            value = f"greatest({least}, least({most}, {_safely(mean, name)}))"
        elif merge == "sum" and not whole:
            value = _safely(f"sum({{}}) {since}", name)
        else:
            value = f"{merge}({name}) {since}"
        merged.append(f"CAST({value} AS {'BIGINT' if whole else 'DOUBLE'}) AS {name}")
    columns = ["window_end AS as_of", *keys, *merged]
    columns.append(f"CAST(sum(n_records) {since} AS BIGINT) AS n_records")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("answers", answers)
        listed = ", ".join(columns)
        order = ", ".join(["as_of", *keys])
        sql = f"SELECT {listed} FROM answers ORDER BY {order}"  # noqa: S608  own names
        return connection.sql(sql).to_arrow_table()


def _safely(linear: str, name: str) -> str:
    """A sum or average of doubles; of their 2**-80th where plain sums are not finite."""
    plain, shrunk = linear.format(name), linear.format(f"({name} * {SHRINK})")
    grown = f"nullif(({shrunk}) / {SHRINK}, 'nan'::DOUBLE)"  # of both infinities: nothing
    return f"if(coalesce(isfinite({plain}), TRUE), {plain}, {grown})"


def _partition(keys: list[str]) -> str:
    return f"PARTITION BY {', '.join(keys)}" if keys else ""
