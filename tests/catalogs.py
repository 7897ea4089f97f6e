"""What a catalog of pipeline files says, as lines."""

import re

from penstock.config.catalog import Catalog


def said(catalog: Catalog) -> list[str]:
    """Its problems."""
    return [f"{e.path.name}:{e.line} {e.where} {e.problem}. {e.remedy}" for e in catalog.errors]


def require_said(catalog: Catalog, expected: str) -> None:
    """That one of its problems is so, a regular expression."""
    found = said(catalog)
    assert any(re.search(expected, line) for line in found), found
