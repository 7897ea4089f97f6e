"""Custom steps of the tests, with code that is a little wrong."""

from pathlib import Path
from typing import Any

import pytest

from penstock.kinds.custom.spec import CustomSpec
from tests.custom import CODE, SITES, Make
from tests.steps import make_pipeline


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The step of some code, by default that of the tests."""

    def made(step: dict[str, Any] = SITES, old: str = "", new: str = "") -> CustomSpec:
        assert old in CODE
        (tmp_path / "p.py").write_text(CODE.replace(old, new) if old else CODE)
        found = make_pipeline(tmp_path, {"s": step}).spec("s")
        assert isinstance(found, CustomSpec)
        return found

    return made
