"""A log file that never grows without bound. Standard library only."""

import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

FILE_BYTES = 10 * 1024 * 1024
FILES = 5


class RollingFile:
    """Appends lines; starts a new file at ``file_bytes``, keeping ``files`` (x.log, x.log.1 ...).

    Args:
        path: the newest file.
        file_bytes: size at which a new file is started.
        files: how many are kept in all.
    """

    def __init__(self, path: Path, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        self._path, self._file_bytes, self._files = path, file_bytes, files
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self.tail: deque[str] = deque(maxlen=40)

    def write(self, line: bytes) -> None:
        """Append one line; a full disk loses the line, never the process that writes."""
        with self._lock:
            self.tail.append(line.decode(errors="replace").rstrip())
            try:
                file = self._file or self._open()
                if file.tell() >= self._file_bytes:
                    self._roll(file)
                    file = self._open()
                file.write(line)
                file.flush()
            except OSError:
                self._file = None

    def _open(self) -> BinaryIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab")
        return self._file

    def _roll(self, file: BinaryIO) -> None:
        file.close()
        self._file = None
        for n in range(self._files - 2, -1, -1):
            older = self._path.with_name(f"{self._path.name}.{n}") if n else self._path
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{n + 1}"))
