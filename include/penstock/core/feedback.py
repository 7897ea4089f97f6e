"""How much more coverage than the formulas say final answers ask for: the outer loop of a target.

The formulas for a coverage threshold assume that a record's value says nothing of its lateness,
and no more than they do is known before answers are final. Then it is: of each window which share
of the answers that the target binds was off by epsilon. The room above the formulas' threshold is
moved by it as the controller's margin is by windows that held too little, so that in the long run
three quarters of delta are off at most, whatever values and lateness have to do with each other;
where the controller keeps half of delta by itself, the room goes back to nothing. Source: Gibbs and
Candes 2021, proposition 4.1; Angelopoulos, Candes and Tibshirani 2023 for delayed feedback. [D]
"""

from collections.abc import Iterable

ALLOWED = 0.75
"""Of delta: more than the half at which the controller settles, and some way from all of it."""
ROOM_STEP = 0.02
"""How far one window all of whose answers were off moves the room."""
MOST = 2.0
"""What comes late may ask for more than all of the room: it then stays used up for longer."""


def room(shares: Iterable[float], delta: float) -> float:
    """The part of the room above the formulas' threshold that is to be used, in [0, 1].

    Args:
        shares: of each final window, in order, the answers that were off by epsilon, of all.
        delta: share of answers that may be off.
    """
    found = 0.0
    for share in shares:
        found = min(max(found + ROOM_STEP * (share - ALLOWED * delta), 0.0), MOST)
    return min(found, 1.0)
