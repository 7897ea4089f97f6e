"""A quantile of values of which some are only known to be greater than something.

Source: Kaplan and Meier 1958, the product-limit estimator.
"""

from collections.abc import Sequence

ROUNDING = 1e-12


def quantile(values: Sequence[int], censored: Sequence[int], level: float) -> int | None:
    """The least value that is not exceeded with probability ``level``.

    Args:
        values: that are known.
        censored: each stands for a value that is greater.
        level: in (0, 1].

    Returns:
        None: too much is censored to say.
    """
    known, unknown = sorted(values), sorted(censored)
    at_risk, survives, gone = len(known) + len(unknown), 1.0, 0
    i = 0
    while i < len(known):
        value, first = known[i], i
        while i < len(known) and known[i] == value:
            i += 1
        while gone < len(unknown) and unknown[gone] < value:
            gone += 1
        survives *= 1 - (i - first) / (at_risk - first - gone)
        if survives <= 1 - level + ROUNDING:
            return value
    return None
