"""What can be wrong with a compared answer, as conditions on Spark's columns."""

from pyspark.sql import Column
from pyspark.sql import functions as F

WRONG, MISSING, EXTRA, DOUBLED = "wrong answer", "missing answer", "extra answer", "doubled answer"
FORGED, TIMELY = "forged answer", "miscounted timely answer"
LATE_ROWS, UNANSWERED = "miscounted late rows", "late records without answer"
EXCLUSION = "exclusion unlike the code"
KINDS = {
    WRONG: "wrong_answers",
    MISSING: "missing_answers",
    EXTRA: "extra_answers",
    DOUBLED: "doubled_answers",
    FORGED: "forged_answers",
    TIMELY: "timely_miscounted",
    LATE_ROWS: "late_miscounted",
    UNANSWERED: "late_without_answer",
    EXCLUSION: "exclusions_wrong",
}


def of_the_last(histories: str) -> Column:
    """Records in what the last of some histories answered, doubled answers twice; none: null."""
    last = f"filter(`{histories}`, h -> h.through_seq = array_max(`{histories}`.through_seq))"
    total = f"aggregate({last}.n_records, 0L, (sum, n) -> sum + n)"
    return F.expr(f"IF(size(`{histories}`) = 0, NULL, {total})")


def counts_up(revisions: Column) -> Column:
    """Whether revisions are 0, 1, 2, ... or, without a timely answer, 1, 2, ..."""
    least, most = F.array_min(revisions), F.array_max(revisions)
    return (least >= 0) & (least <= 1) & (most - least + 1 == F.size(revisions))


def shared(rows: str) -> Column:
    """Whether two corrections share a revision although one was done before the other began.

    Two that ran at the same moment may: each counts the answers that it found.
    """
    shares = "a.revision = b.revision AND b.planned > a.done"
    return F.expr(f"exists(`{rows}`, a -> exists(`{rows}`, b -> {shares}))")


def faults() -> Column:
    """What is wrong with a compared row; empty: nothing."""
    settled = F.col("closed$") & ~F.col("pending$")
    found = F.coalesce("found$", F.lit(False))
    extra = found & (F.col("n_records").isNull() | ~F.col("closed$"))
    reached = F.col("reached$") & ~F.col("pending$") & ~found
    conditions = {
        EXTRA: extra,
        MISSING: settled & ~found & F.col("n_records").isNotNull(),
        WRONG: settled & found & ~extra & ~F.col("same$"),
        DOUBLED: F.col("doubled$"),
        FORGED: F.col("forged$"),
        TIMELY: F.col("timely_wrong$"),
        LATE_ROWS: F.col("late_wrong$"),
        UNANSWERED: reached,
        EXCLUSION: F.col("exclusion_wrong$"),
    }
    return F.array_compact(F.array(*(F.when(c, F.lit(k)) for k, c in conditions.items())))
