"""Which host asked for which domain for the first time."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.custom.code import Code


class FirstContact(Code):
    """The first query of a host for a domain."""

    state = {"first": "long"}  # of a host and domain: when, us since 1970

    def map(self, records):
        """Many records at once, a pyarrow table: with the domain of each query."""
        name = pc.utf8_lower(records["query"])
        domain = pc.replace_substring_regex(name, r"^.*\.([^.]+\.[^.]+)$", r"\1")
        return records.append_column("domain", domain)

    def init(self, rows):
        """States of keys of which nothing came yet."""
        return {"first": pa.nulls(rows, pa.int64())}

    def update(self, states, records):
        """Row i of the states with row i of the records."""
        asked = records["event_time"].cast("int64")
        return {"first": pc.min_element_wise(states["first"], asked)}

    def merge(self, one, other):
        """Two states of a key as one, row by row."""
        return {"first": pc.min_element_wise(one["first"], other["first"])}

    def finish(self, states):
        """What is said of a state."""
        return {"first_seen": states["first"].cast(pa.timestamp("us", "UTC"))}
