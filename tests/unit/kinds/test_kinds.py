"""The seam: what the frame knows of a kind of step is its name and its parts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.kinds import KINDS, part

ROOT = Path(__file__).parents[3]
PARTS = {
    "config": {"CONFIG"},
    "frame": {"FRAME"},
    "layout": {"LAYOUT"},
    "truth": {"values", "same"},
    "views": {"views"},
    "raw": {"names", "columns", "unequal"},
}
OWN = {
    "lookup": {"truth": {"alarms", "told", "same"}, "raw": None},
    "custom": {"truth": {"alarms", "told", "same"}, "raw": None},
    "join": {"truth": {"alarms", "told", "same"}, "raw": None},
}
"""Parts in which a kind of another frame differs; none: it has no such part."""
KNOWN = {"aggregate": {"lake/proof/figures.py"}}
"""A coverage threshold is of measures: only aggregates have one."""


def files_that_name(kind: str) -> set[str]:
    """Modules of the product that know a kind, besides its own folder."""
    imported = rf"import penstock\.kinds\.{kind}\b|from penstock\.kinds\.{kind}\b"
    spelled = rf"\b(?i:kinds?)\b.*[\"']{kind}[\"']|\b{kind.title()}(Spec|Layout|Config)\b"
    named = re.compile(f"{imported}|{spelled}")
    package = ROOT / "include" / "penstock"
    places = [*package.rglob("*.py")]
    places += [p for top in ("plugins", "dags", "spark_jobs") for p in (ROOT / top).rglob("*.py")]
    assert len(places) > 200
    own = package / "kinds" / kind
    found = {p for p in places if own not in p.parents and named.search(p.read_text())}
    return {str(p.relative_to(package if package in p.parents else ROOT)) for p in found}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_folder_and_one_registration(kind: str) -> None:
    assert files_that_name(kind) - KNOWN.get(kind, set()) == {"core/kinds.py"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_every_part(kind: str) -> None:
    for name, wanted in (PARTS | OWN.get(kind, {})).items():
        assert wanted is None or wanted <= vars(part(kind, name)).keys()


def test_every_folder_of_a_kind_is_registered() -> None:
    folders = {p.parent.name for p in (ROOT / "include/penstock/kinds").glob("*/spec.py")}
    assert folders == {*KINDS}


def test_reading_a_pipeline_file_loads_no_column_and_no_engine() -> None:
    told = (
        "import sys; from pathlib import Path; from penstock.config.catalog import Catalog;"
        "assert Catalog.read(Path('include/pipelines')).pipelines;"
        "print(sorted({'numpy', 'pyarrow', 'pandas', 'duckdb', 'pyspark'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
