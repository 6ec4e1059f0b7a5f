"""The latest snapshots and findings, and the one way from a reading to events in the journal.

Rule 1: what happens between two commits is one group: its snapshots, findings and events are written together or not
at all. When the disk refuses, the snapshots before come back, so that the next look tells the change again.
Rule 2: announce what is durable: the journal first, then the subscribers.
Rule 3: what another pen wrote is saved in a transaction of its own, right behind the news of it (`keep`); what our own
pen wrote is saved in the same transaction as its news. A kill between the two is made good after the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from zcsyncd.bus.events import StoredEvent
from zcsyncd.daemon.database import Database, JournalRefused, NewEvent, Transaction
from zcsyncd.daemon.docket import Adoption, Docket, FindingRow, is_pending, reckon
from zcsyncd.daemon.history import By
from zcsyncd.daemon.readers import Readers
from zcsyncd.daemon.remembering import Act, Memory, cause_of, files_of
from zcsyncd.daemon.words import audit_data, changed_data, encode, index_data
from zcsyncd.errors import ZcsyncdError
from zcsyncd.layouts.layout import Layout
from zcsyncd.memory.audit import audit
from zcsyncd.memory.audit.history_rules import loss_key
from zcsyncd.memory.changes import Change, changes
from zcsyncd.memory.disk import is_there
from zcsyncd.memory.index import Index
from zcsyncd.memory.past import Past, due_ms, end, follow, let_go, past_from, past_row, same_row
from zcsyncd.memory.snapshot import Snapshot

log = logging.getLogger(__name__)

NOTHING_PAST = Past()
MOST_GONE = 200
"""Directories that are gone and remembered; the ones that went first are forgotten first."""


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
    past: Past = NOTHING_PAST


@dataclass(frozen=True, slots=True)
class Gone:
    """What a directory was that is gone. Should one come back under its path, this is what it is compared with."""

    snapshot: Snapshot
    past: Past
    at_ms: int
    """When it was seen to be gone, epoch milliseconds."""


@dataclass(slots=True)
class _Group:
    """What the next commit writes, and what to put back when it cannot."""

    work: Transaction = field(default_factory=Transaction)
    after: Transaction = field(default_factory=Transaction)
    """What is written behind it."""
    undo: dict[str, Kept | None] = field(default_factory=dict)
    undo_gone: dict[str, Gone | None] = field(default_factory=dict)


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
        keeps_history: bool = True,
        most_versions: int = 20,
        searches: bool = True,
    ) -> None:
        """`announce` sends events; `muted` tells a directory's silent codes; `refused` hears of directories whose
        changes could not be written and must be looked at again.
        """
        self.database = database
        self.layouts = layouts
        self.clock_ms = clock_ms
        self.grace_ms = grace_ms
        self.kept: dict[str, Kept] = {}
        self.gone_before: dict[str, Gone] = {}
        """Directories that are gone, as they were."""
        self.dismissed = database.dismissed()
        self.last_error: str | None = None
        self.last_event_ms: int | None = None
        self.memory = Memory(
            database, keeps_history=keeps_history, most_versions=most_versions, searches=searches
        )
        self._after = Transaction()
        self.readers = Readers(database, clock_ms)
        self._announce = announce
        self._muted = muted
        self._refused = refused
        self._group = _Group()
        for known in database.known:
            layout = layouts.get(known.snapshot.layout)
            past = past_from(known.past) if known.past else NOTHING_PAST
            if known.gone_ms is not None:
                self.gone_before[known.snapshot.directory] = Gone(known.snapshot, past, known.gone_ms)
            elif layout is not None:
                self.kept[known.snapshot.directory] = Kept(
                    known.snapshot,
                    layout,
                    known.first_seen_ms,
                    known.changed_ms,
                    known.findings,
                    saved_ms=known.changed_ms,
                    past=past,
                )

    # -- a reading becomes events

    def take(
        self,
        after: Snapshot,
        layout: Layout,
        *,
        files: Collection[str] | None = None,
        adopt: bool = False,
        contents: Mapping[str, bytes] | None = None,
        act: Act | None = None,
    ) -> int:
        """Take a directory's new snapshot; give the number of changes.

        `files`: the only ones that may differ from the snapshot before. `adopt`: take it in silence, it is not news.
        `contents`: bytes of files that were read. `act`: our own pen made the difference, nobody else.
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
        writer = act.by if act else self.readers.writer_of(directory, files_of(told))
        self._tell_changes(directory, layout, before, after, told, by=writer)
        if adopt:
            self.memory.unkept.add(directory)
        past = kept.past if kept else NOTHING_PAST
        gone = self._returned(directory) if kept is None else None
        if gone is not None and gone.snapshot.layout == layout.name:
            past = self._follow_return(layout, gone, after)
        if told:
            work = self._group.work if act else self._group.after
            cause = cause_of(act, writer, now_ms)
            self.memory.changed(work, before, after, told=told, contents=contents or {}, cause=cause)
            if layout.audited and kept is not None:
                knew = writer is not None and before is not None and self.readers.knew(writer, before)
                past = self._follow(
                    layout,
                    past,
                    before,
                    after,
                    files_of(told),
                    at_ms=now_ms,
                    ours=act is not None or knew,
                    by=writer,
                )
            for event in self.readers.changed(before, after, told, writer):
                self._group.work.tell(event)
        if kept is None:
            # What was told of a directory before it went was told to be over then.
            mode: Adoption = "all" if adopt else "no" if gone else "settled"
            self._replace(
                directory, Kept(after, layout, now_ms, now_ms, {}, saved_ms=now_ms, adopt=mode, past=past)
            )
        elif before is not None and (files is not None or _differs(before, after)):
            changed_ms = now_ms if told else kept.changed_ms
            self._replace(directory, replace(kept, snapshot=after, changed_ms=changed_ms, past=past))
        else:
            return 0
        work = self._group.work
        if kept is None:
            work.save_directory(after, now_ms, now_ms)
        work.save_files(gone.snapshot if gone else before, after, None if gone else files)
        return len(told)

    def _follow_return(self, layout: Layout, gone: Gone, after: Snapshot) -> Past:
        """Remember what a directory that came back lacks of what it had when it went: whoever took it took that."""
        known = {*gone.snapshot.facts, *after.facts}
        return self._follow(layout, gone.past, gone.snapshot, after, known, at_ms=gone.at_ms)

    def _follow(
        self,
        layout: Layout,
        past: Past,
        before: Snapshot | None,
        after: Snapshot,
        files: Collection[str],
        *,
        at_ms: int,
        ours: bool = False,
        by: By | None = None,
    ) -> Past:
        """Remember what a change destroyed. A loss must not be lost: it is durable with the news of the change."""
        directory, history = after.directory, self.memory.history
        followed = follow(
            past,
            before,
            after,
            at_ms=at_ms,
            files=files,
            ours=ours,
            bytes_of=history.bytes_of,
            former_indexes=lambda: history.former_hashes(directory, layout.index_name or ""),
            still_there=lambda file: is_there(directory, file),
            by=by,
        )
        if not same_row(past, followed):
            self._group.work.save_past(directory, past_row(followed))
        return followed

    def gone(self, directory: str) -> int:
        """Tell that everything in a directory is no more; give the number of changes. `forget` follows."""
        kept = self.kept.get(directory)
        if kept is None:
            return 0
        told = changes(kept.snapshot, None)
        self._tell_changes(directory, kept.layout, kept.snapshot, None, told)
        for event in self.readers.dir_gone(directory):
            self._group.work.tell(event)
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

    def forget(self, directory: str, *, is_gone: bool = False) -> None:
        """Let go of a directory; one that is not kept is let go of already.

        `is_gone`: it is no more, and remembered in case that one comes in its place; else it is no longer ours.
        """
        kept = self.kept.get(directory)
        if kept is None:
            if not is_gone:
                self.forget_gone(directory)
            return
        self._tell(
            "memory/dir-removed",
            directory,
            encode({"layout": kept.layout.name, "label": kept.layout.label(directory)}),
        )
        self._replace(directory, None)
        now_ms = self.clock_ms()
        if is_gone and kept.layout.audited:
            self._group.work.leave_directory(kept.snapshot, now_ms)
            self._replace_gone(directory, Gone(kept.snapshot, kept.past, now_ms))
            for first in sorted(self.gone_before, key=lambda each: self.gone_before[each].at_ms)[:-MOST_GONE]:
                self.forget_gone(first)
        else:
            self._group.work.drop_directory(directory)
        self.memory.let_go(self._group.work, directory, now_ms)

    def forget_gone(self, directory: str) -> None:
        """Let go of what is remembered of a directory that is gone."""
        if directory in self.gone_before:
            self._replace_gone(directory, None)
            self._group.work.drop_directory(directory)

    def forget_gone_before(self, oldest_ms: int) -> None:
        """Let go of what is remembered of directories that went before a time."""
        for directory in [each for each, gone in self.gone_before.items() if gone.at_ms < oldest_ms]:
            self.forget_gone(directory)

    def _returned(self, directory: str) -> Gone | None:
        """Give what a directory was that is there again; None: nothing is remembered."""
        gone = self.gone_before.get(directory)
        if gone is not None:
            self._replace_gone(directory, None)
            self._group.work.return_directory(directory)
        return gone

    def audit(self, directory: str) -> None:
        """Say what is wrong with a directory now, as far as it was not said before."""
        kept = self.kept.get(directory)
        if kept is None:
            return
        now_ms = self.clock_ms()
        kept = self._end_losses(directory, kept, now_ms)
        findings = (
            audit(
                kept.snapshot, kept.layout.caps, now_ms=now_ms, muted=self._muted(directory), past=kept.past
            )
            if kept.layout.audited
            else ()
        )
        docket = reckon(
            findings, kept.rows, self.dismissed, now_ms=now_ms, grace_ms=self.grace_ms, adopt=kept.adopt
        )
        due = _first(docket.next_due_ms, due_ms(kept.past))
        self._settle_docket(directory, kept, replace(docket, next_due_ms=due))

    def _end_losses(self, directory: str, kept: Kept, now_ms: int) -> Kept:
        """Forget losses that are mended, or over."""
        past = end(kept.past, kept.snapshot, now_ms=now_ms, dismissed=self.dismissed)
        if past is kept.past:
            return kept
        for loss in kept.past.losses:
            # What comes again is another loss: a dismissal was for the one that is over.
            key = loss_key(directory, loss)
            if key in self.dismissed and loss not in past.losses:
                self.forget_dismissal(key)
        if not same_row(kept.past, past):
            self._group.work.save_past(directory, past_row(past))
        left = replace(kept, past=past)
        self._replace(directory, left)
        return left

    def forget_losses(self, directory: str, file: str | None) -> None:
        """Forget what is remembered of a file (None: of all files) beside its snapshot."""
        self._forget_of_gone(directory, file)
        kept = self.kept.get(directory)
        if kept is None:
            return
        past = let_go(kept.past, file) if file is not None else NOTHING_PAST
        self._group.work.save_past(directory, past_row(past))
        self._replace(directory, replace(kept, past=past))

    def _forget_of_gone(self, directory: str, file: str | None) -> None:
        """Forget what a directory that is gone had of a file (None: of all files): with its entries and losses."""
        gone = self.gone_before.get(directory)
        if file is None:
            self.forget_gone(directory)
        if gone is None or file is None:
            return
        was = gone.snapshot
        index = None if was.index is None or was.index.file == file else without_entries(was.index, file)
        left = replace(
            was, facts={name: fact for name, fact in was.facts.items() if name != file}, index=index
        )
        past = let_go(gone.past, file)
        self._group.work.save_files(was, left)
        self._group.work.save_past(directory, past_row(past))
        self._replace_gone(directory, replace(gone, snapshot=left, past=past))

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
        *,
        by: By | None = None,
    ) -> None:
        for data in changed_data(told, by):
            self._tell("memory/changed", directory, data)
        old, new = before.index if before else None, after.index if after else None
        if layout.index_name and any(change.file == layout.index_name for change in told):
            self._tell("memory/index", directory, index_data(old, new, layout.caps, by))

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

    def _replace_gone(self, directory: str, gone: Gone | None) -> None:
        self._group.undo_gone.setdefault(directory, self.gone_before.get(directory))
        if gone is None:
            self.gone_before.pop(directory, None)
        else:
            self.gone_before[directory] = gone

    def commit(self) -> bool:
        """Write the open group and announce its events; False when the disk refused, and all is as it was."""
        group, self._group = self._group, _Group()
        self.readers.write(group.work)
        if group.work.empty:
            return True
        try:
            events = self.database.commit(group.work)
        except JournalRefused as error:
            self.readers.settled(written=False)
            self._put_back(group, error)
            return False
        self.readers.settled(written=True)
        self.last_error = None
        self._after.statements += group.after.statements
        if events:
            self._announce(events)
        return True

    def keep(self) -> None:
        """Write what was put off until the news was out."""
        after, self._after = self._after, Transaction()
        self._commit_memory(after, self.memory.taken())

    def take_words(self) -> None:
        """Take in the words of the facts that changed."""
        self._commit_memory(*self.memory.words())

    def _commit_memory(self, work: Transaction, directories: Collection[str]) -> None:
        try:
            self.database.commit(work)
        except JournalRefused as error:
            log.warning("memory refused=%r", str(error))
            self.memory.unkept |= set(directories) & self.kept.keys()

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
        for directory, gone in group.undo_gone.items():
            if gone is None:
                self.gone_before.pop(directory, None)
            else:
                self.gone_before[directory] = gone
        self.dismissed = self.database.dismissed()
        self.memory.unkept |= group.undo.keys() & self.kept.keys()
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


def without_entries(index: Index, file: str) -> Index:
    """Give an index as if it had no entries of a file."""
    entries = tuple(entry for entry in index.entries if file not in (entry.target, unquote(entry.target)))
    # Its remarks were about a text that is gone, and may name the file.
    return replace(index, entries=entries, beyond=(), swallowed=(), remarks=())


def _first(*times_ms: int | None) -> int | None:
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
