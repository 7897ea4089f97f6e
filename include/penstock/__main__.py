"""The command ``penstock``: one function per command, imports where they are needed."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.cluster import checked_cluster
from penstock.config.kept import catalog_in_force, put_out
from penstock.config.linked import problem
from penstock.config.problems import ConfigProblem
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.place import is_remote, path_of
from penstock.runtime.terminal import command as terminal
from penstock.runtime.terminal.words import console

_CONSOLE = console()
_ERRORS = Console(stderr=True)


def up(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Start PostgreSQL and Airflow, wait until they are healthy."""
    from penstock.runtime.embedded import lifecycle as embedded
    from penstock.runtime.embedded import report

    first = not embedded.passwords(settings)
    state = embedded.up(settings, _CONSOLE)
    report.show_entrance(settings, state.url, _CONSOLE, first=first)
    return 0


def down(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Stop Airflow, PostgreSQL and every stream."""
    from penstock.runtime.embedded import lifecycle as embedded
    from penstock.runtime.embedded import report

    report.show_stopped(embedded.down(settings, _CONSOLE), _CONSOLE)
    return 0


def status(settings: Settings, _arguments: argparse.Namespace) -> int:
    """Show what runs and how it is; exit status 1 when not all of it is healthy."""
    from penstock.runtime.embedded import report

    return 0 if report.show_status(settings, SystemClock(), _CONSOLE) else 1


def validate(settings: Settings, arguments: argparse.Namespace) -> int:
    """Check every pipeline file; exit status 1 when one has a problem."""
    if not settings.pipelines.is_dir():
        raise ConfigError(f"{settings.pipelines} is no folder. Set PENSTOCK_PIPELINES to one.")
    from penstock.lake.ingest.place import problems

    catalog = catalog_in_force(settings)
    errors = [*catalog.errors]
    for pipeline in catalog.pipelines:
        steps = ", ".join(pipeline.steps)
        if why := catalog.why_former(pipeline.name):
            said = f"! {pipeline.name}: {why}: {steps}"
            _CONSOLE.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)
            continue
        found = problems(pipeline, settings.home.absolute(), settings.lake_uri)
        errors += [problem(pipeline, p.keys, p.problem, p.remedy) for p in found]
        said = steps
        if arguments.laws and not found:
            from penstock.runtime.terminal.laws import tried

            code = tried(pipeline, settings.home.absolute(), SystemClock())
            errors += code.broken
            found, said = [*code.broken], "; ".join(filter(None, (steps, str(code))))
        if not found:
            _CONSOLE.print(f"[green]✓[/] {pipeline.name}: {said}", highlight=False, soft_wrap=True)
    _say_put_out(settings, catalog)
    errors += _problems_of_cluster(settings)
    for each in errors:
        _ERRORS.print(f"✗ {each}", style="red", markup=False, highlight=False, soft_wrap=True)
    if not catalog.pipelines and not catalog.errors:
        _CONSOLE.print(f"{settings.pipelines} holds no pipeline file (*.yaml).", markup=False)
    return 1 if errors else 0


def _say_put_out(settings: Settings, catalog: Catalog) -> None:
    for name, one in put_out(settings, catalog).items():
        said = f"! {name} is not in force: {one.why}"
        _CONSOLE.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _problems_of_cluster(settings: Settings) -> list[ConfigProblem]:
    if not settings.cluster.exists():
        return []
    found, problems = checked_cluster(settings.cluster)
    if found is not None:
        said = f"[green]✓[/] {settings.cluster.name}: pool {found.pool.value}"
        _CONSOLE.print(said, highlight=False, soft_wrap=True)
    return problems


def backup(settings: Settings, arguments: argparse.Namespace) -> int:
    """Copy one instant of the running lake into a folder; only what is new is copied."""
    from penstock.runtime.embedded.backup import back_up

    return back_up(terminal.anchored(settings), arguments.folder, SystemClock(), _CONSOLE)


def restore(settings: Settings, arguments: argparse.Namespace) -> int:
    """Make the lake what it was when a backup was taken, after checking every file of it."""
    from penstock.runtime.embedded import backup

    settings, folder = terminal.anchored(settings), arguments.folder
    return backup.restore(settings, folder, SystemClock(), _CONSOLE, replace=arguments.replace)


def cluster(settings: Settings, arguments: argparse.Namespace) -> int:
    """Start, stop or show the cluster of include/cluster.yaml; status 1 when it is not whole."""
    from penstock.runtime.cluster import control, report

    settings = terminal.anchored(settings)
    if arguments.what == "up":
        with _CONSOLE.status("starting") as spinner:
            state = control.up(settings, lambda now: spinner.update(report.told(now)))
        said = f"{state.url} has {state.registered} nodes. To run there: PENSTOCK_SPARK_MASTER="
        _CONSOLE.print(f"{said}{state.url}", markup=False, highlight=False, soft_wrap=True)
        return 0
    if arguments.what == "down":
        said = "stopped" if control.down(settings) else "nothing was running"
        _CONSOLE.print(f"cluster: {said}")
        return 0
    return 0 if report.show_status(settings, SystemClock(), _CONSOLE) else 1


def demo(settings: Settings, arguments: argparse.Namespace) -> int:
    """Run the whole loop on the flights of 2013 and show what came out."""
    from penstock.runtime.demo.run import run_demo

    return run_demo(settings, arguments.setup_seconds)


_ALL = (up, down, status, validate, *terminal.COMMANDS, backup, restore, cluster, demo)
COMMANDS = {command.__name__: command for command in _ALL}


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
    parts["validate"].add_argument(
        "--laws", action="store_true", help="try code of yours on a sample of the source, too"
    )
    parts["cluster"].add_argument("what", choices=("up", "down", "status"))
    for name in ("backup", "restore"):
        parts[name].add_argument("folder", type=_folder, metavar="DIR", help="of backups")
    parts["restore"].add_argument(
        "--replace", action="store_true", help="move a lake that is not empty away first"
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
        if arguments.command in {"backup", "restore"}:
            return _fail("interrupted; what was there is whole: call it again")
        return _fail("interrupted; what was started goes on in the background: penstock status")
    except OSError as wrong:
        if wrong.filename is None:  # of no file that anybody could see to
            raise
        return _fail(f"{wrong.filename}: {wrong.strerror}. See to that, and call it again")


def _folder(text: str) -> Path:
    if is_remote(text):
        raise argparse.ArgumentTypeError(f"{text} is no folder of this machine")
    return path_of(text)


def _fail(message: str) -> int:
    _ERRORS.print(
        f"penstock: {message}", style="red", markup=False, highlight=False, soft_wrap=True
    )
    return 1


def _first_line(function: object) -> str:
    return str(function.__doc__).strip().splitlines()[0].rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
