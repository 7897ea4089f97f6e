"""The commands that look at a pipeline and its answers; none of them needs a JVM or Airflow."""

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from penstock.config.catalog import UnknownPipelineError, files_in, spec_of
from penstock.config.kept import catalog_in_force, kept_file, put_out
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import shares_of
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.floor import file_of
from penstock.core.version import pipeline_of as pipeline_named
from penstock.core.version import which_of
from penstock.core.window import read_instant
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.words import console

if TYPE_CHECKING:
    from penstock.lake.ingest.amend import Amendment

ROWS = 50


def explain(settings: Settings, arguments: argparse.Namespace) -> int:
    """Say what a pipeline does: source, steps, what the slack means, tables, schedules."""
    from penstock.runtime.terminal.explain import show_explanation

    pipeline = pipeline_of(settings, arguments.pipeline)
    show_explanation(anchored(settings), pipeline, SystemClock().now(), console())
    return 0


def show(settings: Settings, arguments: argparse.Namespace) -> int:
    """Show a pipeline's answers with their revisions, and where its steps stand."""
    from penstock.runtime.terminal.answer_tables import Wanted
    from penstock.runtime.terminal.show import show_answers

    pipeline = pipeline_of(settings, arguments.pipeline)
    steps = pipeline.specs if arguments.step is None else (spec_of(pipeline, arguments.step),)
    if arguments.beside is not None:
        from penstock.runtime.terminal.beside import show_beside

        both = (pipeline, pipeline_of(settings, arguments.beside))
        show_beside(anchored(settings), both, steps, console())
        return 0
    if arguments.quality:
        from penstock.runtime.terminal.quality import show_quality

        show_quality(anchored(settings), pipeline, steps, console())
        return 0
    wanted = Wanted(dict(arguments.key), arguments.limit, arguments.revisions)
    show_answers(anchored(settings), pipeline, steps, wanted, console())
    return 0


def plan(settings: Settings, arguments: argparse.Namespace) -> int:
    """Say what pipeline files change: which steps start, share a run, are rebuilt, or end."""
    from penstock.runtime.streams.outlook import outlook_of, owed_by
    from penstock.runtime.terminal.plan import show_plan

    del arguments
    settings = anchored(settings)
    known = catalog_in_force(settings)
    show_plan(outlook_of(settings, known), owed_by(settings, known), console())
    return 0


def query(settings: Settings, arguments: argparse.Namespace) -> int:
    """Ask SQL (DuckDB) about a pipeline's answers; without SQL: which views there are.

    With --pairs also the log, once, for pairs of a join that nobody asked for before.
    """
    from penstock.lake.serve.query import answered
    from penstock.lake.serve.question import Question, known
    from penstock.runtime.terminal import rows as terminal_rows

    settings = anchored(settings)
    pipeline = pipeline_of(settings, arguments.pipeline)
    between = arguments.since, arguments.until
    question = Question(arguments.sql, arguments.pairs, arguments.where, between, arguments.as_of)
    found = known(Tables(settings.lake_uri, pipeline.log), pipeline, question)
    sql = question.statement
    if sql is None:
        terminal_rows.show_views(pipeline.name, found, console())
        return 0
    if arguments.output is not None:
        terminal_rows.write(found, sql, arguments.output, console())
    else:
        with answered(found, sql) as rows:
            terminal_rows.show(rows, None if arguments.all else ROWS, console())
    terminal_rows.show_position(found, sql, console())
    return 0


def export(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write the answers in force to Parquet files, one a step."""
    from penstock.lake.serve.export import export as write
    from penstock.runtime.terminal import rows as terminal_rows

    settings = anchored(settings)
    pipeline = pipeline_of(settings, arguments.pipeline)
    tables = Tables(settings.lake_uri, pipeline.log)
    empty, asked = arguments.empty, arguments.as_of
    written = write(tables, pipeline, arguments.folder, empty=empty, asked=asked)
    terminal_rows.show_exported(pipeline.name, written, console())
    return 0


def remove(settings: Settings, arguments: argparse.Namespace) -> int:
    """Delete a pipeline's tables, checkpoints, reports and stream files; asks first."""
    from penstock.runtime.terminal.removal import remove_pipeline

    settings = anchored(settings)
    return remove_pipeline(settings, arguments.pipeline, console(), sure=arguments.yes)


def giveup(settings: Settings, arguments: argparse.Namespace) -> int:
    """Give up a planned file that is gone or broken: it counts as one unreadable record."""
    path = _amendment(settings, arguments).give_up(arguments.file, arguments.reason)
    console().print(Text(f"{path} is given up: its plan goes on without it"), soft_wrap=True)
    return 0


def retake(settings: Settings, arguments: argparse.Namespace) -> int:
    """Take a file as it is now (changed, or once unreadable), or a folder's files as new ones."""
    path = _amendment(settings, arguments).retake(arguments.file, arguments.reason)
    console().print(Text(f"{path} will be taken as it is now"), soft_wrap=True)
    return 0


def accept(settings: Settings, arguments: argparse.Namespace) -> int:
    """Settle that a file is unreadable or changed, or a folder's files are those taken before."""
    path = _amendment(settings, arguments).accept(arguments.file, arguments.reason)
    console().print(Text(f"{path} is accepted as it is: audits do not name it"), soft_wrap=True)
    return 0


def _amendment(settings: Settings, arguments: argparse.Namespace) -> "Amendment":
    from penstock.lake.ingest.amend import Amendment

    settings = anchored(settings)
    pipeline = pipeline_of(settings, arguments.pipeline)
    tables = Tables(settings.lake_uri, pipeline.log)
    return Amendment(tables, pipeline, settings.home, SystemClock())


COMMANDS = (plan, explain, show, query, export, remove, giveup, retake, accept)


def add_arguments(parts: dict[str, argparse.ArgumentParser]) -> None:
    """Tell each command's parser what it takes.

    Args:
        parts: parser of each command by name; also holds other commands.
    """
    for command in COMMANDS[1:]:
        parts[command.__name__].add_argument("pipeline", metavar="PIPELINE", help="its name")
    part = parts["show"]
    part.add_argument("--step", help="only this step")
    part.add_argument(
        "--key", type=_key, action="append", default=[], metavar="NAME=VALUE",
        help="only answers of this key; may be given for several key columns",
    )  # fmt: skip
    part.add_argument("--limit", type=_positive, help="windows a table (default: a screenful)")
    part.add_argument("--revisions", action="store_true", help="every revision of each answer")
    part.add_argument("--quality", action="store_true", help="slack, coverage, observed errors")
    part.add_argument(
        "--beside", metavar="OTHER", help="slack, coverage and corrections of two pipelines"
    )
    part = parts["query"]
    part.add_argument("sql", nargs="?", metavar="SQL", help="a SELECT in DuckDB's SQL")
    part.add_argument("--all", action="store_true", help=f"every row, not only {ROWS}")
    part.add_argument("--output", type=Path, metavar="FILE", help="write a .parquet or .csv file")
    part.add_argument(
        "--pairs", metavar="STEP",
        help="ask the log, once, for pairs of this join: SQL names them 'asked'",
    )  # fmt: skip
    part.add_argument(
        "--where", metavar="CONDITION", help="over left.x and right.x, in place of the join's"
    )
    part.add_argument("--from", dest="since", type=_instant, metavar="TIME", help="left records")
    part.add_argument("--until", type=_instant, metavar="TIME", help="left records before it")
    for name in ("query", "export"):
        parts[name].add_argument(
            "--as-of", metavar="MOMENT",
            help="a record's number, an event time, or a snapshot of the pipeline file: what the"
            " steps had said then",
        )  # fmt: skip
    parts["export"].add_argument("folder", type=Path, metavar="DIR", help="made if need be")
    parts["export"].add_argument(
        "--empty", action="store_true", help="also where no answers replace some"
    )
    for command in (giveup, retake, accept):
        part = parts[command.__name__]
        part.add_argument("file", metavar="FILE", help="as the log or the audit names it")
        part.add_argument("--reason", default="", help="kept with the decision")
    parts["remove"].add_argument("--yes", action="store_true", help="do not ask")


def anchored(settings: Settings) -> Settings:
    """The settings with an absolute home."""
    return settings.model_copy(update={"home": settings.home.expanduser().resolve()})


def pipeline_of(settings: Settings, name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        UnknownPipelineError: there is none.
        ConfigError: its file has problems; says them.
    """
    catalog, file = catalog_in_force(settings), file_of(name)
    wrong = [str(problem) for problem in catalog.errors if problem.path.stem == file]
    if name in catalog.standing_in:
        first = f"the file of {name} has problems; its last valid definition is in force:"
        text = Text("\n  ".join([first, *wrong]), style="yellow")
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)
    try:
        return catalog.pipeline(name)
    except UnknownPipelineError:
        if not wrong and (left := _left(settings, name)):
            raise ConfigError(left) from None
        if not wrong:
            raise
        first = f"the file of {pipeline_named(name)} has problems"
        if which_of(name):
            first += f", and {name} does not run"
        if one := put_out(settings, catalog).get(name):
            wrong.append(f"{name} is not in force: {one.why}")
        raise ConfigError("\n  ".join([f"{first}:", *wrong])) from None


def _left(settings: Settings, name: str) -> str:
    """What to do with what a pipeline left that no file has any more; empty: it left nothing."""
    kept = files_in(kept_file(settings, "").parent)  # the name may be no file's: SQL, most likely
    known = {share.pipeline for share in shares_of(settings).runs} | {path.stem for path in kept}
    if which_of(name) or name not in known:
        return ""
    file = f"{file_of(name)}.yaml"
    there = any(path.stem == file_of(name) for path in files_in(settings.pipelines))
    said = f"{file} no longer has it" if there else f"there is no {file} any more"
    return f"{name}: {said}; penstock remove {name} deletes what it left"


def _key(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE, as in site=JFK")
    return name, value


def _instant(text: str) -> datetime:
    try:
        return read_instant(text)
    except ValueError:
        said = f"{text} is not an instant, as in 2014-01-31 or 2014-01-31T12:00Z"
        raise argparse.ArgumentTypeError(said) from None


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
