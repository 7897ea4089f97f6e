"""What was probably meant by a value that the model refuses."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from penstock.core.measure import ColumnType

_TYPES: dict[ColumnType, str] = {
    ColumnType.LONG: "int integer bigint smallint short int8 int16 int32 int64 uint32",
    ColumnType.DOUBLE: "float real decimal numeric number float32 float64",
    ColumnType.STRING: "str text varchar char utf8 object uuid",
    ColumnType.BOOLEAN: "bool bit",
    ColumnType.TIMESTAMP: "datetime date time timestamptz instant",
}
_TYPE_OF = {name: kind.value for kind, names in _TYPES.items() for name in names.split()}
_PART = r"(\d+(?:\.\d+)?)\s*"
_DURATION = re.compile(
    rf"(?:{_PART}w(?:eeks?)?)?\s*(?:{_PART}d(?:ays?)?)?\s*(?:{_PART}h(?:(?:ou)?rs?)?)?\s*"
    rf"(?:{_PART}m(?:in(?:ute)?s?)?)?\s*(?:{_PART}s(?:ec(?:ond)?s?)?)?",
    re.IGNORECASE,
)


def of_value(kind: str, given: Any, said: str) -> tuple[str, str] | None:
    """Problem and remedy; None where pydantic's own words will do.

    Args:
        kind: pydantic's name of the error.
        given: the value.
        said: pydantic's words.
    """
    if kind in {"time_delta_parsing", "time_delta_type"}:
        return of_duration(given)
    if kind.startswith("datetime_") or kind == "timezone_aware":
        return f"'{given}' is not an instant with a zone", "Write it as in 2013-10-01T00:00:00Z"
    if kind == "enum":
        return said, of_choice(given, re.findall(r"'([^']*)'", said))
    if kind in {"model_type", "dict_type"}:
        return "should be keys with values, one a line", ""
    if kind == "tuple_type":
        return "should be a list", f"Write it as in [{given}]" if isinstance(given, str) else ""
    return None


def of_duration(given: Any) -> tuple[str, str]:
    """Problem and remedy of a span of time: ``15m`` is PT15M."""
    text = str(given).strip()
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return f"'{given}' is not a duration", "Write it as in PT15M, PT1H30M or P7D"
    weeks, days, hours, minutes, seconds = found.groups()
    date = "".join(f"{n}{unit}" for n, unit in ((weeks, "W"), (days, "D")) if n)
    clock = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    rest = "".join(f"{n}{unit}" for n, unit in clock if n)
    return f"'{given}' is not a duration", f"Write P{date}{'T' if rest else ''}{rest}"


def of_choice(given: Any, choices: Iterable[str]) -> str:
    """The choice that was probably meant, as a question; empty: none is near."""
    known, word = list(choices), str(given).strip().lower()
    # The first word: varchar(20), timestamp with time zone.
    first = re.split(r"\W", word)[0]
    meant = _TYPE_OF.get(first) if set(known) == set(ColumnType) else None
    near = [meant] if meant else difflib.get_close_matches(word, known, 1, 0.5)
    return f"Did you mean {near[0]}?" if near else ""
