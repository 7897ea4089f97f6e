"""How it goes through the runners: as windows do."""

from penstock.kinds.windowed.frame import FRAME

__all__ = ["FRAME"]
