"""Names of the pipelines of one file: its own, and those over the answers of a step."""

from penstock.core.version import pipeline_of

BETWEEN = "-"
"""No name of a file or step has it."""


def floor_of(file: str, step: str) -> str:
    """Name of the pipeline whose records are the answers of a step of a file."""
    return f"{file}{BETWEEN}{step}"


def file_of(name: str) -> str:
    """The file that says what a pipeline or a version is, without its ending."""
    return pipeline_of(name).partition(BETWEEN)[0]
