"""Custom steps, as the runners go through them."""

from penstock.core.window import BEGINNING
from penstock.kinds.custom.again import again
from penstock.kinds.custom.mapper import Mapper, columns_of
from penstock.kinds.custom.reducer import Reducer
from penstock.kinds.custom.wire import Wire
from penstock.kinds.frame import Frame

FRAME = Frame(columns_of, lambda *_: BEGINNING, Wire, Mapper, Reducer, again)
