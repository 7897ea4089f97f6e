"""Names for numpy arrays of one dimension; columns without dictionaries."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def decoded(table: pa.Table) -> pa.Table:
    """Without dictionaries."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = pc.cast(table.column(at), field.type.value_type)
            table = table.set_column(at, field.name, column)
    return table
