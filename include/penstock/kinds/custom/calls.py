"""Calls user code: checks what it gives, and says where it fails."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.types import ARROW, fields_of
from penstock.core.errors import TerminalError
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.kinds.custom.code import Code, Columns
from penstock.kinds.custom.spec import WHICH, CustomSpec, Program

PASSING = (MemoryError, OSError)
"""Of the system, not of the code: the micro-batch is tried again."""


class UserCodeError(TerminalError):
    """User code failed, or gave what it must not; says file, line, and the record."""


class RecordError(UserCodeError):
    """User code failed on some records; it need not on others."""


class Calls:
    """The code of one step.

    Args:
        step: the step.

    Raises:
        UserCodeError: there is no such class, or it is not as it must be.
    """

    def __init__(self, step: CustomSpec) -> None:
        self.step, self.path = step, step.program.path
        self.compiled = self.path  # the same text may have been read elsewhere before
        with self._told("load"):
            code, self.compiled = _loaded(step.program)
            self.code = code()
        self.state = pa.schema(fields_of(_columns(step, self.code.state)))
        self.mapped = pa.schema(fields_of((WHICH, *step.keys)))
        self.said = pa.schema(fields_of(step.said))

    def map(self, records: pa.Table) -> pa.Table:
        """Rows with keys and ``arrival_seq``, and what else the code gives."""
        with self._told("map"):
            given = _table(self.code.map(records))
        given = self._checked("map", given, self.mapped, None)
        for name in self.mapped.names:
            given = given.filter(given[name].is_valid())
        strange = ~np.isin(np.asarray(given[WHICH.name]), np.asarray(records[WHICH.name]))
        if strange.any():
            said = given[WHICH.name][int(np.flatnonzero(strange)[0])]
            raise self._wrong("map", f"gave {WHICH.name} {said}, which is of none of its records")
        return given

    def lift(self, mapped: pa.Table) -> pa.Table:
        """The state of each row of ``map`` alone."""
        if not mapped.num_rows:
            return self.state.empty_table()
        rows = mapped.num_rows
        return self.update(self.init(rows), mapped)

    def init(self, rows: int) -> pa.Table:
        """States of nothing."""
        return self._call("init", self.state, rows, self.code.init, rows)

    def update(self, states: pa.Table, mapped: pa.Table) -> pa.Table:
        """States with one more row each."""
        return self._call("update", self.state, states.num_rows, self.code.update, states, mapped)

    def merge(self, one: pa.Table, other: pa.Table) -> pa.Table:
        """Two states as one, row by row."""
        return self._call("merge", self.state, one.num_rows, self.code.merge, one, other)

    def finish(self, states: pa.Table) -> pa.Table:
        """What is answered."""
        return self._call("finish", self.said, states.num_rows, self.code.finish, states)

    def _call(
        self, name: str, schema: pa.Schema, rows: int, call: Callable[..., Columns], *given: Any
    ) -> pa.Table:
        with self._told(name):
            found = _table(call(*given))
        return self._checked(name, found, schema, rows).select(schema.names)

    def _checked(self, name: str, found: pa.Table, schema: pa.Schema, rows: int | None) -> pa.Table:
        if missing := [n for n in schema.names if n not in found.column_names]:
            there = ", ".join(found.column_names) or "nothing"
            raise self._wrong(name, f"gave no {missing[0]} (it gave: {there})")
        if rows is not None and found.num_rows != rows:
            raise self._wrong(name, f"gave {found.num_rows} rows for {rows}: row i is of row i")
        for field in schema:
            at = found.schema.get_field_index(field.name)
            try:
                found = found.set_column(at, field, found[field.name].cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
                what = f"{field.name} is {found[field.name].type}, and no {_name(field.type)}"
                said = f"{self._whose(name)} gave what does not fit: {what} ({wrong})"
                raise RecordError(said) from wrong
        return found

    def _wrong(self, name: str, said: str) -> UserCodeError:
        return UserCodeError(f"{self._whose(name)} {said}")

    def _whose(self, name: str) -> str:
        return f"{self.step.name}: {self.path}: {self.step.program.name}.{name}"

    def _begins(self, name: str) -> int:
        """The line where a function of the user's begins; 0: it is none."""
        code = getattr(getattr(getattr(self, "code", None), name, None), "__code__", None)
        return code.co_firstlineno if code is not None and code.co_filename == self.compiled else 0

    @contextmanager
    def _told(self, name: str):  # type: ignore[no-untyped-def]
        try:
            yield
        except PASSING:
            raise
        except Exception as failed:
            line = _line(failed, self.compiled) or self._begins(name)  # the latter: in what it gave
            where = f"{self.path}:{line}" if line else self.path
            error = UserCodeError if name == "load" else RecordError
            raise error(
                f"{self.step.name}: {where}: {self.step.program.name}.{name}:"
                f" {type(failed).__name__}: {failed}"
            ) from failed


def _columns(step: CustomSpec, state: Mapping[str, str]) -> Sequence[Column]:
    try:
        found = [Column(name, ColumnType(kind)) for name, kind in dict(state).items()]
    except (TypeError, ValueError) as wrong:
        raise UserCodeError(
            f"{step.name}: {step.program.path}: {step.program.name}.state: {wrong}. Name columns"
            f" with their types: {{'n': 'long'}} ({', '.join(ColumnType)})"
        ) from wrong
    if not found:
        raise UserCodeError(
            f"{step.name}: {step.program.path}: {step.program.name} has no state. Name its columns"
            " with their types: state = {'n': 'long'}"
        )
    return found


def _table(given: Columns) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    return pa.table({name: _column(name, values) for name, values in given.items()})


def _column(name: str, values: Any) -> Any:
    if isinstance(values, pa.Scalar) or np.isscalar(values):
        raise TypeError(f"{name} is one value ({values}). Give a column, with a value a row")
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)


def _name(kind: pa.DataType) -> str:
    return next((column.value for column, arrow in ARROW.items() if arrow == kind), str(kind))


def _line(failed: BaseException, path: str) -> int:
    """The line of the user's file where it failed; of a file that cannot be compiled its own."""
    if isinstance(failed, SyntaxError) and failed.lineno is not None:
        return failed.lineno
    line, trace = 0, failed.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@lru_cache(maxsize=32)
def _loaded(program: Program) -> tuple[type[Code], str]:
    """The class, and the path it was compiled with; the text is executed once a process."""
    module = ModuleType(f"penstock_code_{program.digest}")
    module.__file__ = program.path
    sys.modules[module.__name__] = module  # where dataclasses look for a class's names
    exec(compile(program.text, program.path, "exec"), vars(module))  # noqa: S102  the user's own
    found = getattr(module, program.name, None)
    if not (isinstance(found, type) and issubclass(found, Code)):
        raise TypeError(f"{program.name} is no class derived from {Code.__module__}.Code")
    return found, program.path
