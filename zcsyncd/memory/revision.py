"""A revision: ZCode's name for a file's state. Pure.

Source: docs/format.md; tests/vectors/revision.json.
"""

from __future__ import annotations


def node_mtime_ms(mtime_ns: int) -> float:
    """Give the milliseconds that Node reports for a file: a double, summed as Node sums it.

    Times that differ by less than about 0.25 µs become equal here, and 0.99988 ms or more rounds up.
    """
    seconds, nanoseconds = divmod(mtime_ns, 10**9)
    return seconds * 1000 + nanoseconds / 1e6


def mtime_ms(mtime_ns: int) -> int:
    """Give the milliseconds that Node reports for a file, truncated towards 1970."""
    return int(node_mtime_ms(mtime_ns))


def revision(mtime_ns: int, size: int) -> str:
    """Give `mtime:<ms>:size:<bytes>`."""
    return f"mtime:{mtime_ms(mtime_ns)}:size:{size}"
