"""What Spark's master says of its workers, on its page."""

import json
import urllib.request
from http.client import HTTPException

ALIVE, DECOMMISSIONED = "ALIVE", "DECOMMISSIONED"
PATIENCE_SECONDS = 2


def workers(page: str, token: str = "") -> dict[str, str]:
    """State of the worker at each address; empty: the master does not answer.

    An address may be given again while the master still knows who had it: whoever is alive counts.

    Args:
        page: URL of the master's page in JSON.
        token: that it asks for.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    asked = urllib.request.Request(page, headers=headers)  # noqa: S310  our own address
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(asked, timeout=PATIENCE_SECONDS) as answer:
            told = json.load(answer)["workers"]
    except (OSError, ValueError, KeyError, HTTPException):  # nobody answers, or somebody else
        return {}
    return {w["host"]: w["state"] for w in sorted(told, key=lambda w: w["state"] == ALIVE)}
