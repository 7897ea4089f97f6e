"""The one line of a failure that a person needs, out of Spark's pages around it."""

import re
from collections.abc import Iterator

TRACEBACK = "Traceback (most recent call last):"
NAMELESS = re.compile(r"[\w.$]+(Exception|Error)")
"""The class of an exception that says nothing."""
CALL = "py4j.protocol.Py4JJavaError: "
"""Before the name of a call that failed in the JVM; why stands below."""
BELOW = re.compile(r"(?:Caused by)?: (.+)")
MOST = 400
"""Characters of a line for a table."""


def cause_of(failed: BaseException) -> str:
    """What went wrong in the end: the innermost cause that says something, in one line."""
    said = [line for each in _causes(failed) if (line := _line(_text(each)))]
    return (said[-1] if said else type(failed).__name__)[:MOST]


def _causes(failed: BaseException | None) -> Iterator[BaseException]:
    while failed is not None:
        yield failed
        failed = failed.__cause__ or getattr(failed, "_cause", None)


def _text(failed: BaseException) -> str:
    """Without the stack of the JVM, which names no cause."""
    told = getattr(failed, "_desc", None)
    return str(failed) if told is None else str(told)


def _line(text: str) -> str:
    """Of a Python worker's traceback the exception, of any other text the first line."""
    _, found, after = text.rpartition(TRACEBACK)
    lines = [line.rstrip() for line in (after if found else text).splitlines() if line.strip()]
    if found:
        lines = [line for line in lines if not line.startswith((" ", "\t"))]
    if lines and lines[0].startswith(CALL):
        lines = [said[1] for line in lines if (said := BELOW.fullmatch(line))][-1:] or lines
    return lines[0] if lines and not NAMELESS.fullmatch(lines[0]) else ""
