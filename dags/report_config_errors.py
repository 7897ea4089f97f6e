"""Shows invalid pipeline files as one import error of Airflow; the valid ones have their DAGs."""

from penstock.core.errors import ConfigError
from penstock_airflow import wiring

catalog = wiring.catalog()
if problems := catalog.errors:
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    lines = "\n".join(f"  {problem}" for problem in problems)
    former = ", ".join(sorted(catalog.standing_in)) or "none"
    raise ConfigError(
        f"{count} in the pipeline files; no DAG of these pipelines is up to date:\n{lines}\n"
        f"By their last valid definition run: {former}"
    )
