"""Work for every step: one that fails stops no other, and what is raised says whether to retry."""

from dataclasses import replace

import pytest

from penstock.core.errors import TerminalError, TransientError
from penstock.core.step import StepSpec, measures_of, of_each
from tests.steps import case

SITES = case("sites").spec
STEPS = [replace(SITES, name=name) for name in ("a", "b", "c")]


def failing(errors: dict[str, Exception]) -> tuple[list[str], Exception | None]:
    def work(step: StepSpec) -> str:
        if step.name in errors:
            raise errors[step.name]
        return step.name

    return of_each(STEPS, work)


def test_where_none_fails_there_is_nothing_to_raise() -> None:
    assert failing({}) == (["a", "b", "c"], None)
    assert of_each([], lambda step: step.name) == ([], None)


def test_the_others_are_done_and_each_failure_is_told() -> None:
    cause = TerminalError("b is wrong")
    done, error = failing({"b": cause})
    assert done == ["a", "c"]
    assert isinstance(error, TerminalError)
    assert str(error) == "b is wrong"
    assert error.__cause__ is cause


@pytest.mark.parametrize("which", [("a", "b"), ("b", "a")])
def test_trying_again_helps_if_it_may_help_one(which: tuple[str, str]) -> None:
    lasting, passing = TerminalError("no"), TransientError("not now")
    done, error = failing(dict(zip(which, (lasting, passing), strict=True)))
    assert done == ["c"]
    assert isinstance(error, TransientError)
    assert error.__cause__ is passing
    assert str(error) == ("no; not now" if which == ("a", "b") else "not now; no")


def test_the_cause_is_the_first_failure_for_which_trying_again_may_help() -> None:
    errors = {"a": TransientError("a"), "b": TransientError("b"), "c": TerminalError("c")}
    done, error = failing(errors)
    assert done == []
    assert error is not None
    assert error.__cause__ is errors["a"]


def test_a_kind_has_to_say_what_its_steps_answer_read_and_mean() -> None:
    class Nothing(StepSpec):
        pass

    with pytest.raises(TypeError, match="canonical, reads, values"):
        Nothing("n", (), None, SITES.window, SITES.slack)


def test_an_error_that_nobody_foresaw_is_told_with_its_step_and_may_pass() -> None:
    cause = KeyError("x")
    done, error = failing({"c": cause})
    assert done == ["a", "b"]
    assert isinstance(error, TransientError)
    assert str(error) == "c: KeyError: 'x'"
    assert error.__cause__ is cause


def test_what_a_step_is_made_of() -> None:
    assert SITES.key_names == tuple(key.name for key in SITES.keys) == ("site",)
    assert measures_of(SITES) == SITES.measures
    assert measures_of(case("seen").spec) == case("seen").spec.judged == ()
    with pytest.raises(AttributeError):
        STEPS[0].name = "d"
    assert {*STEPS} == {*STEPS[::-1]}
