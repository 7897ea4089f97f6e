"""What a table is: where it lies, its columns, and what readers may go by."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from penstock.core.place import uri_of
from penstock.core.step import STREAM

UNDECLARED = "undeclared"
"""Column of ``events`` with what typed sources have beside the declared columns, a struct. It comes
with the first such field, and its fields with the records that have them."""

SHEDS = ("pairs_shed", "shed_total", "shed")
"""Columns of ``control`` that are there once a step has shed."""

INTERNAL = ("epoch", "generation", "micro_batch", "plan")
"""Columns of ``answers`` that only the product needs."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table.

    Attributes:
        uri: where it lies.
        schema: its columns.
        partitioned: the columns its files are divided by.
        indexed: columns that get statistics (only the first 32 would by default).
        name: which of a pipeline's tables, or of a step's.
        form: of what its columns mean: a table of a former form is refused.
        optional: columns that it has only once a row has a value there.
        streams: whose rows readers take; none: all of them.
    """

    uri: str
    schema: pa.Schema
    partitioned: tuple[str, ...] = ()
    indexed: tuple[str, ...] = ()
    name: str = ""
    form: int = 1
    optional: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    @property
    def least(self) -> pa.Schema:
        """Its columns when it is made."""
        return pa.schema([field for field in self.schema if field.name not in self.optional])

    @property
    def mine(self) -> pc.Expression | None:
        """True for rows that readers take; none: for all."""
        if not self.streams:
            return None
        return pc.field(STREAM).isin(pa.array(self.streams, pa.string()))


def opened(place: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a place, a path or a URI, and the place's path in it."""
    filesystem, root = pa.fs.FileSystem.from_uri(uri_of(place))
    return filesystem, root


def logs_in(lake: str) -> list[str]:
    """Names of the logs in a lake: its folders, but for those of no pipeline."""
    return sorted(name for name in folders_in(lake) if name[0].isalpha())


def folders_in(place: str) -> set[str]:
    """Names of the folders in a place; none, if it is not there."""
    filesystem, root = opened(place)
    found = filesystem.get_file_info(pa.fs.FileSelector(root, allow_not_found=True))
    return {each.base_name for each in found if each.type is pa.fs.FileType.Directory}
