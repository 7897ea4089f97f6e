"""How values are shown in the tables of pages."""

from datetime import datetime
from typing import Any


def cell(value: Any) -> str:
    """A value, as text; an instant is UTC."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3].removesuffix(".000")
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
