"""What is damaged in a table of the lake: which table, which file, and the remedy.

The libraries say *Kernel error* of a log that is cut short, OSError of a page that cannot be
unpacked, and nothing at all of an entry that became empty. So whatever they raise over a table of
the lake goes through ``told``, which looks at the table itself: what the system fails at is tried
again, what a file lacks is for a person.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from penstock.core.errors import TerminalError, TransientError
from penstock.core.place import is_remote, path_of
from penstock.lake.storage.durable import LOG, PARQUET

BROKEN = (DeltaError, pa.ArrowException, OSError)
"""What the libraries raise of a table's content, and of the system."""
REMEDY = (
    "Nothing was changed. Put the file back from a copy of the lake, penstock restore a backup, or"
    " penstock remove the pipeline to start afresh (docs/how-to/mend-a-damaged-table.md)"
)
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


class DamagedTableError(TerminalError):
    """A file of a table of the lake is not whole.

    Attributes:
        table: where the table lies.
        file: which of its files, if that is known.
    """

    def __init__(self, table: str, what: str, file: str = "") -> None:
        self.table, self.file = table, file
        which = f"{file} {what}" if file else what
        super().__init__(f"the table {table} is damaged: {which}. {REMEDY}")


class TableAwayError(TransientError):
    """The system does not give a table of the lake now; nothing is concluded from it."""

    def __init__(self, table: str, why: BaseException) -> None:
        said = str(why).splitlines()[0] if str(why) else type(why).__name__
        super().__init__(
            f"the table {table} cannot be read now: {said}. Nothing was changed; try again"
        )


@contextmanager
def told(table: str, paths: Sequence[str] = ()) -> Iterator[None]:
    """Read a table of the lake.

    Args:
        table: where it lies.
        paths: the data files that are read, relative to it.

    Raises:
        DamagedTableError: in place of an error that content caused.
        TableAwayError: in place of an error that the system caused.
    """
    try:
        yield
    except (TableNotFoundError, CommitFailedError, MemoryError):
        raise
    except BROKEN as broken:
        raise named(table, paths, broken) from broken


def named(table: str, paths: Sequence[str], broken: BaseException) -> Exception:
    """What to raise in place of a library's error over a table."""
    number = getattr(broken, "errno", None)
    if number is not None and not isinstance(broken, FileNotFoundError):
        return TableAwayError(table, broken)
    if "os error" in str(broken) or is_remote(table) or not (path_of(table) / LOG).is_dir():
        away = isinstance(broken, OSError) or "os error" in str(broken)
        what = f"it cannot be read ({type(broken).__name__}: {broken})"
        return TableAwayError(table, broken) if away else DamagedTableError(table, what)
    try:
        found = damaged_log(path_of(table)) or _damaged_data(path_of(table), paths)
    except OSError as failed:  # the look met what the system fails at
        return TableAwayError(table, failed)
    if found is not None:
        return DamagedTableError(table, found[1], found[0])
    said = str(broken).splitlines()[0] if str(broken) else type(broken).__name__
    if isinstance(broken, OSError):
        return TableAwayError(table, broken)
    return DamagedTableError(table, f"what it holds cannot be read ({said})")


def damaged_log(root: Path) -> tuple[str, str] | None:
    """The first file of a table's log that is not whole, and what it is; none: all are."""
    entries, checkpoints = logged(root)
    newest = max(checkpoints, default=-1)
    summed = [f"{LOG}/{path.name}" for path in checkpoints.get(newest, ())]
    if (found := _damaged_data(root, summed)) is not None:
        return found
    if (missing := _missing(entries, checkpoints)) is not None:
        return f"{LOG}/{missing:020d}.json", "is missing"
    for version, path in sorted(entries.items()):
        if version <= newest:
            continue
        try:
            text = path.read_text()
            actions = [json.loads(line) for line in text.splitlines()]
        except FileNotFoundError:  # summed up and cleaned away meanwhile
            continue
        except ValueError:
            return f"{LOG}/{path.name}", f"is cut short ({len(text):,} bytes)"
        if not actions:
            return f"{LOG}/{path.name}", "is empty"
    return None


def require_log(table: str) -> None:
    """Refuse a log with an empty or a missing entry.

    The library takes the one for a commit of nothing, and may end the log before the other.

    Raises:
        DamagedTableError: there is one; names it.
    """
    if is_remote(table):
        return
    entries, checkpoints = logged(path_of(table))
    newest = max(checkpoints, default=-1)
    for version, path in entries.items():
        try:
            if version > newest and not path.stat().st_size:
                raise DamagedTableError(table, "is empty", f"{LOG}/{path.name}")
        except FileNotFoundError:
            continue
    missing = _missing(entries, checkpoints)
    if missing is not None and missing == _missing(*logged(path_of(table))):  # no passing sight
        raise DamagedTableError(table, "is missing", f"{LOG}/{missing:020d}.json")


def _missing(entries: Collection[int], checkpoints: Collection[int]) -> int | None:
    """The first entry that a log lacks after its newest checkpoint."""
    newest = max(checkpoints, default=-1)
    later = {version for version in entries if version > newest}
    lacks = set(range(newest + 1, max(later, default=newest) + 1)) - later
    return min(lacks, default=None)


def damaged_file(files: Sequence[str], broken: BaseException) -> Exception:
    """What to raise in place of an error over some data files, paths with their table's.

    The table is the folder above them that has a log.
    """
    root = next(p for p in Path(files[0]).parents if (p / LOG).is_dir())
    return named(str(root), [str(Path(f).relative_to(root)) for f in files], broken)


def require_whole(table: str, paths: Iterable[str] | None = None) -> None:
    """Look at the ends of the data files of a table: whether they are there, and not cut short.

    Args:
        table: where it lies; one that is not there is whole, one that is remote is not looked at.
        paths: its data files; none: those of its newest version.

    Raises:
        DamagedTableError: some file is not whole; names it.
    """
    if is_remote(table):
        return
    root = path_of(table)
    with told(table):
        if paths is None:
            if not (root / LOG).is_dir():
                return
            require_log(table)
            paths = pa.table(DeltaTable(table).get_add_actions())["path"].to_pylist()
        for path in paths:
            if (what := _cut(root / path)) is not None:
                raise DamagedTableError(table, what, path)


def logged(root: Path) -> tuple[dict[int, Path], dict[int, list[Path]]]:
    """The entries and the checkpoints of a table's log, by version."""
    entries: dict[int, Path] = {}
    checkpoints: dict[int, list[Path]] = {}
    for path in (root / LOG).iterdir() if (root / LOG).is_dir() else ():
        if found := _ENTRY.fullmatch(path.name):
            entries[int(found[1])] = path
        elif found := _CHECKPOINT.fullmatch(path.name):
            checkpoints.setdefault(int(found[1]), []).append(path)
    return entries, checkpoints


def _cut(path: Path) -> str | None:
    """What a Parquet file lacks, by its ends; none: nothing."""
    try:
        with path.open("rb") as file:
            first, size = file.read(len(PARQUET)), file.seek(0, 2)
            file.seek(max(0, size - len(PARQUET)))
            last = file.read()
    except FileNotFoundError:
        return "is missing"
    if not size:
        return "is empty"
    return None if first == last == PARQUET else f"is cut short ({size:,} bytes)"


def _damaged_data(root: Path, paths: Sequence[str]) -> tuple[str, str] | None:
    """The first of some Parquet files that cannot be read to its end; that takes its time."""
    for path in paths:
        if (what := _cut(root / path)) is not None:
            return path, what
        try:
            with pq.ParquetFile(root / path) as file:
                for _ in file.iter_batches():
                    pass
        except (pa.ArrowException, OSError) as broken:
            if getattr(broken, "errno", None) is not None:
                raise
            return path, f"cannot be read ({str(broken).splitlines()[0]})"
    return None
