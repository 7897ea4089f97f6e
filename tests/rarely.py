"""Cases that only ``make test-all`` runs."""

from typing import Any

import pytest


def rare(*values: Any) -> Any:
    """The parameters of such a case."""
    return pytest.param(*values, marks=pytest.mark.all)
