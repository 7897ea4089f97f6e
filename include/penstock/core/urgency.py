"""When late records are worth a correction before its next scheduled run.

Source: HPM's trigger of the batch module (span of event time), with an age beside it: the span
alone never fires once lateness stops. All instants and spans are ``int`` microseconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """Late records of one step that no correction has taken.

    Attributes:
        since: arrival of the oldest.
        low, high: least and greatest event time.
    """

    since: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Urgency:
    """What a pipeline asks for.

    Attributes:
        span: of event time that may wait (HPM's Gamma); none: any.
        within: a late record is repaired this long after its arrival (T_max).
    """

    span: int | None
    within: int

    def reason(self, waiting: Waiting, now: int) -> str | None:
        """Why to correct now; none: it can wait.

        A third of ``within`` is for waiting, the rest for the run itself, which starts Spark.
        """
        if self.span is not None and waiting.high - waiting.low > self.span:
            return "span"
        if now - waiting.since > self.within // 3:
            return "age"
        return None


@dataclass(slots=True)
class Bell:
    """Asks once for what is due, and again where nobody came.

    Attributes:
        again: after this long, us.
        rung: for which positions it last asked, and when.
    """

    again: int
    rung: tuple[dict[str, int], int] | None = None

    def rings(self, due: dict[str, int], now: int) -> bool:
        """Whether to ask now.

        Args:
            due: by step, the position up to which all is repaired.
            now: us.
        """
        if not due:
            return False
        if self.rung is not None and self.rung[0] == due and now - self.rung[1] < self.again:
            return False
        self.rung = due, now
        return True
