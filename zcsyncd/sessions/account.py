"""The account of who has read what and who was told what: sessions over time. Time is an argument. Pure.

Rule 1: a session is only ever said to have read what it read or wrote itself.
Rule 2: that a read is outdated is told once, and once more when the file goes altogether.
Rule 3: what nobody can know is adopted in silence: an unknown or lapsed session begins with the present.
Rule 4: everything here is bounded; the oldest goes first.
Rule 5: after each step `dirty` and `gone` name the rows to write, so the account outlives the daemon (sessions/rows).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from zcsyncd.sessions.reading import is_same, is_stamp, merged, outdated_by, state_of
from zcsyncd.sessions.session import (
    UNKNOWN,
    Held,
    Kind,
    Now,
    Outdated,
    Place,
    Read,
    Session,
    Stale,
    State,
    Told,
    Who,
)
from zcsyncd.sessions.steps import (
    compacted,
    confirmed,
    forked,
    in_journal,
    started,
    with_index_read,
    with_read,
    without_file,
    without_index_read,
)

__all__ = [
    "UNKNOWN",
    "Account",
    "Held",
    "Kind",
    "Moment",
    "Now",
    "Outdated",
    "Place",
    "Read",
    "Reason",
    "Session",
    "Stale",
    "State",
    "Told",
    "Who",
    "is_same",
    "is_stamp",
    "state_of",
]

Reason = Literal["start", "attach", "compact", "fork"]

LAPSE_MS: Final = 14 * 86_400_000
"""A session that was not heard of for so long is over (docs/protocol.md, "Hello and sessions")."""
CONTACT_STEP_MS: Final = 60_000
"""A contact alone writes no row more often than this: after a crash a session lapses a minute early at most."""
MAX_SESSIONS: Final = 2_000
"""Sessions lapse after two weeks: that is 140 new ones each day."""

_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Moment:
    """The account as it stood, for `Account.back_to`."""

    sessions: Mapping[Who, Session]
    dirty: frozenset[Who]
    gone: frozenset[Who]


class Account:
    """Sessions, their reads and their baselines. Not for two threads."""

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self._sessions: dict[Who, Session] = {}
        self._readers: dict[Place, set[Who]] = {}
        self._dirty: set[Who] = set()
        self._gone: set[Who] = set()
        for session in sorted(sessions, key=lambda each: each.last_contact_ms):
            self._keep(session)
        self._dirty.clear()

    # -- sessions come and go

    def hello(
        self,
        who: Who,
        *,
        cwd: str,
        dirs: Collection[str] = (),
        reason: Reason = "attach",
        parent: str | None = None,
        now_ms: int,
        journal: str,
        head: int,
        index_texts: Callable[[], Mapping[str, str | None]],
    ) -> Session:
        """Note that a session is there, and give it as it stands now.

        `parent` is an id of the same host; `head` the sequence of the journal's last event; `index_texts` gives the
        hashes of the index texts of the session's directories as they are now. It is asked for a `start` only: that
        word says that the host has just put the index before the model.
        """
        known = self._living(who, now_ms)
        base = known or self._parent(who, parent if reason == "fork" else None, now_ms)
        if base is None:
            session = Session(who, cwd, now_ms, now_ms, journal, head, head, tuple(dirs))
        else:
            kept = in_journal(base, journal, head)
            session = replace(kept, cwd=cwd, dirs=tuple(dirs) or kept.dirs)
        if reason == "start":
            session = started(session, head, index_texts())
        elif reason == "compact":
            session = compacted(session)
        if session != known:
            self._keep(session)
        self.contact(who, now_ms)
        return self._sessions[who]

    def _parent(self, who: Who, parent: str | None, now_ms: int) -> Session | None:
        """Give the child of a parent that is known; a session that is known itself forks no second time."""
        found = None if parent is None else self._living((who[0], parent), now_ms)
        return None if found is None else forked(found, who, now_ms)

    def contact(self, who: Who, now_ms: int) -> bool:
        """Note that a session talks. False: it is not known (any more); it has to say hello anew."""
        session = self._living(who, now_ms)
        if session is None:
            return False
        if now_ms > session.last_contact_ms:
            self._sessions[who] = replace(session, last_contact_ms=now_ms)
            if now_ms // CONTACT_STEP_MS != session.last_contact_ms // CONTACT_STEP_MS:
                self._dirty.add(who)
        return True

    def lapse(self, now_ms: int) -> list[Who]:
        """Let go of the sessions that are over, and name them."""
        over = [who for who, session in self._sessions.items() if _is_over(session, now_ms)]
        for who in over:
            self._drop(who)
        return over

    def end(self, who: Who) -> bool:
        """Forget a session. False: it was not known."""
        return self._drop(who)

    def get(self, who: Who) -> Session | None:
        """Give a session as it stands."""
        return self._sessions.get(who)

    def sessions(self) -> list[Session]:
        """Give all sessions, the one heard of last first."""
        return sorted(self._sessions.values(), key=lambda each: (-each.last_contact_ms, each.who))

    # -- reads

    def read(self, who: Who, read: Read) -> bool:
        """Note what a session has read. False: the session is not known.

        A report may come later than the change that it had not seen: ask `overdue` behind it.
        """
        session = self._sessions.get(who)
        if session is None:
            return False
        self._keep_read(session, merged(session.reads.get(read.place), read), latest=True)
        return True

    def check(self, who: Who, directory: str, file: str, now: Now | None) -> State:
        """Tell what a session's read of a file is worth. `now` None: there is no such file."""
        return state_of(self.read_of(who, directory, file), now)

    def read_of(self, who: Who, directory: str, file: str) -> Read | None:
        """Give a session's last read of a file; None: it has read nothing of it."""
        session = self._sessions.get(who)
        return None if session is None else session.reads.get((directory, file))

    def overdue(self, who: Who, directory: str, file: str, now: Now | None) -> Stale | None:
        """Give what a session should have been told of a read, and note it as told. None: nothing."""
        read = self.read_of(who, directory, file)
        if read is None or state_of(read, now) not in ("stale", "gone"):
            return None
        return self._judge(self._sessions[who], read, now)

    def changed(self, directory: str, file: str, now: Now | None, by: Who | None, at_ms: int) -> list[Stale]:
        """Note that a file's bytes changed (`now` None: it is gone), and tell whose reads that made outdated.

        The writer is not told: it now has read what it wrote.
        """
        if by is not None and by in self._sessions:
            self._wrote(self._sessions[by], directory, file, now, at_ms)
        others = self._readers.get((directory, file), set()) - {by}
        judged = [
            self._judge(self._sessions[who], self._sessions[who].reads[directory, file], now)
            for who in sorted(others)
        ]
        return [stale for stale in judged if stale is not None]

    def renamed(
        self, directory: str, old: str, new: str, *, now: Now, by: Who | None, at_ms: int
    ) -> list[Stale]:
        """Note that a file has another name, and tell whose reads that made outdated.

        What was read under the old name is gone. Under the new one nobody has read anything but the writer, which
        knows where it moved what it had read.
        """
        moved = None if by is None else self.read_of(by, directory, old)
        told = [
            *self.changed(directory, old, None, by, at_ms),
            *self.changed(directory, new, now, None, at_ms),
        ]
        if by is not None and moved is not None:
            self._keep_read(self._sessions[by], replace(moved, file=new), latest=True)
        return [stale for stale in told if stale.who != by]

    def dir_gone(self, directory: str) -> list[Stale]:
        """Note that a memory directory is gone with all its files, and tell whose reads that made outdated."""
        files = sorted(file for where, file in self._readers if where == directory)
        return [stale for file in files for stale in self.changed(directory, file, None, None, 0)]

    def _judge(self, session: Session, read: Read, now: Now | None) -> Stale | None:
        """Note what a change made of a read; give what is to be told of it."""
        fate = outdated_by(read, now)
        if fate == read.outdated:
            return None
        self._keep_read(session, replace(read, outdated=fate), latest=False)
        news = not read.forgotten and (fate == "gone" or (fate == "stale" and read.outdated is None))
        return Stale(session.who, read, now, is_stamp(read, now)) if news else None

    def _wrote(self, session: Session, directory: str, file: str, now: Now | None, at_ms: int) -> None:
        read = session.reads.get((directory, file))
        if now is not None:
            whole = Read(directory, file, "full", now.content_hash, now.mtime_ms, now.size, at_ms)
            own = replace(whole, own=True, meaning_hash=now.meaning_hash)
            self._keep_read(session, own, latest=True)
        elif read is not None:
            self._keep_read(session, replace(read, outdated="gone"), latest=False)

    # -- the index

    def index_given(self, who: Who, directory: str, text_hash: str | None) -> bool:
        """Note which index text a session was given (None: that there is none). False: the session is not known."""
        session = self._sessions.get(who)
        if session is None:
            return False
        if session.index_reads.get(directory, _NOTHING) == text_hash:
            return True
        self._keep(with_index_read(session, directory, text_hash))
        return True

    def index_wrote(self, who: Who, directory: str, before: str | None, after: str | None) -> None:
        """Note that a session changed the index: if it knew the text before, it knows the one after."""
        session = self._sessions.get(who)
        if session is not None and session.index_reads.get(directory, _NOTHING) == before:
            self.index_given(who, directory, after)

    def index_stale(self, who: Who, directory: str, text_hash_now: str | None) -> bool:
        """Tell whether a session was given another index text than the present. False also if nobody knows of one."""
        session = self._sessions.get(who)
        if session is None or directory not in session.index_reads:
            return False
        return session.index_reads[directory] != text_hash_now

    def held_by(self, directory: str, text_hash_now: str | None) -> list[Who]:
        """Name the sessions that still hold an index text which is not the present one."""
        return sorted(
            who
            for who, session in self._sessions.items()
            if session.index_reads.get(directory) not in (None, text_hash_now)
        )

    # -- news

    def answered(self, who: Who, told: Told) -> bool:
        """Note what a session was answered; it replaces the answer before. False: the session is not known."""
        session = self._sessions.get(who)
        if session is None:
            return False
        self._keep(replace(session, told=told))
        return True

    def confirm(self, who: Who, token: str | None, *, told: bool) -> bool:
        """Note whether the last answer reached the model. `token` None: the last one given, if one waits.

        Told: the baseline moves. Not told: it is said again. False: no such answer waits (a newer one was given, a
        compaction or a new start came between), or the session is not known. To confirm twice is no mistake.
        """
        session = self._sessions.get(who)
        if session is None:
            return False
        answer = session.told
        if answer is None or token not in (None, answer.token):
            return token is None or token == session.confirmed
        self._keep(confirmed(session, answer) if told else replace(session, told=None))
        return True

    # -- what a purge asks for

    def forget_file(self, directory: str, file: str | None = None) -> None:
        """Forget every read of a file and its hashes; `file` None: of all the directory's files, and its index."""
        for session in list(self._sessions.values()):
            left = without_file(session, directory, file)
            if left is not session:
                self._keep(left)
        if file is None:
            self.forget_index(directory)

    def forget_index(self, directory: str) -> None:
        """Forget which text of the directory's index anybody was given."""
        for session in list(self._sessions.values()):
            left = without_index_read(session, directory)
            if left is not session:
                self._keep(left)

    # -- rows, and steps that a disk refused

    def dirty(self) -> set[Who]:
        """Name the sessions whose rows are to be written, each once."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    def gone(self) -> set[Who]:
        """Name the sessions whose rows are to be removed, each once."""
        gone, self._gone = self._gone, set()
        return gone

    def moment(self) -> Moment:
        """Give the account as it stands; a copy of one dictionary, however much was read."""
        return Moment(dict(self._sessions), frozenset(self._dirty), frozenset(self._gone))

    def back_to(self, moment: Moment) -> None:
        """Undo what came after `moment`, which was taken before `dirty` was asked: its rows could not be written."""
        differing = [
            who
            for who in self._sessions.keys() | moment.sessions.keys()
            if self._sessions.get(who) is not moment.sessions.get(who)
        ]
        for who in differing:
            self._drop(who)
        for who in differing:
            if who in moment.sessions:
                self._keep(moment.sessions[who])
        self._dirty |= moment.dirty & self._sessions.keys()
        self._gone |= moment.gone - self._sessions.keys()

    # -- the table itself

    def _living(self, who: Who, now_ms: int) -> Session | None:
        """Give a session; one that is over goes."""
        session = self._sessions.get(who)
        if session is not None and _is_over(session, now_ms):
            self._drop(who)
            return None
        return session

    def _keep(self, session: Session) -> None:
        """Put a session in its place, and whoever reads what with it."""
        who = session.who
        before = self._sessions.get(who)
        known: Mapping[Place, Read] = before.reads if before else {}
        if session.reads is not known:
            for place in known.keys() - session.reads.keys():
                self._unread(who, place)
            for place in session.reads.keys() - known.keys():
                self._readers.setdefault(place, set()).add(who)
        self._sessions[who] = session
        self._dirty.add(who)
        self._gone.discard(who)
        if before is None and len(self._sessions) > MAX_SESSIONS:
            self._drop(min(self._sessions.keys() - {who}, key=self._heard))

    def _keep_read(self, session: Session, read: Read, *, latest: bool) -> None:
        """Put one read in its place. As `_keep`, but it costs no walk over all that the session has read."""
        who, before = session.who, session.reads
        after = with_read(session, read, latest=latest)
        if len(after.reads) < len(before) + (read.place not in before):
            for place in before.keys() - after.reads.keys():
                self._unread(who, place)
        self._readers.setdefault(read.place, set()).add(who)
        self._sessions[who] = after
        self._dirty.add(who)

    def _heard(self, who: Who) -> tuple[int, Who]:
        return (self._sessions[who].last_contact_ms, who)

    def _drop(self, who: Who) -> bool:
        session = self._sessions.pop(who, None)
        if session is None:
            return False
        for place in session.reads:
            self._unread(who, place)
        self._dirty.discard(who)
        self._gone.add(who)
        return True

    def _unread(self, who: Who, place: Place) -> None:
        readers = self._readers[place]
        readers.discard(who)
        if not readers:
            del self._readers[place]


def _is_over(session: Session, now_ms: int) -> bool:
    return now_ms - session.last_contact_ms > LAPSE_MS
