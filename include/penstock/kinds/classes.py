"""Records by which layer answers for them."""

from dataclasses import asdict, dataclass

from penstock.columns.arrays import Longs
from penstock.core.lateness import CLASSES


@dataclass(slots=True)
class Classes:
    """Records by class, and the event times of those that missed a window.

    A record of class 1 has missed none of its windows: the stream answers it. One of class 2 has
    missed some, so that both layers do; one of class 3 has missed all, and is the correction's
    alone. Source: HPM, whose bounds t_max - K and t_max - K - size say the same of the windows that
    could have closed; these are the windows that did [D].

    Attributes:
        class_1, class_2, class_3: records.
        late_from_us, late_to_us: of records that missed a window; none: there was none.
    """

    class_1: int = 0
    class_2: int = 0
    class_3: int = 0
    late_from_us: int | None = None
    late_to_us: int | None = None

    def count(self, records: int, late: Longs, alone: int) -> None:
        """Add records.

        Args:
            records: how many.
            late: event times of those that have missed a window, us.
            alone: of these how many have missed all.
        """
        self.class_1 += records - len(late)
        self.class_2 += len(late) - alone
        self.class_3 += alone
        if len(late):
            self._spread(int(late.min()), int(late.max()))

    def add(self, told: dict[str, int | None]) -> None:
        """Add what ``message`` told of other records."""
        for name in CLASSES:
            setattr(self, name, getattr(self, name) + told[name])
        if told["late_from_us"] is not None and told["late_to_us"] is not None:
            self._spread(told["late_from_us"], told["late_to_us"])

    def message(self) -> dict[str, int | None]:
        """For ``add``, elsewhere."""
        return asdict(self)

    def _spread(self, low: int, high: int) -> None:
        self.late_from_us = low if self.late_from_us is None else min(low, self.late_from_us)
        self.late_to_us = high if self.late_to_us is None else max(high, self.late_to_us)
