"""What readers may ask of a join besides its pairs: nothing."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from penstock.kinds.join.spec import JoinSpec


def views(
    step: JoinSpec,  # noqa: ARG001  every kind's
) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """None."""
    return {}
