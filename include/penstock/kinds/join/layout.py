"""How pairs lie in columns."""

from penstock.kinds.keyed.layout import KeyedLayout

LAYOUT = KeyedLayout
