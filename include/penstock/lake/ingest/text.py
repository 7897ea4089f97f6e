"""Text as every cast sees it: trimmed, nothing where it is empty, of a known form or nothing."""

import pyarrow as pa
import pyarrow.compute as pc

WIDE = 128
"""Bits of the decimals that Arrow computes with."""


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """In one piece, and without a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def with_kernels(kind: pa.DataType) -> pa.DataType:
    """The type of the same values that Arrow computes with: not all of its newer ones are."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
    if pa.types.is_decimal(kind) and kind.bit_width < WIDE:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_kernels(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(with_kernels(kind.key_type), with_kernels(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_kernels(kind.value_type)))
    return kind


def is_text(array: pa.Array) -> bool:
    """Whether values are text."""
    return pa.types.is_string(array.type) or pa.types.is_large_string(array.type)


def trimmed(array: pa.Array) -> pa.Array:
    """Without blanks around it; null if nothing is left."""
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    return pc.if_else(pc.equal(text, ""), None, text)


def matching(text: pa.Array, pattern: str) -> pa.Array:
    """What has a form; null for the rest."""
    matches = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    return pc.if_else(matches, text, None)
