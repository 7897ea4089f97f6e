"""Places in a text: the end that it was planned with, and the ends of its lines.

Who appends to a text leaves alone what was its end; who writes it anew hardly comes upon the same
bytes at the same place.
"""

from hashlib import blake2b

from penstock.lake.ingest.reading import SourceFile

ENDING_BYTES = 4 << 10
SAMPLES = 10


def ending(file: SourceFile, size: int) -> str:
    """Digest of the last bytes before a size.

    Args:
        file: a text; it stays where it is read.
        size: where it ends, or ended, bytes.
    """
    at = file.tell()
    file.seek(max(0, size - ENDING_BYTES))
    found = blake2b(file.read(min(size, ENDING_BYTES)), digest_size=8).hexdigest()
    file.seek(at)
    return found


def ending_of(place: str, size: int) -> str:
    """The same of a file by its place.

    Raises:
        SourceError: it cannot be read now.
    """
    with SourceFile(place) as file:
        return ending(file, size)


def sample(file: SourceFile, size: int) -> str:
    """Digest of bytes from all over a file that is not written on: what ends it says little of it.

    Args:
        file: it stays where it is read.
        size: of it, bytes.
    """
    at, found = file.tell(), blake2b(digest_size=8)
    for part in range(SAMPLES):
        file.seek(max(0, size - ENDING_BYTES) * part // (SAMPLES - 1))
        found.update(file.read(min(size, ENDING_BYTES)))
    file.seek(at)
    return found.hexdigest()


def sample_of(place: str, size: int) -> str:
    """The same of a file by its place.

    Raises:
        SourceError: it cannot be read now.
    """
    with SourceFile(place) as file:
        return sample(file, size)


def has_record(place: str, size: int, line: int) -> bool:
    """Whether there is something of a line, numbered from 1, before a size.

    Raises:
        SourceError: it cannot be read now.
    """
    with SourceFile(place) as file:
        at = 0
        for _ in range(line - 1):
            at = line_end(file, at)
    return at < size


def line_end(file: SourceFile, at: int) -> int:
    """The place after the line that goes on at a place; of the last one the end."""
    file.seek(at)
    while chunk := file.read(1 << 20):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + int(found) + 1
        at += len(chunk)
    return at
