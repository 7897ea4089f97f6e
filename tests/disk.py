"""What of a folder survives when the power is lost, by what was synced.

``Disk`` stands for the kernel's view: a file lasts as it was when it was synced, a name as its
folder was when that was synced. A loss keeps, drops or cuts short anything else, by seed.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.doubles import Killed


@dataclass
class Disk:
    """What of a folder would survive, by the syncs so far."""

    root: Path
    names: dict[Path, set[str]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    syncs: int = 0
    needed: int = 0
    dies_at: int = -1

    def sync(self, path: Path) -> None:
        """As ``durable`` does; or the power goes before it, of those that are ``needed``."""
        self.syncs += 1
        if not path.exists():
            return
        self.needed += not self._lasts(path)
        if self.needed == self.dies_at:
            raise Killed
        if path.is_dir():
            self.names[path] = {p.name for p in path.iterdir()}
        else:
            self.sizes[path.stat().st_ino] = path.stat().st_size

    def settled(self) -> None:
        """All that is there lasts."""
        for path in (self.root, *self.root.rglob("*")):
            self.sync(path)

    def fragile(self) -> list[Path]:
        """What would not survive for sure, apart from Spark's checkpoints; folders first."""
        found = []
        for path in sorted(self.root.rglob("*")):
            if "checkpoints" in path.parts:
                continue
            if not (self._is_named(path) and (path.is_dir() or self._lasts(path))):
                found.append(path)
        return found

    def _is_named(self, path: Path) -> bool:
        return path.name in self.names.get(path.parent, set())

    def _lasts(self, path: Path) -> bool:
        """Whether a file's content, or a folder's names, were synced."""
        if path.is_dir():
            return self.names.get(path) == {p.name for p in path.iterdir()}
        return self.sizes.get(path.stat().st_ino) == path.stat().st_size

    def replay(self, syncs: Path) -> None:
        """What a process synced, as it noted (``penstock.core.crash``)."""
        for text in syncs.read_text().splitlines(keepends=True) if syncs.exists() else []:
            if not text.endswith("\n"):  # it was killed meanwhile
                return
            line = json.loads(text)
            if line["names"] is None:
                self.sizes[line["inode"]] = line["size"]
            else:
                self.names[Path(line["path"])] = set(line["names"])

    def lose(self, draw: random.Random) -> int:
        """Lose some of what would not survive for sure; returns how much. The rest lasts.

        At least one file, if there is one that can be lost.
        """
        lost, files = 0, [path for path in self.fragile() if path.is_file()]
        while files and not lost:  # a draw may spare them all
            lost = sum([self._loses(path, draw) for path in files])
        self.settled()
        return lost

    def _loses(self, path: Path, draw: random.Random) -> bool:
        """Lose a file or not: its name, or what is in it, as far as that was not synced."""
        what = draw.choice(["keep", "drop", "cut", "empty"])
        if what == "drop" and not self._is_named(path):
            path.unlink()
        elif what != "keep" and not self._lasts(path):
            content = path.read_bytes()
            path.write_bytes(
                content[: draw.randrange(max(1, len(content))) if what == "cut" else 0]
            )
        else:
            return False
        return True
