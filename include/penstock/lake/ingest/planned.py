"""What a plan's items are read as: by the plan, or by what a person decided since."""

from dataclasses import dataclass, replace

from penstock.lake.ingest.item import Item
from penstock.lake.ingest.received import Received, one_refused
from penstock.lake.log.files import DETAIL, Decided


@dataclass(frozen=True, slots=True)
class GivenUp(Item):
    """An item that is not read any more."""

    def received(self) -> Received:
        """What it is without being read."""
        return one_refused(self, DETAIL)


def as_decided(item: Item, plan: int, decided: Decided) -> Item:
    """An item as it is to be read.

    Args:
        item: as the plan names it.
        plan: the plan's number.
        decided: what is in effect.
    """
    if (plan, item.path) in decided.given_up:
        return GivenUp(**item.to_json())
    if (plan, item.path) not in decided.as_it_is:
        return item
    size, modified = decided.as_it_is[plan, item.path]
    return replace(item, size=size, modified=modified, inode=0, ending="")
