"""Cases that only ``make test-all`` runs."""

from typing import Any

import pytest


def rare(value: Any) -> Any:
    """A parameter of such a case."""
    return pytest.param(value, marks=pytest.mark.all)
