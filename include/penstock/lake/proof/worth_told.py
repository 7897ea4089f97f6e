"""The worth of a slack in words: the same for all that shows it."""

from collections.abc import Iterable, Mapping

from penstock.control.spoken import spoken
from penstock.core.limit import CONFIDENCE
from penstock.core.window import BEGINNING, FOREVER, instant
from penstock.lake.proof.worth import Rate, Spread, Worth

UNKNOWN = "not known yet"


def worth_notes(worths: Mapping[str, Worth]) -> list[str]:
    """For an audit's page: of each step with something to say what it costs and brings."""
    found = []
    for step, one in worths.items():
        if one.windows:
            found.append(f"{step}: {cost(one)}.")
        found += [f"{rate.name}: {brought(rate, one)}." for rate in one.rates if one.targeted]
    return found


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
        spread = Spread(worth.processing.half * 1e6, worth.processing.most * 1e6)
        said += f"; from the records' arrival to the answer it took {_spans(spread)}"
    return said


def _spans(spread: Spread) -> str:
    return f"{spoken(round(spread.half))} (95 %: {spoken(round(spread.most))})"


def brought(rate: Rate, worth: Worth) -> str:
    """What the target allows, what is to be expected, what was observed."""
    target, what = rate.target, worth.counts
    said = f"{what} off by {target.epsilon:.3g} or more"
    if worth.targeted:
        said += f", of which the target allows {target.delta:.2%}"
    return f"{said}; expected: {expected(rate, worth)}; observed: {observed(rate, worth)}"


def expected(rate: Rate, worth: Worth) -> str:
    """A rate, and what it is."""
    if rate.expected is None:
        return UNKNOWN
    if worth.bounded:
        return f"at most {rate.expected:.2%} in the long run"
    return f"{rate.expected:.2%}, by final coverage"


def observed(rate: Rate, worth: Worth) -> str:
    """A rate, of how many, since when, and its upper limit."""
    if not rate.of:
        return f"{UNKNOWN}, as none is judged {present(worth)}"
    return (
        f"{rate.off:,} of {rate.of:,} {present(worth)} ({rate.share:.2%}), with {CONFIDENCE:.0%}"
        f" confidence at most {rate.upper:.2%}"
    )


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
        seen = f"{rate.share:.1%}, at most {rate.upper:.1%}" if rate.of else UNKNOWN
        yield f"{name}off expected {due}, observed {seen}"
