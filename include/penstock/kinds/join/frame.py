"""Joins, as the runners go through them."""

from penstock.kinds.frame import Frame
from penstock.kinds.join.again import again
from penstock.kinds.join.mapper import Mapper, cells, columns_of
from penstock.kinds.join.reach import lefts_of, rights_of, since
from penstock.kinds.join.reducer import Reducer
from penstock.kinds.join.wire import Wire

FRAME = Frame(
    columns_of, since, Wire, Mapper, Reducer, again, cells, lambda step: bool(step.keys),
    (rights_of, lefts_of),
)  # fmt: skip
