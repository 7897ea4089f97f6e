"""Texts of a pipeline file that have a form: cron lines, zones, places, instants."""

import errno
import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter
from pydantic import AfterValidator

CRON_FIELDS = 5
COUNTS = ("s", "ms", "us")
OTHER_ZONES = ("right/", "posix")
"""Of clocks that count leap seconds; the same ones once more."""
NO_FILE = {errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
DIRECTIVES = "YymbBdjHIpMSfzaA%"


def _is_cron(text: str) -> str:
    if len(text.split()) != CRON_FIELDS or not croniter.is_valid(text):
        raise ValueError(f"'{text}' is not a cron line of five fields, as in '*/15 * * * *'")
    return text


def _is_zone(text: str) -> str:
    try:
        ZoneInfo(text)
        is_one = not text.startswith(OTHER_ZONES)
    except (ZoneInfoNotFoundError, ValueError):
        is_one = False
    except OSError as failed:
        if failed.errno not in NO_FILE:  # no descriptor is left: that says nothing of the zone
            raise
        is_one = False
    if not is_one:
        raise ValueError(f"'{text}' is not a time zone, as in Europe/Vienna")
    return text


def _is_form(text: str) -> str:
    if text in COUNTS:
        return text
    used = set(re.findall(r"%(.?)", text))
    day = {"j"} <= used or ("d" in used and used & set("mbB"))
    if not (used <= set(DIRECTIVES) and used & set("yY") and day):
        raise ValueError(
            f"'{text}' is not how instants are written: s, ms or us since 1970, or a form with its"
            " year, month and day as in '%d.%m.%Y %H:%M:%S' or '%d/%b/%Y:%H:%M:%S %z' (known are"
            f" %{' %'.join(DIRECTIVES)})"
        )
    return text


def _is_of_this_machine(text: str) -> str:
    scheme, found, _ = text.partition("://")
    if found and scheme != "file":
        raise ValueError(
            f"{scheme}:// cannot be read yet. Name a folder of this machine: mount or copy it"
        )
    if text == "":
        raise ValueError("an empty place. Name a folder")
    return text


Cron = Annotated[str, AfterValidator(_is_cron)]
Zone = Annotated[str, AfterValidator(_is_zone)]
Form = Annotated[str, AfterValidator(_is_form)]
Place = Annotated[str, AfterValidator(_is_of_this_machine)]
