"""What a catalog of pipeline files says, as lines."""

from penstock.config.catalog import Catalog


def said(catalog: Catalog) -> list[str]:
    """Its problems."""
    return [f"{e.path.name}:{e.line} {e.where} {e.problem}. {e.remedy}" for e in catalog.errors]
