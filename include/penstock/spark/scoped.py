"""What an audit covers, as conditions on Spark's columns."""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.columns.watermark import Mark
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.proof.scope import Scope

CELL = 64
"""Fewer positions are not worth a row that is sent to every task."""


def cells(scope: Scope, last: int) -> tuple[str, list[tuple[int, int, int, int]]]:
    """Which watermark is in force for each position, for a join.

    Each watermark holds for a run of positions. Spark joins by equality: so runs and positions are
    cut into cells of as many positions as a run has on average, in each stretch apart.

    Args:
        scope: what is covered.
        last: the last position.

    Returns:
        SQL for the cell of ``arrival_seq``; cell, first and last position, and watermark of each
        piece of a run.
    """
    return cells_of(scope.marks, scope.cuts, last)


def cells_of(
    marks: Sequence[Mark], cuts: Sequence[int], last: int
) -> tuple[str, list[tuple[int, int, int, int]]]:
    """As ``cells``, of any numbers that each hold from a position on.

    Args:
        marks: positions and numbers, in order.
        cuts: positions at which changes become dense, or rare.
        last: the last position.
    """
    ends = [*(min(seq - 1, last) for seq, _ in marks[1:]), last]
    runs = [(max(seq, 0), end, mark) for (seq, mark), end in zip(marks, ends, strict=True)]
    rows, cases, before = [], ["NULL END"], 0
    for low, high in pairwise((*cuts, last + 1)):
        mine = [run for run in runs if low <= run[0] < high and run[0] <= run[1]]
        if not mine:
            continue
        cell = max((high - low) // len(mine), CELL)
        rows += [
            (before + n, max(first, low + n * cell), min(end, low + (n + 1) * cell - 1), mark)
            for first, end, mark in mine
            for n in range((first - low) // cell, (end - low) // cell + 1)
        ]
        number = f"{before} + (arrival_seq - {low}) DIV {cell}"
        cases.append(f"WHEN arrival_seq >= {low} THEN {number} ELSE")
        before += (high - low) // cell + 1
    return " ".join(["CASE", *reversed(cases)]).replace("ELSE WHEN", "WHEN"), rows


def inside(column: str, scope: Scope, more: int = 0) -> Column:
    """Whether an instant lies in a run of the scope's window starts.

    Args:
        column: of instants.
        scope: what is covered.
        more: what is added to the end of each run, us.
    """

    def within(first: int, last: int) -> Column:
        found = F.lit(True)
        if first > BEGINNING:
            found &= F.col(column) >= F.timestamp_micros(F.lit(first))
        if last < FOREVER:
            found &= F.col(column) <= F.timestamp_micros(F.lit(last + more))
        return found

    if scope.whole:
        return within(scope.lowest, FOREVER)
    return reduce(lambda a, b: a | b, (within(first, last) for first, last in scope.starts))


def changed(end: Column, scope: Scope) -> Column:
    """Whether a window had closed at the footing, outside the stretch of older ground.

    Args:
        end: of the window, us.
        scope: what is covered.
    """
    if scope.whole:
        return F.lit(False)
    first, last = scope.old
    return (end <= F.lit(scope.closed)) & ~((end > F.lit(first)) & (end <= F.lit(last)))
