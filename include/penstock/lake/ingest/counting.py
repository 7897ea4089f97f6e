"""How many records an item holds, without judging them."""

import csv

from penstock.config.intake import FileFormat, Intake
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.planned import GivenUp
from penstock.lake.ingest.reading import BROKEN, SourceError, SourceFile, told_apart
from penstock.lake.ingest.received import header_of, not_a_header, text_lines


def count(item: Item, intake: Intake) -> int:
    """Records of an item; where it turns out to hold others, whoever relied on this begins again.

    Args:
        item: with its whole path.
        intake: which source columns are meant.
    """
    if isinstance(item, GivenUp):
        return 1
    if item.records >= 0:
        return item.records
    if item.format == FileFormat.PARQUET.value:  # the plan could make nothing of its footer
        return 1
    try:
        with told_apart(item.path), opened(item) as file:
            return _lines(item, file, intake)
    except SourceError:  # who reads it says so
        return 0
    except BROKEN:
        return 1


def _lines(item: Item, file: SourceFile, intake: Intake) -> int:
    first = item.first
    if item.format == FileFormat.CSV.value:
        header, behind = header_of(file)
        names = next(csv.reader([header.decode("utf-8-sig").rstrip("\r")], strict=True), [])
        if not_a_header(names, intake) is not None:
            return 1
        first = max(first, behind)
    return sum(1 for line in text_lines(item, file, first) if line.strip())
