"""A step over the newest records of keys, and what it must say, plainly in Python."""

from typing import Any

from tests.chains import Key, gathered

NEWEST: dict[str, Any] = {
    "kind": "latest", "keys": ["site"], "columns": ["code"], "every": "PT1M",
    "slack": {"fixed": "PT20S"},
}  # fmt: skip
SUMMED: dict[str, Any] = {
    "keys": ["site"], "window": {"size": "PT4M", "slide": "PT2M"},
    "measures": {"n": "count(*)", "most": "max(code)"},
}  # fmt: skip


def summed(newest: dict[Key, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What it must say of some newest records."""
    return {
        key: {"n": len(some), "most": max((v["code"] for v in some if v["code"] is not None),
                                          default=None)}
        for key, some in gathered(newest, 1, 4, 2, keyed=True).items()
    }  # fmt: skip
