"""A revision: ZCode's name for a file's state. Pure.

Source: docs/format.md; tests/vectors/revision.json.
"""

from __future__ import annotations


def mtime_ms(mtime_ns: int) -> int:
    """Give the milliseconds that Node reports for a file, truncated: the sum is made in doubles, as Node does."""
    seconds, nanoseconds = divmod(mtime_ns, 10**9)
    return int(seconds * 1000 + nanoseconds / 1e6)


def revision(mtime_ns: int, size: int) -> str:
    """Give `mtime:<ms>:size:<bytes>`."""
    return f"mtime:{mtime_ms(mtime_ns)}:size:{size}"
