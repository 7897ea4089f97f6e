"""Shows invalid pipeline files as one import error of Airflow; the valid ones have their DAGs."""

from penstock.config.kept import put_out
from penstock.core.errors import ConfigError
from penstock_airflow import wiring

catalog = wiring.catalog()
_cluster, wrong = wiring.cluster()
if problems := [*catalog.errors, *wrong]:
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    lines = "\n".join(f"  {problem}" for problem in problems)
    where = "files of pipelines and cluster" if wrong else "pipeline files"
    former = ", ".join(sorted(catalog.standing_in)) or "none"
    out = "".join(
        f"\n{name} is not in force: {one.why}"
        for name, one in put_out(wiring.settings(), catalog).items()
    )
    raise ConfigError(
        f"{count} in the {where}; no DAG of these pipelines is up to date:\n{lines}\n"
        f"By their last valid definition run: {former}{out}"
    )
