"""Log files that never outgrow the disk."""

import os
import threading
from pathlib import Path

MAX_BYTES = 5_000_000
BACKUPS = 3
_LINE_BYTES = 65_536


class RotatingLog:
    """One log file, fed by pipes: ``name.log``, older parts in ``name.log.1`` to ``.3``."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, backups: int = BACKUPS) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._size = path.stat().st_size if path.exists() else 0

    def write(self, line: bytes) -> None:
        """Append; a file that is full is set aside first."""
        with self._lock:
            if self._size + len(line) > self._max_bytes and self._size:
                self._rotate()
            with self.path.open("ab") as file:
                file.write(line)
            self._size += len(line)

    def pipe(self) -> int:
        """The writing end of a new pipe into this file; the caller closes it after the fork.

        A thread copies until the last writer has closed its end.
        """
        reading, writing = os.pipe()
        threading.Thread(target=self._copy, args=(reading,), daemon=True).start()
        return writing

    def tail(self, lines: int) -> str:
        """The last lines."""
        return tail(self.path, lines)

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as source:
            while line := source.readline(_LINE_BYTES):
                try:
                    self.write(line)
                except OSError:  # a full disk: keep reading, or the writer would stand still
                    continue

    def _rotate(self) -> None:
        for number in range(self._backups, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self.path
            if newer.exists():
                newer.replace(older)
        self._size = 0

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def tail(path: Path, lines: int) -> str:
    """The last lines of a text file; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LINE_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def prune(folder: Path, *, before: float) -> int:
    """Remove files last written before an instant (seconds since the epoch), then empty folders.

    Returns:
        How many files were removed.
    """
    removed = 0
    for path in sorted(folder.rglob("*"), reverse=True):  # a folder comes after what is in it
        try:
            if path.is_dir() and not path.is_symlink():
                if path.stat().st_mtime < before:
                    path.rmdir()
            elif path.lstat().st_mtime < before:
                path.unlink()
                removed += 1
        except OSError:  # not empty, or gone meanwhile
            continue
    return removed
