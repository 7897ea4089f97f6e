"""Names of a pipeline's versions: definitions of it that run beside the one in force."""

NEXT, FORMER = "next", "former"
"""An edit that is built until readers switch to it; what was in force before they did."""
BETWEEN = "@"
"""No name of a pipeline has it."""


def version_of(pipeline: str, which: str) -> str:
    """Name of a version."""
    return f"{pipeline}{BETWEEN}{which}"


def which_of(name: str) -> str:
    """Which of its pipeline's versions that is; empty: the one in force."""
    return name.partition(BETWEEN)[2]


def pipeline_of(name: str) -> str:
    """Whose version that is; of a pipeline its own name."""
    return name.partition(BETWEEN)[0]
