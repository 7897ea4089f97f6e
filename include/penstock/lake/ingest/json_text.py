"""The values of a line of JSON as they are written, and names that stand in it twice."""

import json
import re
from collections.abc import Collection, Sequence

import msgspec

Texts = dict[str, msgspec.Raw]
"""The values of a JSON object as they are written."""
STRICT = msgspec.json.Decoder(Texts)
"""Takes what Python's own reader takes, or refuses; does not look whether strings are UTF-8."""
BLANK = re.compile(r"[ \t\n\r]*")


def texts(line: bytes) -> Texts | None:
    """The values of a line by name, of a repeated one the last; none: it is no JSON object.

    Raises:
        ValueError, RecursionError: it is not JSON.
    """
    try:
        if not line.isascii():
            line.decode()
        return STRICT.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _lenient(line)


def _lenient(line: bytes) -> Texts | None:
    """What only Python's own reader takes, as NaN; it also says best what is wrong."""
    text = line.decode("utf-8-sig")
    value = json.loads(text)
    if b"\\ud" in line.lower():  # half of a surrogate pair is JSON, but no table can hold it
        json.dumps(value, ensure_ascii=False).encode()
    return spans(text) if isinstance(value, dict) else None


def spans(text: str) -> Texts:
    """The values of a valid JSON object, cut out of its text."""
    decoder, found = json.JSONDecoder(), Texts()
    at = _blank(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = json.decoder.scanstring(text, at + 1)
        at = _blank(text, text.index(":", at) + 1)
        _, end = decoder.raw_decode(text, at)
        found[name] = msgspec.Raw(text[at:end].encode())
        at = _blank(text, end)
        at = _blank(text, at + 1) if text[at] == "," else at
    return found


def _blank(text: str, at: int) -> int:
    """The next place that is not blank."""
    return BLANK.match(text, at).end()  # type: ignore[union-attr]  it matches nothing, too


def repeated(
    lines: Sequence[bytes], records: Sequence[Texts], names: Collection[str]
) -> dict[int, str]:
    """Objects in which a name stands twice: which value is meant, nobody can tell.

    To ask every line for all its names takes as long as reading it. So only those are asked in
    which something is escaped, or a name stands in quotes more than once.

    Args:
        lines: the objects' texts.
        records: their values; of what is no object none.
        names: those that matter.

    Returns:
        What is wrong, by row.
    """
    whole, found = b"\n".join(lines), {}
    quoted = {name: f'"{name}"'.encode() for name in names}
    often = [q for n, q in quoted.items() if whole.count(q) > sum(n in r for r in records)]
    if not often and b"\\" not in whole:
        return {}
    for row, line in enumerate(lines):
        if records[row] and (b"\\" in line or any(line.count(q) > 1 for q in often)):
            twice = _twice(line, names)
            if twice is not None:
                found[row] = f"the name {twice!r} stands twice in it"
    return found


def _twice(line: bytes, names: Collection[str]) -> str | None:
    try:
        found = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_keys, parse_int=str)
    except RecursionError:  # too deep for this reader only
        return None
    return next((n for n in found if n in names and found.count(n) > 1), None)


def _keys(pairs: list[tuple[str, object]]) -> list[str]:
    return [name for name, _ in pairs]
