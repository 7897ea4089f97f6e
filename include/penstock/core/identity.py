"""Which definition a step has: a name that is the same in every release for the same meaning.

It is taken from a canonical form that is written out here, field by field. What is added to a step
later, and left as it was before by those who do not use it, stands in the form only where it is
used: nobody's step becomes another one by a release.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from penstock.core.expression import Column, Expression, Literal
from penstock.core.window import WindowSpec

if TYPE_CHECKING:
    from penstock.core.step import StepSpec

FORM = 1
"""Of the canonical form: another number gives every step of every user new tables."""
INPUT, ANSWERS = "events", "answers"


def fingerprint(step: "StepSpec") -> str:
    """Names a definition: what the answers mean, not the step or pipeline that asks for them."""
    return hashlib.sha256(canonical(step).encode()).hexdigest()[:12]


def canonical(step: "StepSpec") -> str:
    """A definition as text: JSON, names in order, without blanks."""
    content = {
        "form": FORM,
        "kind": step.kind,
        "input": _input(step),
        "keys": [column_form(key) for key in step.keys],
        "where": None if step.where is None else expression_form(step.where),
        "window": _window(step.window),
    }
    content |= step.canonical()
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _input(step: "StepSpec") -> str | list[str]:
    """What its records are."""
    if step.above is not None:
        return [ANSWERS, step.above.fingerprint]
    return [INPUT, *step.streams] if step.streams else INPUT


def _window(window: WindowSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"size": window.size, "slide": window.slide, "origin": window.origin}
    return found | ({"landmark": True} if window.landmark else {})


def column_form(column: Column) -> list[str]:
    """A column of the canonical form."""
    return [column.name, column.type.value]


def expression_form(expression: Expression) -> dict[str, Any]:
    """A tree; numbers are doubles, as they are computed with."""
    match expression:
        case Column():
            return {"column": column_form(expression)}
        case Literal(value=bool() | str()):
            return {"literal": expression.value}
        case Literal(value=value):
            return {"literal": float(value)}
        case _:
            arguments = [expression_form(argument) for argument in expression.arguments]
            return {"operator": expression.operator.value, "arguments": arguments}
