"""What a session has learned by reading is no news to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.sessions.files import FileNet
from zcsyncd.sessions.merge import Merged
from zcsyncd.sessions.session import Session

READ_SLACK_MS: Final = 2_000
"""A file may be read before its event is in the journal: by so much a read may seem older than its file."""


def without_read(merged: Merged, session: Session, snapshots: Mapping[str, Snapshot]) -> Merged:
    """Leave out what the session has read as it is now; add what it had read of files that came and went.

    Reads that a compaction may have taken out of the model's context count for nothing.
    """
    directories = {net.directory for net in merged.files} | {net.directory for net in merged.entries}
    known = {
        directory for directory in directories if _has_index(session, directory, snapshots.get(directory))
    }
    files = [
        left
        for net in merged.files
        if not (net.is_index and net.directory in known)
        and (left := _unread_part(net, session, snapshots.get(net.directory))) is not None
    ]
    files += [net for net in merged.passed if _read_meanwhile(net, session)]
    return replace(
        merged,
        files=tuple(files),
        passed=(),
        entries=tuple(net for net in merged.entries if net.directory not in known),
    )


def _has_index(session: Session, directory: str, snapshot: Snapshot | None) -> bool:
    """Tell whether the session was given the present text of an index. One that is cut does not show all entries."""
    if directory not in session.index_reads:
        return False
    index = snapshot.index if snapshot else None
    if index is not None and index.truncated:
        return False
    return session.index_reads[directory] == (index.text_hash if index else None)


def _unread_part(net: FileNet, session: Session, snapshot: Snapshot | None) -> FileNet | None:
    read = session.reads.get((net.directory, net.file))
    fact = snapshot.facts.get(net.file) if snapshot else None
    if read is None or read.forgotten or fact is None or net.kind == "deleted":
        return net
    if read.content_hash is not None and read.content_hash == fact.content_hash:
        return replace(net, updated=False) if net.kind == "renamed" else None
    if read.meaning_hash is not None and read.meaning_hash == fact.meaning_hash:
        return replace(net, updated=False) if net.kind == "renamed" else replace(net, kind="file")
    return net


def _read_meanwhile(net: FileNet, session: Session) -> bool:
    read = session.reads.get((net.directory, net.file))
    return read is not None and not read.forgotten and read.at_ms >= net.since_ms - READ_SLACK_MS
