"""Columns without dictionaries: the same values, plainly."""

import pyarrow as pa

from penstock.columns.arrays import decoded


def test_dictionaries_become_plain_values_and_the_rest_stays() -> None:
    texts = pa.chunked_array([pa.array(["a", None, "a"]), pa.array(["b"])])
    table = pa.table({"n": [1, 2, 3, 4], "text": texts.dictionary_encode(), "x": [0.5] * 4})
    assert pa.types.is_dictionary(table["text"].type)
    plain = decoded(table)
    assert plain == table.set_column(1, "text", texts)
    assert plain["text"].type == pa.string()
    assert decoded(plain) == plain
