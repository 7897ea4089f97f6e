"""The quality target as an expectation of the suite: mostly = 1 - delta, and what is likely."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from scipy import stats

from penstock.quality.bound import Errors
from penstock.quality.checks import Severity

STEP = "sightings_per_site"


def errors(beyond: int, of: int, epsilon: float = 0.05, delta: float = 0.05) -> dict[str, Errors]:
    values = [epsilon] * beyond + [epsilon - 1e-9] * (of - beyond)
    return {STEP: Errors(epsilon, delta, values)}


@pytest.mark.parametrize(("beyond", "held"), [(0, True), (50, True), (51, False), (1_000, False)])
def test_it_holds_up_to_delta_and_makes_no_audit_red(
    audit: Any, comparisons: Any, beyond: int, held: bool
) -> None:
    plain = audit(comparisons())
    result = audit(comparisons(), errors=errors(beyond, 1_000))
    assert result.success, "answers are exact once they are corrected: a warning, not an alarm"
    assert result.expectations == plain.expectations + 1
    assert [f.severity for f in result.failed] == ([] if held else [Severity.WARNING])
    if not held:
        assert f"{beyond:,} of 1,000 are off by it" in result.failed[0].observed
        assert STEP in result.failed[0].claim


def test_the_limit_is_clopper_and_pearson_s_and_stands_in_the_report(
    audit: Any, comparisons: Any, tmp_path: Path
) -> None:
    given = errors(20, 1_000)
    upper = given[STEP].upper
    assert stats.binom.cdf(20, 1_000, upper) == pytest.approx(0.05)
    assert Errors(0.05, 0.05, [1.0] * 10).upper == 1.0
    result = audit(comparisons(), errors=given)
    page = (tmp_path / "flights" / unquote(result.report)).read_text()
    assert f"at most {upper:.2%}" in page
    assert "20 of 1,000 are off by it" in page


def test_other_checks_see_the_steps_alone_and_whole_numbers(
    audit: Any, comparisons: Any, tmp_path: Path
) -> None:
    frame = comparisons(wrong_answers=3)
    result = audit(frame, errors=errors(0, 100))
    assert not result.success
    assert [f.observed for f in result.failed] == ["sightings_per_plate: 3"]
    page = (tmp_path / "flights" / unquote(result.report)).read_text()
    assert "1,000.0" not in page


def test_a_sample_that_could_not_show_it_is_left_out(audit: Any, comparisons: Any) -> None:
    plain = audit(comparisons())
    assert audit(comparisons(), errors=errors(58, 58)).expectations == plain.expectations
    assert audit(comparisons(), errors=errors(0, 59)).expectations == plain.expectations + 1
    assert Errors(0.05, 0.05, [0.0] * 59).upper < 0.05 < Errors(0.05, 0.05, [0.0] * 58).upper
