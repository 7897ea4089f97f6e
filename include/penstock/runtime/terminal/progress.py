"""Shows what goes on: a moving bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

QUIET_SECONDS = 10.0
"""Between two plain lines of one stage that say something new."""
SAME_SECONDS = 60.0
"""Between two plain lines that say the same."""


@dataclass(frozen=True, slots=True)
class Look:
    """How far a stage is.

    Attributes:
        said: a few words.
        done: of ``total``; None: not known.
        total: None: not known.
    """

    said: str
    done: int | None = None
    total: int | None = None


class Show(Protocol):
    """Shows how far a stage is; its last words come once more in its closing line."""

    def __call__(self, look: Look, *, last: bool = False) -> None:
        """Show; ``last``: keep it for the closing line only."""


@contextmanager
def stage(console: Console, title: str) -> Iterator[Show]:
    """Show a stage while the block runs, and one line with its last words and time after it."""
    begun = time.monotonic()
    newest = [Look("")]
    shown = _bar(console, title) if console.is_terminal else _plain(console, title)
    try:
        with shown as show:

            def keep(look: Look, *, last: bool = False) -> None:
                newest[0] = look
                if not last:
                    show(look)

            yield keep
    except BaseException:
        console.print(f"[red]✗[/] {escape(title)}  [dim]{time.monotonic() - begun:.0f} s[/]")
        raise
    said = f": {escape(newest[0].said)}" if newest[0].said else ""
    console.print(
        f"[green]✓[/] {escape(title)}{said}  [dim]{time.monotonic() - begun:.0f} s[/]",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def _bar(console: Console, title: str) -> Iterator[Callable[[Look], None]]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape(title), total=None, said="")

        def show(look: Look) -> None:
            progress.update(
                task, completed=look.done or 0, total=look.total, said=escape(look.said)
            )

        yield show


@contextmanager
def _plain(console: Console, title: str) -> Iterator[Callable[[Look], None]]:
    console.print(f"{title} ...", highlight=False, markup=False)
    last: list[str | float] = ["", time.monotonic()]

    def show(look: Look) -> None:
        share = f"{100 * look.done // look.total} %, " if look.done and look.total else ""
        line = f"  {share}{look.said}"
        quiet = time.monotonic() - float(last[1])
        if quiet > (SAME_SECONDS if line == last[0] else QUIET_SECONDS):
            last[:] = [line, time.monotonic()]
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    yield show
