"""Places of data: folders of this machine, or URIs. The only way from one to the other.

A folder is a plain path everywhere, as Spark, deltalake and DuckDB want it; a URI of it is made
where a URI is asked for, so that no name of a folder (``a #1 50% [ü]``) is taken for part of one.
"""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

UNSUITED = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]^|\\\x00-\x1f\x7f]")
"""What deltalake 1.6 reads as another folder, or not at all, in the path of a table."""


def is_remote(place: str) -> bool:
    """Whether it is a URI of something else than this machine's files."""
    return "://" in place and urlsplit(place).scheme != "file"


def path_of(place: str) -> Path:
    """The folder or file of a local place: a path, or a URI of it.

    Raises:
        ValueError: it is on no disk of this machine.
    """
    if "://" not in place:
        return Path(place)
    parts = urlsplit(place)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise ValueError(f"{place} is no file of this machine")
    if parts.query or parts.fragment:
        raise ValueError(f"{place}: write ? as %3F and # as %23")
    return Path(unquote(parts.path))


def uri_of(place: str | Path, home: Path = Path()) -> str:
    """The URI of a place.

    Args:
        place: a path, or a URI of any kind.
        home: where a relative path starts.
    """
    text = str(place)
    if is_remote(text):
        return text
    return (home / path_of(text)).absolute().as_uri()


def unsuited(path: Path) -> str:
    """What in a path keeps a Delta table from lying there; empty: nothing."""
    found = UNSUITED.search(str(path))
    return found[0] if found else ""
