"""What readers may ask of a look-up besides its alarms: nothing."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from penstock.kinds.lookup.spec import LookupSpec


def views(
    step: LookupSpec,  # noqa: ARG001  every kind's
) -> Mapping[str, tuple[str, Callable[[pa.Table], pa.Table]]]:
    """None."""
    return {}
