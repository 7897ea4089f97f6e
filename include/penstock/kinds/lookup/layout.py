"""How alarms lie in columns."""

from penstock.kinds.keyed.layout import KeyedLayout

LAYOUT = KeyedLayout
