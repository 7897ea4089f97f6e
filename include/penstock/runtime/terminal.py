"""The commands that look at a pipeline and its answers; none of them needs a JVM or Airflow."""

import argparse
from pathlib import Path

from penstock.config.catalog import Catalog, UnknownPipelineError
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.lake.tables import Tables
from penstock.runtime.terminal_words import console

ROWS = 50


def explain(settings: Settings, arguments: argparse.Namespace) -> int:
    """Say what a pipeline does: source, steps, what the slack means, tables, schedules."""
    from penstock.runtime.terminal_explain import show_explanation

    pipeline = pipeline_of(settings, arguments.pipeline)
    show_explanation(anchored(settings), pipeline, SystemClock().now(), console())
    return 0


def show(settings: Settings, arguments: argparse.Namespace) -> int:
    """Show a pipeline's answers with their revisions, and where its steps stand."""
    from penstock.runtime.terminal_show import Wanted, show_answers

    pipeline = pipeline_of(settings, arguments.pipeline)
    steps = pipeline.specs if arguments.step is None else (_step(pipeline, arguments.step),)
    if arguments.beside is not None:
        from penstock.runtime.terminal_beside import show_beside

        both = (pipeline, pipeline_of(settings, arguments.beside))
        show_beside(anchored(settings), both, steps, console())
        return 0
    if arguments.quality:
        from penstock.runtime.terminal_quality import show_quality

        show_quality(anchored(settings), pipeline, steps, console())
        return 0
    wanted = Wanted(dict(arguments.key), arguments.limit, arguments.revisions)
    show_answers(anchored(settings), pipeline, steps, wanted, console())
    return 0


def query(settings: Settings, arguments: argparse.Namespace) -> int:
    """Ask SQL (DuckDB) about a pipeline's answers; without SQL: which views there are."""
    from penstock.lake.query import answered, views
    from penstock.runtime import terminal_rows

    settings = anchored(settings)
    pipeline = pipeline_of(settings, arguments.pipeline)
    known = views(Tables(settings.lake_uri, pipeline.name), pipeline)
    if arguments.sql is None:
        terminal_rows.show_views(pipeline.name, known, console())
        return 0
    with answered(known, arguments.sql) as found:
        if arguments.output is not None:
            terminal_rows.write(found, arguments.output, console())
        else:
            terminal_rows.show(found, None if arguments.all else ROWS, console())
    return 0


def export(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write the answers in force to Parquet files, one a step."""
    from penstock.lake.export import export as write
    from penstock.runtime import terminal_rows

    settings = anchored(settings)
    pipeline = pipeline_of(settings, arguments.pipeline)
    written = write(Tables(settings.lake_uri, pipeline.name), pipeline, arguments.folder)
    terminal_rows.show_exported(pipeline.name, written, console())
    return 0


def remove(settings: Settings, arguments: argparse.Namespace) -> int:
    """Delete a pipeline's tables, checkpoints, reports and stream files; asks first."""
    from penstock.runtime.removal import remove_pipeline

    settings = anchored(settings)
    return remove_pipeline(settings, arguments.pipeline, console(), sure=arguments.yes)


COMMANDS = (explain, show, query, export, remove)


def add_arguments(parts: dict[str, argparse.ArgumentParser]) -> None:
    """Tell each command's parser what it takes.

    Args:
        parts: parser of each command by name; also holds other commands.
    """
    for command in COMMANDS:
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
    parts["export"].add_argument("folder", type=Path, metavar="DIR", help="made if need be")
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
    catalog = Catalog.read(settings.pipelines)
    try:
        return catalog.pipeline(name)
    except UnknownPipelineError:
        wrong = [str(problem) for problem in catalog.errors if problem.path.stem == name]
        if not wrong:
            raise
        raise ConfigError("\n  ".join([f"the file of {name} has problems:", *wrong])) from None


def _step(pipeline: Pipeline, name: str) -> StepSpec:
    try:
        return pipeline.spec(name)
    except KeyError:
        known = ", ".join(pipeline.steps)
        raise ConfigError(f"{pipeline.name} has no step {name}. Its steps: {known}.") from None


def _key(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE, as in site=JFK")
    return name, value


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
