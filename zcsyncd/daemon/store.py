"""The latest snapshots and findings, and the one way from a reading to events in the journal.

Rule 1: what happens between two commits is one group: its snapshots, findings and events are written together or not
at all. When the disk refuses, the snapshots before come back, so that the next look tells the change again.
Rule 2: announce what is durable: the journal first, then the subscribers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zcsyncd.bus.events import StoredEvent
from zcsyncd.daemon.database import Database, JournalRefused, NewEvent, Transaction
from zcsyncd.daemon.docket import Adoption, Docket, FindingRow, is_pending, reckon
from zcsyncd.daemon.words import audit_data, changed_data, encode, index_data
from zcsyncd.errors import ZcsyncdError
from zcsyncd.layouts.layout import Layout
from zcsyncd.memory.audit import audit
from zcsyncd.memory.changes import Change, changes
from zcsyncd.memory.snapshot import Snapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """One memory directory that the daemon keeps."""

    snapshot: Snapshot
    layout: Layout
    first_seen_ms: int
    changed_ms: int
    rows: Mapping[str, FindingRow]
    counts: tuple[int, int, int] = (0, 0, 0)
    next_due_ms: int | None = None
    saved_ms: int = 0
    """The `changed_ms` that the database has."""
    audited: bool = False
    """False until the first audit of this run."""
    adopt: Adoption = "no"
    """How the next audit takes what it finds (daemon.docket, Rule 3)."""


@dataclass(slots=True)
class _Group:
    """What the next commit writes, and what to put back when it cannot."""

    work: Transaction = field(default_factory=Transaction)
    undo: dict[str, Kept | None] = field(default_factory=dict)


class Store:
    """Snapshots by directory; every change goes through `take`, `audit`, `commit`."""

    def __init__(
        self,
        database: Database,
        layouts: Mapping[str, Layout],
        announce: Callable[[Sequence[StoredEvent]], None],
        *,
        clock_ms: Callable[[], int],
        grace_ms: int,
        muted: Callable[[str], frozenset[str]],
        refused: Callable[[Sequence[str]], None],
    ) -> None:
        """`announce` sends events; `muted` tells a directory's silent codes; `refused` hears of directories whose
        changes could not be written and must be looked at again.
        """
        self.database = database
        self.layouts = layouts
        self.clock_ms = clock_ms
        self.grace_ms = grace_ms
        self.kept: dict[str, Kept] = {}
        self.dismissed = database.dismissed()
        self.last_error: str | None = None
        self.last_event_ms: int | None = None
        self._announce = announce
        self._muted = muted
        self._refused = refused
        self._group = _Group()
        for known in database.known:
            layout = layouts.get(known.snapshot.layout)
            if layout is not None:
                self.kept[known.snapshot.directory] = Kept(
                    known.snapshot,
                    layout,
                    known.first_seen_ms,
                    known.changed_ms,
                    known.findings,
                    saved_ms=known.changed_ms,
                )

    # -- a reading becomes events

    def take(
        self,
        after: Snapshot,
        layout: Layout,
        *,
        files: Collection[str] | None = None,
        adopt: bool = False,
    ) -> int:
        """Take a directory's new snapshot; give the number of changes.

        `files`: the only ones that may differ from the snapshot before. `adopt`: take it in silence, it is not news.
        """
        directory = after.directory
        kept = self.kept.get(directory)
        before = kept.snapshot if kept else None
        told = changes(before, after, files) if kept or not adopt else ()
        now_ms = self.clock_ms()
        if kept is None and not adopt:
            self._tell(
                "memory/dir-added",
                directory,
                encode({"layout": layout.name, "label": layout.label(directory)}),
            )
        self._tell_changes(directory, layout, before, after, told)
        if kept is None:
            mode: Adoption = "all" if adopt else "settled"
            self._replace(directory, Kept(after, layout, now_ms, now_ms, {}, saved_ms=now_ms, adopt=mode))
        elif before is not None and (files is not None or _differs(before, after)):
            self._replace(
                directory, replace(kept, snapshot=after, changed_ms=now_ms if told else kept.changed_ms)
            )
        else:
            return 0
        work = self._group.work
        if kept is None:
            work.save_directory(after, now_ms, now_ms)
        work.save_files(before, after, files)
        return len(told)

    def gone(self, directory: str) -> int:
        """Tell that everything in a directory is no more; give the number of changes. `forget` follows."""
        kept = self.kept.get(directory)
        if kept is None:
            return 0
        told = changes(kept.snapshot, None)
        self._tell_changes(directory, kept.layout, kept.snapshot, None, told)
        cleared = tuple(
            row
            for key, row in kept.rows.items()
            if row.told and row.finding.severity != "info" and key not in self.dismissed
        )
        if cleared:
            self._tell(
                "memory/audit", directory, audit_data(directory, Docket({}, (), cleared, (0, 0, 0), None))
            )
        return len(told)

    def forget(self, directory: str) -> None:
        """Let go of a directory; one that is not kept is let go of already."""
        kept = self.kept.get(directory)
        if kept is None:
            return
        self._tell(
            "memory/dir-removed",
            directory,
            encode({"layout": kept.layout.name, "label": kept.layout.label(directory)}),
        )
        self._replace(directory, None)
        self._group.work.drop_directory(directory)

    def audit(self, directory: str) -> None:
        """Say what is wrong with a directory now, as far as it was not said before."""
        kept = self.kept.get(directory)
        if kept is None:
            return
        now_ms = self.clock_ms()
        findings = (
            audit(kept.snapshot, kept.layout.caps, now_ms=now_ms, muted=self._muted(directory))
            if kept.layout.audited
            else ()
        )
        docket = reckon(
            findings, kept.rows, self.dismissed, now_ms=now_ms, grace_ms=self.grace_ms, adopt=kept.adopt
        )
        self._settle_docket(directory, kept, docket)

    def _settle_docket(self, directory: str, kept: Kept, docket: Docket) -> None:
        first = kept.adopt != "no"
        recounted = kept.audited and docket.counts[:2] != kept.counts[:2]
        if docket.appeared or docket.cleared or first or recounted:
            self._tell("memory/audit", directory, audit_data(directory, docket))
        work = self._group.work
        if kept.changed_ms != kept.saved_ms:
            # Not on the way of the change: a time that only a person reads must not make the news later.
            work.save_directory(kept.snapshot, kept.first_seen_ms, kept.changed_ms)
        for key, row in docket.rows.items():
            if kept.rows.get(key) != row:
                work.save_finding(directory, key, row)
        for key in kept.rows:
            if key not in docket.rows:
                work.drop_finding(directory, key)
        self._replace(
            directory,
            replace(
                kept,
                rows=docket.rows,
                counts=docket.counts,
                next_due_ms=docket.next_due_ms,
                audited=True,
                saved_ms=kept.changed_ms,
                adopt="no",
            ),
        )

    def dismiss(self, key: str, *, undo: bool) -> str | None:
        """Silence a finding for good, or let it speak again; give its directory, None when there is no such key."""
        for directory, kept in self.kept.items():
            row = kept.rows.get(key)
            if row is None:
                continue
            now_ms = self.clock_ms()
            (self.dismissed.discard if undo else self.dismissed.add)(key)
            self._group.work.dismiss(key, directory, now_ms, undo=undo)
            self.audit(directory)
            return directory
        return None

    def forget_dismissal(self, key: str) -> None:
        """Let a finding speak again that is not there at the moment."""
        self.dismissed.discard(key)
        self._group.work.dismiss(key, "", self.clock_ms(), undo=True)

    def pending(self, row: FindingRow) -> bool:
        """Tell whether a finding still waits for its other half."""
        return is_pending(row, self.clock_ms(), self.grace_ms)

    # -- events

    def tell(
        self,
        topic: str,
        data: Mapping[str, object],
        session: tuple[str, str] | None = None,
        directory: str | None = None,
    ) -> None:
        """Add an event of the daemon itself, or of a session, to the open group."""
        self._group.work.tell(NewEvent(topic, directory, encode(data), self.clock_ms(), session))

    def _tell(self, topic: str, directory: str, data: str) -> None:
        now_ms = self.clock_ms()
        self.last_event_ms = now_ms
        self._group.work.tell(NewEvent(topic, directory, data, now_ms))

    def _tell_changes(
        self,
        directory: str,
        layout: Layout,
        before: Snapshot | None,
        after: Snapshot | None,
        told: Sequence[Change],
    ) -> None:
        for data in changed_data(told):
            self._tell("memory/changed", directory, data)
        old, new = before.index if before else None, after.index if after else None
        if layout.index_name and any(change.file == layout.index_name for change in told):
            self._tell("memory/index", directory, index_data(old, new, layout.caps))

    # -- the group

    @property
    def work(self) -> Transaction:
        """The open group's transaction, for what else belongs into it."""
        return self._group.work

    def _replace(self, directory: str, kept: Kept | None) -> None:
        self._group.undo.setdefault(directory, self.kept.get(directory))
        if kept is None:
            self.kept.pop(directory, None)
        else:
            self.kept[directory] = kept

    def commit(self) -> bool:
        """Write the open group and announce its events; False when the disk refused, and all is as it was."""
        group, self._group = self._group, _Group()
        if group.work.empty:
            return True
        try:
            events = self.database.commit(group.work)
        except JournalRefused as error:
            self._put_back(group, error)
            return False
        self.last_error = None
        if events:
            self._announce(events)
        return True

    def commit_or_raise(self) -> None:
        """Write the open group for somebody who waits for it.

        Raises: ZcsyncdError, and nothing was kept.
        """
        if not self.commit():
            self.raise_refusal()

    def raise_refusal(self) -> None:
        """Tell that the disk refuses to keep what happens.

        Raises: ZcsyncdError, as long as it does.
        """
        if self.last_error is not None:
            raise ZcsyncdError(
                self.last_error, hint="make room on the disk; changes are told once it takes them"
            )

    def _put_back(self, group: _Group, error: JournalRefused) -> None:
        text = f"{self.database.path} cannot be written: {error}"
        if self.last_error != text:
            log.error("journal refused=%r", text)
        self.last_error = text
        for directory, kept in group.undo.items():
            if kept is None:
                self.kept.pop(directory, None)
            else:
                self.kept[directory] = kept
        self.dismissed = self.database.dismissed()
        self._refused(tuple(group.undo))


def _differs(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether there is anything to keep: other facts or stats, another index, other strays."""
    if (
        before.index is not after.index
        or before.strays != after.strays
        or len(before.facts) != len(after.facts)
    ):
        return True
    return any(before.facts.get(file) is not fact for file, fact in after.facts.items())
