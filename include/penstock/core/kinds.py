"""What a step can be: its kinds, each a package of ``penstock.kinds`` whose modules are its parts.

To register a kind is to name it here. Its parts are imported when they are asked for, since they
live in different rings: whoever parses a pipeline file needs no column, and nobody but the audit
needs Spark. CONTRIBUTING says what each part holds.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

KINDS = ("aggregate", "latest", "lookup", "custom", "join")
USUAL = KINDS[0]
"""Of a step that names none."""


def has_part(kind: str, name: str) -> bool:
    """Whether a kind has a part that not all have: ``laws``, ``replay``."""
    return find_spec(f"penstock.kinds.{kind}.{name}") is not None


def part(kind: str, name: str) -> Any:
    """A module of a kind: ``config``, ``frame``, ``layout``, ``truth`` or ``views``."""
    return import_module(f"penstock.kinds.{kind}.{name}")
