"""The worth of a slack in words: the same for all that shows it."""

from collections.abc import Iterable, Mapping

from penstock.control.spoken import spoken
from penstock.core.limit import CONFIDENCE
from penstock.core.window import BEGINNING, FOREVER, instant
from penstock.lake.proof.worth import Rate, Spread, Worth

UNKNOWN, NOTHING = "not known yet", "-"
HEADER = ["answers of", "slack", "K, mean", "wait (95 %)", "arrival to answer (95 %)", "target",
          "expected", "observed", "at most, 95 %", ""]  # fmt: skip


def worth_table(worths: Mapping[str, Worth]) -> list[list[str]]:
    """For an audit's page, its header first: a row for each target, or for a step without one."""
    found = [HEADER]
    for step, one in worths.items():
        if not one.windows and not any(rate.of for rate in one.rates):
            continue
        slack = NOTHING if one.slack is None else spoken(round(one.slack))
        wait = NOTHING if one.wait is None else _spans(one.wait)
        costs = [str(one.policy), slack, wait, _processing(one)]
        found += [[rate.name, *costs, *_brought(rate, one)] for rate in one.rates]
        if not one.rates:
            found.append([step, *costs, *[""] * 5])
    return found if len(found) > 1 else []


def _brought(rate: Rate, worth: Worth) -> list[str]:
    target = f"at most {rate.target.delta:.3g} off by {rate.target.epsilon:.3g}"
    seen = f"{rate.off:,} of {rate.of:,} {worth.counts}: {rate.share:.2%}" if rate.of else UNKNOWN
    upper = f"{rate.upper:.2%}" if rate.of else UNKNOWN
    said = target if worth.targeted else NOTHING
    return [said, expected(rate, worth), seen, upper, verdict(rate, worth)]


def cost(worth: Worth) -> str:
    """K, and the wait it comes to."""
    if worth.slack is None:
        return f"slack {worth.policy}, K {UNKNOWN}"
    said = f"slack {worth.policy}, K {spoken(round(worth.slack))} on average"
    if worth.wait is None:
        return said
    said += f"; the wait, in event time from a window's end to its answer, is {_spans(worth.wait)}"
    if worth.added:
        said += f", {spoken(round(worth.added))} of it added by blocks and micro-batches"
    if worth.processing is not None:
        said += f"; from the records' arrival to the answer it took {_processing(worth)}"
    return said


def _processing(worth: Worth) -> str:
    if worth.processing is None:
        return NOTHING
    return _spans(Spread(worth.processing.half * 1e6, worth.processing.most * 1e6))


def _spans(spread: Spread) -> str:
    return f"{spoken(round(spread.half))} (95 %: {spoken(round(spread.most))})"


def expected(rate: Rate, worth: Worth) -> str:
    """A rate, and what it is."""
    if rate.expected is None:
        return UNKNOWN if worth.steered else NOTHING
    if worth.bounded:
        return f"at most {rate.expected:.2%} in the long run"
    return f"{rate.expected:.2%}, by final coverage"


def foretold(worth: Worth) -> str:
    """Of a sample: K, the wait and the rate to be expected, in a sentence."""
    if not worth.windows or worth.slack is None or worth.wait is None:
        return "The sample is too short to say how long a window waits for its answer"
    said = (
        f"In the sample K is {spoken(round(worth.slack))} on average, and the wait, in event time"
        f" from a window's end to its answer, {_spans(worth.wait)}; blocks and micro-batches add to"
        " it"
    )
    for rate in worth.rates:
        if rate.expected is None:
            return f"{said}. Expected rate of windows that hold too little: {UNKNOWN}"
        said += (
            f". Expected rate of windows that hold too little to be less than"
            f" {rate.target.epsilon:.3g} off: {rate.expected:.2%} ({rate.off:,} of {rate.of:,}),"
            f" with {CONFIDENCE:.0%} confidence at most {rate.upper:.2%}"
        )
        if worth.targeted:
            said += f"; the target allows {rate.target.delta:.2%}"
    return said


def present(worth: Worth) -> str:
    """Which windows are judged."""
    if worth.since >= FOREVER:
        return "under the present policy"
    if worth.since <= BEGINNING:
        return "since the beginning"
    return f"under the present policy, of windows that end after {instant(worth.since):%F %T} UTC"


def verdict(rate: Rate, worth: Worth) -> str:
    """Whether a target was kept, in a word or two."""
    if not worth.targeted:
        return "no target"
    if not worth.known or not rate.says_something:
        return UNKNOWN
    return "kept" if rate.kept else "missed"


def in_short(worth: Worth) -> str:
    """For a picture: K, wait and rates in a line."""
    parts = []
    if worth.slack is not None:
        parts.append(f"K {spoken(round(worth.slack))}")
    if worth.wait is not None:
        parts.append(f"wait {spoken(round(worth.wait.half))}")
    return "; ".join([", ".join(parts), *_in_short(worth.rates, worth)])


def _in_short(rates: Iterable[Rate], worth: Worth) -> Iterable[str]:
    for rate in rates:
        name = f"{rate.name.partition(': ')[2]}: " if ": " in rate.name else ""
        least = "at most " if worth.bounded else ""
        due = UNKNOWN if rate.expected is None else f"{least}{rate.expected:.1%}"
        due = f"expected {due}, " if worth.steered else ""
        seen = f"{rate.share:.1%}, at most {rate.upper:.1%}" if rate.of else UNKNOWN
        yield f"{name}off: {due}observed {seen}"
