"""What a read is worth by now: a read and the file as it is to a state. Pure.

Rule 1: `current` needs proof: two content hashes that are equal. Neither an equal revision nor the silence of the
watch is one.
Rule 2: a time alone makes nothing stale. What differs is a hash, a size, or a change that was seen after the read.
"""

from __future__ import annotations

from dataclasses import replace

from zcsyncd.sessions.session import UNKNOWN, Now, Outdated, Read, State


def is_same(read: Read, now: Now) -> bool | None:
    """Tell whether the file holds what was read. None: nobody can say."""
    if read.content_hash is not None and now.content_hash is not None:
        return read.content_hash == now.content_hash
    if read.size not in (UNKNOWN, now.size):
        return False
    return None


def is_stamp(read: Read, now: Now | None) -> bool:
    """Tell whether the bytes differ from those read and yet say the same."""
    if now is None or read.meaning_hash is None or is_same(read, now) is not False:
        return False
    return read.meaning_hash == now.meaning_hash


def state_of(read: Read | None, now: Now | None) -> State:
    """Give a read's state. `now` None: there is no such file.

    A full read whose content nobody can compare is `unread`: it is not known to have been of this content, and not
    known to be outdated.
    """
    if read is None or read.forgotten:
        return "unread"
    if now is None:
        return "gone"
    same = is_same(read, now)
    if same is None and read.outdated is not None and not _same_revision(read, now):
        same = False  # the watch saw the bytes change after the read
    if same is False:
        return "stale"
    if read.kind == "full":
        return "current" if same else "unread"
    return read.kind


def outdated_by(read: Read, now: Now | None) -> Outdated | None:
    """Tell what a change of the file's bytes into `now` has made of a read. None: it is good still, or again."""
    if now is None:
        return "gone"
    same = is_same(read, now)
    if same is None:
        # Bytes that cannot be read may be those that were read. A read of the very revision that the change
        # arrived at came after the change, whichever of the two was heard of first.
        blind = now.content_hash is None or _same_revision(read, now)
        return read.outdated if blind else "stale"
    return None if same else "stale"


def merged(before: Read | None, read: Read) -> Read:
    """Give what is kept when a file is read once more.

    A look at a part, or one that nobody gave a hash for, takes nothing away from a full read of the same content.
    """
    if before is None or before.kind != "full" or before.forgotten:
        return read
    if read.content_hash is None:
        same = _same_revision(before, Now(None, None, read.mtime_ms, read.size))
    else:
        same = read.kind != "full" and read.content_hash == before.content_hash
    return replace(before, at_ms=read.at_ms, outdated=None) if same else read


def _same_revision(read: Read, now: Now) -> bool:
    if UNKNOWN in (read.mtime_ms, read.size):
        return False
    return (read.mtime_ms, read.size) == (now.mtime_ms, now.size)
