"""What wires of kinds that go by keys have in common."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.keyed.layout import KeyedLayout
from penstock.kinds.wire import SHED, Way


def whole(*names: str) -> list[pa.Field]:
    """Fields of whole numbers."""
    return [pa.field(name, pa.int64()) for name in names]


@dataclass(frozen=True)
class KeyedWay(Way):
    """Answers are of a key's records wherever they stand."""

    @cached_property
    def layout(self) -> KeyedLayout:
        """Of the step."""
        return KeyedLayout(self.step)

    @cached_property
    def late(self) -> pa.Schema:
        """Late records by their window (us), each counted as one; of some kinds none ever comes."""
        own = whole("window_start", "n_records", "last_seq")
        return pa.schema([*fields_of(self.inner.keys), *own, SHED])
