"""The numbers of the wire: version and bounds that both ends agree on. Pure.

Rule 1: every bound of the bus is a constant here, with its reason (docs/protocol.md states them to clients).
Rule 2: the control client imports this module on its fast path, so it imports nothing itself.
"""

PROTOCOL = 1
"""The version of the protocol that this daemon speaks."""

LINE_BYTES = 1_048_576
"""Longest line, its newline included: a reader may keep one line in memory without thinking."""

NESTING = 100
"""Deepest nesting of a request; ours need five. Python's parser gives up near a thousand."""

ID_CHARACTERS = 1024
"""Longest string that may be a request's `id`: it is echoed, and an answer has to fit on a line too."""

CONNECTIONS = 256
"""Connections at a time: a quarter of the usual 1,024 descriptors of a process."""

BACKLOG = CONNECTIONS
"""Connections that the kernel keeps for us while the loop is busy: when it is full, connecting fails at once."""

SUBSCRIPTIONS = 64
"""Subscriptions of one connection; a session needs one, a dashboard a handful."""

WAITING = 64
"""Requests that wait on one connection before we stop reading from it."""

READY_WAIT_S = 5.0
"""How long a request about memory waits for the first scan before it is `not-ready`."""

PAGE = 500
"""Longest page of a list that one answer gives."""

FEED_EVENTS = 128
"""Events that one connection is fed in one go, before the loop sees to the others (under 3 ms)."""

WRITE_BYTES = 65_536
"""How much is joined into one write: what does not fit into the socket stays in our memory, so it is bounded."""
