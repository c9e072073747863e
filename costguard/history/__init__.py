"""The history, kept for months: one-minute roll-ups and incidents, in one SQLite file.

`rollup` runs in the guard and is tiny; `writer` is the short-lived process that writes; `query` reads.
"""

FILE = "history.sqlite"
"""The file's name in the state directory."""

BY, USERS = "by", "users"
"""The first entry of an event that a user of the machine caused; such events have their own quota."""

UNTOLD_HOLD = "held"
"""The kind of an event: a hold of which no message tells."""
