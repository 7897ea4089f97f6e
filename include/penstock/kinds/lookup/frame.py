"""Look-ups, as the runners go through them."""

from penstock.core.window import BEGINNING
from penstock.kinds.frame import Frame
from penstock.kinds.lookup.again import again
from penstock.kinds.lookup.mapper import Mapper, columns_of
from penstock.kinds.lookup.reducer import Reducer
from penstock.kinds.lookup.wire import Wire

FRAME = Frame(columns_of, lambda *_: BEGINNING, Wire, Mapper, Reducer, again)
