"""Windows of event time, as the runners go through them."""

from penstock.core.step import StepSpec
from penstock.kinds.frame import Frame
from penstock.kinds.windowed.again import again
from penstock.kinds.windowed.mapper import Mapper, columns_of
from penstock.kinds.windowed.reducer import Reducer
from penstock.kinds.windowed.wire import Wire


def since(step: StepSpec, watermark: int) -> int:
    """What is older lies in no window that is open at a watermark."""
    return watermark - step.window.size


FRAME = Frame(columns_of, since, Wire, Mapper, lambda step, state, *_: Reducer(step, state), again)
