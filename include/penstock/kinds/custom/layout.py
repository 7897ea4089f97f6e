"""How answers of user code lie in columns."""

from penstock.kinds.keyed.layout import KeyedLayout

LAYOUT = KeyedLayout
