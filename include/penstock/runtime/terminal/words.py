"""How values are written for people: shares, instants, windows, numbers; and the console."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
TERMINAL_DEFAULT = 80
NOTHING = "-"
MIDNIGHT = time()
REASONS = {"speed": "in time", "late": "late", "backfill": "history"}
NARROW = 100


def console() -> Console:
    """For the terminal; what is piped away is plain and wide."""
    made = Console(highlight=False)
    if not made.is_terminal and made.width == TERMINAL_DEFAULT:
        made.width = PIPED_WIDTH
    return made


def head(title: str, out: Console) -> None:
    """A headline."""
    out.print()
    out.print(Text(title, style="bold cyan"))


def pairs(*rows: tuple[str, str | Text]) -> Table:
    """Names with what is said of them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=14)
    grid.add_column(overflow="fold")
    for name, said in rows:
        grid.add_row(f"  {name}", Text(said) if isinstance(said, str) else said)
    return grid


def table(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """An empty table; long text is folded, never cut."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        collapse_padding=True,
        show_edge=False,
    )
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def put(shown: Table, out: Console) -> None:
    """Print a table with some room around it."""
    out.print(Padding(shown, (1, 0, 1, 1), expand=False))


def share(part: float, whole: float) -> str:
    """A share in percent; only nothing is 0 % and only all is 100 %."""
    if not whole or not part:
        return "0 %"
    if part == whole:
        return "100 %"
    percent = 100 * part / whole
    if percent < 0.1:  # noqa: PLR2004
        return "< 0.1 %"
    return "> 99.9 %" if percent > 99.9 else f"{percent:.1f} %"  # noqa: PLR2004


def at(instant: datetime) -> str:
    """An instant, UTC, as exact as it has to be."""
    return _clock(instant.astimezone(UTC), date=True)


def window(start: datetime, end: datetime, *, year: bool = True) -> str:
    """A window, UTC; one whole day by its date, the end's day only where it is another one."""
    said = _window(start, end)
    return said if year else said.replace(f"{start.astimezone(UTC):%Y-}", "")


def _window(start: datetime, end: datetime) -> str:
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    if end - start == timedelta(milliseconds=1):  # of an alarm
        return _clock(start, date=True)
    if start.date() == end.date():
        return f"{_clock(start, date=True)}-{_clock(end, date=False)}"
    if start.time() == MIDNIGHT and end - start == timedelta(days=1):
        return f"{start:%Y-%m-%d}"
    return f"{_clock(start, date=True)} - {_clock(end, date=True)}"


def interval(start: datetime, end: datetime) -> str:
    """An interval [start, end), UTC."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    return f"[{_clock(start, date=True)}, {_clock(end, date=start.date() != end.date())})"


def value(given: Any) -> str:
    """A value of a column."""
    match given:
        case None:
            return NOTHING
        case bool():
            return "true" if given else "false"
        case int():
            return f"{given:,}"
        case float():
            return f"{given:,.6g}"
        case datetime():
            return at(given) if given.tzinfo else str(given)
        case _:
            return str(given)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """Bytes."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if number >= 10**power:
            return f"{number / 10**power:.1f} {unit}"
    return f"{number} bytes"


def _clock(instant: datetime, *, date: bool) -> str:
    form = "%H:%M:%S" if instant.second or instant.microsecond else "%H:%M"
    said = f"{instant:{'%Y-%m-%d ' if date else ''}{form}}"
    if instant.microsecond:
        said += f".{instant.microsecond:06d}".rstrip("0")
    return said
