"""What a sample of answers leaves possible: the greatest rate of violations it may hide."""

from penstock.core.coverage import binomial_at_most, bisected

CONFIDENCE = 0.95


def upper_limit(off: int, of: int) -> float:
    """The greatest rate at which so few of so many would be off with 5 % chance or more.

    One-sided, 95 % confidence; 1 where nothing was counted. Source: Clopper and Pearson 1934.
    """
    if off == of:
        return 1.0
    return bisected(lambda p: binomial_at_most(off, of, p) > 1 - CONFIDENCE, 1.0)[1]
