"""The command ``penstock``: one function per command, imports where they are needed."""

import argparse
import sys
from collections.abc import Sequence

from pydantic import ValidationError
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, PenstockError
from penstock.runtime import terminal

_CONSOLE = Console()
_ERRORS = Console(stderr=True)


def up(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Start PostgreSQL and Airflow, wait until they are healthy."""
    from penstock.runtime import embedded, report

    state = embedded.up(settings, _CONSOLE)
    report.show_entrance(settings, state.url, _CONSOLE)
    return 0


def down(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Stop Airflow, PostgreSQL and every stream."""
    from penstock.runtime import embedded, report

    report.show_stopped(embedded.down(settings, _CONSOLE), _CONSOLE)
    return 0


def status(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Show what runs and how it is; exit status 1 when not all of it is healthy."""
    from penstock.runtime import report

    return 0 if report.show_status(settings, SystemClock(), _CONSOLE) else 1


def validate(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Check every pipeline file; exit status 1 when one has a problem."""
    if not settings.pipelines.is_dir():
        raise ConfigError(f"{settings.pipelines} is no folder. Set PENSTOCK_PIPELINES to one.")
    catalog = Catalog.read(settings.pipelines)
    for pipeline in catalog.pipelines:
        steps = ", ".join(pipeline.steps)
        _CONSOLE.print(f"[green]✓[/] {pipeline.name}: {steps}", highlight=False, soft_wrap=True)
    for problem in catalog.errors:
        _ERRORS.print(f"✗ {problem}", style="red", markup=False, highlight=False, soft_wrap=True)
    if not catalog.pipelines and not catalog.errors:
        _CONSOLE.print(f"{settings.pipelines} holds no pipeline file (*.yaml).")
    return 1 if catalog.errors else 0


def demo(settings: Settings, arguments: argparse.Namespace) -> int:
    """Run the whole loop on the flights of 2013 and show what came out."""
    from penstock.runtime.demo.run import run_demo

    return run_demo(settings, arguments.setup_seconds)


COMMANDS = {
    command.__name__: command for command in (up, down, status, validate, *terminal.COMMANDS, demo)
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(prog="penstock", description="Timely now, exact later.")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parts = {
        name: commands.add_parser(name, help=_first_line(function), description=function.__doc__)
        for name, function in COMMANDS.items()
    }
    parts["demo"].add_argument(
        "--setup-seconds", type=float, default=0.0, help="what set-up took before, to be shown"
    )
    terminal.add_arguments(parts)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; a user's error is one message, never a traceback."""
    arguments = parser().parse_args(argv)
    try:
        return COMMANDS[arguments.command](Settings(), arguments)
    except ValidationError as error:
        wrong = "; ".join(
            f"PENSTOCK_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()
        )
        return _fail(f"a setting is wrong: {wrong}")
    except PenstockError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted; what was started goes on in the background: penstock status")


def _fail(message: str) -> int:
    _ERRORS.print(
        f"penstock: {message}", style="red", markup=False, highlight=False, soft_wrap=True
    )
    return 1


def _first_line(function: object) -> str:
    return str(function.__doc__).strip().splitlines()[0].rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
