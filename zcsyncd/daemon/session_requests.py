"""What a session asks about itself: what it has read, what it has not been told. The rest of requests: daemon.handlers.

Rule 1: whatever is noted for a session is durable before it is answered.
Rule 2: news is told of one moment: what was found is committed before the events are read.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from zcsyncd.daemon.readers import now_of, read_of
from zcsyncd.daemon.remembering import file_of
from zcsyncd.errors import InvalidRequest, NotFound, Refused, ZcsyncdError
from zcsyncd.memory.answers import absolute, time_text
from zcsyncd.memory.audit.names import nfc
from zcsyncd.memory.disk import is_unchanged, read_file
from zcsyncd.memory.fact import parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.revision import revision
from zcsyncd.sessions.account import UNKNOWN, Now, Read, State, is_stamp
from zcsyncd.sessions.news import ALARM_CODES, Event, News, news

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zcsyncd.bus.connection import Session as Named
    from zcsyncd.bus.events import StoredEvent
    from zcsyncd.bus.server import Call, Link
    from zcsyncd.daemon.app import Daemon
    from zcsyncd.daemon.docket import FindingRow
    from zcsyncd.memory.audit.finding import Finding
    from zcsyncd.memory.snapshot import Snapshot
    from zcsyncd.sessions.account import Session, Who

Answer = dict[str, object]

MOST_AT_ONCE = 200
"""Events that are merged on the loop."""
EVENTS_AT_A_TIME = 500
"""Events that are read and taken apart before others have their turn."""
_TOPICS = ("memory/changed", "memory/index")


class SessionRequests:
    """Answers `session.*`, `readState.*` and `write.intent`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._counts: dict[Who, _Count] = {}
        """What `session.list` found last."""
        self._alarms: dict[str, tuple[Mapping[str, FindingRow], list[FindingRow]]] = {}
        """Of each directory's findings those that may be alarms: a directory may have thousands of others."""

    # -- coming and going

    def hello(self, said: Named) -> None:
        """Note that a session is there; before the first scan is done that has to wait for it."""
        if not self._daemon.ready.is_set():
            self._daemon.when_ready.append(lambda: self.hello(said))
            return
        daemon = self._daemon
        journal, head = daemon.database.journal_id, daemon.database.head
        daemon.store.readers.begin().hello(
            (said.host, said.id),
            cwd=said.cwd,
            dirs=said.dirs,
            reason=said.reason,
            parent=said.parent,
            now_ms=daemon.store.clock_ms(),
            journal=journal,
            head=head,
            index_texts=lambda: self._texts(said),
        )
        daemon.store.commit()

    def _texts(self, said: Named) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for directory in self._directories(said):
            kept = self._daemon.store.kept.get(directory)
            if kept is not None:
                index = kept.snapshot.index
                found[directory] = index.text_hash if index else None
        return found

    def _directories(self, said: Named) -> frozenset[str]:
        return self._daemon.territory.session_directories(said.cwd, said.dirs)

    def contact(self, link: Link) -> None:
        """Note that a session talks; one that is not known any more begins anew."""
        said = link.session
        if said is None or not self._daemon.ready.is_set():
            return
        store = self._daemon.store
        if not store.readers.begin().contact((said.host, said.id), store.clock_ms()):
            self.hello(_attaching(said))

    async def do_session_end(self, call: Call) -> Answer:
        """Forget a session."""
        self._daemon.store.readers.begin().end(_who(call))
        self._daemon.store.commit_or_raise()
        call.link.session = None
        return {}

    async def do_session_list(self, call: Call) -> Answer:
        """List the sessions that are known."""
        daemon, params = self._daemon, call.params
        sessions = daemon.store.readers.account.sessions()
        known = {session.who for session in sessions}
        self._counts = {who: count for who, count in self._counts.items() if who in known}
        own = call.link.session
        if own is not None and own.scope != "all":
            sessions = [session for session in sessions if session.who == (own.host, own.id)]
        page = sessions[params["offset"] : params["offset"] + params["limit"]]
        rows = []
        for session in page:
            rows.append(await self._row(session))
            await asyncio.sleep(0)
        return {"total": len(sessions), "sessions": rows}

    async def _row(self, session: Session) -> Answer:
        scene = self._scene(session)
        open_news = await self._open_news(session, scene)
        main, state = scene.main, "unread"
        if main is not None and main in session.index_reads:
            stale = self._daemon.store.readers.account.index_stale(session.who, main, self._text(main))
            state = "stale" if stale else "current"
        return {
            "host": session.who[0],
            "id": session.who[1],
            "cwd": session.cwd,
            "firstAt": time_text(session.first_ms),
            "lastContactAt": time_text(session.last_contact_ms),
            "index": state,
            "reads": sum(not read.forgotten for read in session.reads.values()),
            "news": open_news,
            "dirs": sorted(scene.directories),
        }

    # -- news

    async def do_session_news(self, call: Call) -> Answer:
        """Tell what a session has not been told."""
        who = _who(call)
        found = await self._news(self._known(who))
        account = self._daemon.store.readers.begin()
        account.answered(who, found.told)
        if call.params["commit"]:
            account.confirm(who, found.told.token, told=True)
        self._daemon.store.commit_or_raise()
        return found.to_wire()

    async def do_session_confirm(self, call: Call) -> Answer:
        """Take that news reached the model, or did not."""
        account = self._daemon.store.readers.begin()
        done = account.confirm(_who(call), call.params.get("token"), told=call.params["told"])
        self._daemon.store.commit_or_raise()
        return {"confirmed": done}

    async def _open_news(self, session: Session, scene: _Scene) -> int:
        """Count what a session has not been told; what was counted last stands as long as nothing has changed."""
        known = self._counts.get(session.who)
        if known is not None and known.is_of(session, scene):
            return known.count
        found = await self._news_of(scene)
        if found.told.held:
            # Time alone makes news of what is held back.
            self._counts.pop(session.who, None)
        else:
            self._counts[session.who] = _Count.of(session, scene, found.count)
        return found.count

    async def _news(self, session: Session) -> News:
        return await self._news_of(self._scene(session))

    def _scene(self, session: Session) -> _Scene:
        """Look at a session's directories as they are at this moment."""
        daemon = self._daemon
        directories = daemon.territory.session_directories(session.cwd, session.dirs)
        daemon.pipeline.telling.tell_now()
        if session.baseline + 1 < daemon.database.oldest:
            # The journal goes no further back: what it has is told, and that the index is another is known by its hash.
            session = replace(session, baseline=daemon.database.oldest - 1)
        # All of one moment: while the events are read, directories may come and go.
        snapshots: dict[str, Snapshot] = {}
        indexless: set[str] = set()
        alarms: list[tuple[str, Finding, int]] = []
        for directory in sorted(directories):
            kept = daemon.store.kept.get(directory)
            if kept is None:
                continue
            snapshots[directory] = kept.snapshot
            if kept.layout.index_name is None:
                indexless.add(directory)
            alarms += [
                (directory, row.finding, row.since_ms)
                for row in self._may_alarm(directory, kept.rows)
                if row.finding.key not in daemon.store.dismissed and not daemon.store.pending(row)
            ]
        return _Scene(
            session, directories, snapshots, indexless, alarms, self._main(session), daemon.database.head
        )

    def _may_alarm(self, directory: str, rows: Mapping[str, FindingRow]) -> list[FindingRow]:
        known = self._alarms.get(directory)
        if known is None or known[0] is not rows:
            # An audit gives a directory another mapping.
            known = rows, [row for row in rows.values() if row.finding.code in ALARM_CODES]
            self._alarms[directory] = known
            for gone in self._alarms.keys() - self._daemon.store.kept.keys():
                del self._alarms[gone]
        return known[1]

    async def _news_of(self, scene: _Scene) -> News:
        store = self._daemon.store
        rows = await self._told(scene.session.baseline, scene.head, scene.directories)
        merge = partial(
            news,
            scene.session,
            _events(rows),
            snapshots=scene.snapshots,
            main=scene.main,
            alarms=scene.alarms,
            head=scene.head,
            now_ms=store.clock_ms(),
            grace_ms=store.grace_ms,
            indexless=scene.indexless,
        )
        # Many are taken apart and merged in a thread: everything that it takes is a value.
        return merge() if len(rows) <= MOST_AT_ONCE else await asyncio.to_thread(merge)

    async def _told(self, after: int, head: int, directories: frozenset[str]) -> list[StoredEvent]:
        """Give what was told of directories, read a few at a time."""
        found: list[StoredEvent] = []
        while after < head and directories:
            rows = self._daemon.database.told_since(after, directories, _TOPICS, EVENTS_AT_A_TIME)
            found += [row for row in rows if row.sequence <= head]
            if len(rows) < EVENTS_AT_A_TIME:
                break
            after = rows[-1].sequence
            await asyncio.sleep(0)
        return found

    def _main(self, session: Session) -> str | None:
        found = self._daemon.territory.resolve(session.cwd).dir
        return None if found is None else self._daemon.grounds.kept_as(found)

    def _text(self, directory: str) -> str | None:
        kept = self._daemon.store.kept.get(directory)
        index = kept.snapshot.index if kept else None
        return index.text_hash if index else None

    # -- read-states

    async def do_readState_report(self, call: Call) -> Answer:  # noqa: N802 - the wire's word
        """Note that a session read a file with its host's own tool, and tell it."""
        params, who = call.params, _who(call)
        directory, file = self._place(call.link, params["path"])
        now = self._now(directory, file)
        read = _reported(directory, file, params, now, self._daemon.store.clock_ms())
        self.note_read(call.link, read)
        self._know_index(who, read)
        store = self._daemon.store
        late = store.readers.overdue(who, directory, file, now)
        if late is not None:
            store.work.tell(late)
        store.commit_or_raise()
        return {}

    def _know_index(self, who: Who, read: Read) -> None:
        """Take a full report of the present index for what `memory.index` would have given.

        Hosts that keep their index themselves read and write it with their own tools: without this the entries that a
        session has just written would be news to it.
        """
        index = self._daemon.store.kept[read.directory].snapshot.index
        if read.kind != "full" or index is None or read.file != index.file:
            return
        if read.content_hash is not None and read.content_hash == index.content_hash:
            self._daemon.store.readers.begin().index_given(who, read.directory, index.text_hash)

    async def do_readState_check(self, call: Call) -> Answer:  # noqa: N802 - the wire's word
        """Tell which files a session knows as they are now."""
        places = _Places(self, call.link)
        return {"states": [self._state(call, places, path) for path in call.params["paths"]]}

    def _state(self, call: Call, places: _Places, path: str) -> Answer:
        try:
            directory, file = places.place(path)
        except NotFound:
            return {"path": path, "state": "unread"}
        now = self._now(directory, file)
        account = self._daemon.store.readers.account
        state: State = account.check(_who(call), directory, file, now)
        read = account.read_of(_who(call), directory, file)
        answer: Answer = {"path": path, "state": state}
        if state != "unread" and read is not None:
            answer["read"] = {
                "revision": _revision(read.mtime_ms, read.size),
                "contentHash": read.content_hash,
            }
        if now is not None:
            answer["now"] = {"revision": _revision(now.mtime_ms, now.size), "contentHash": now.content_hash}
        if state == "stale" and read is not None and is_stamp(read, now):
            answer["stamp"] = True
        return answer

    def note_read(self, link: Link, read: Read) -> None:
        """Note a read of this session's, and tell it."""
        said, store = link.session, self._daemon.store
        if said is None:
            return
        self.contact(link)
        store.readers.begin().read((said.host, said.id), read)
        data: dict[str, object] = {
            "absolutePath": absolute(read.directory, read.file),
            "kind": read.kind,
            "mtimeMs": max(read.mtime_ms, 0),
            "sizeBytes": max(read.size, 0),
        }
        if read.kind == "full" and read.content_hash is not None:
            data["contentHash"] = read.content_hash
        if read.range is not None:
            data["range"] = list(read.range)
        data["session"] = {"host": said.host, "id": said.id}
        store.tell("read-state/read", data, (said.host, said.id), read.directory)

    def is_stale(self, link: Link, directory: str, file: str, now: Now) -> bool:
        """Tell whether a session has read something else of a file than is there now."""
        said = link.session
        if said is None:
            return False
        account = self._daemon.store.readers.account
        return account.check((said.host, said.id), directory, file, now) == "stale"

    # -- announced writes

    async def do_write_intent(self, call: Call) -> Answer:
        """Take that a session is about to write a file."""
        params, who = call.params, _who(call)
        directory, file = self._place(call.link, params["path"])
        now = self._now(directory, file)
        readers = self._daemon.store.readers
        base = params.get("baseRevision")
        if base is not None:
            stale = base != (_revision(now.mtime_ms, now.size) if now else None)
        else:
            stale = readers.account.check(who, directory, file, now) in ("stale", "gone")
        others = readers.announce(who, directory, file, params["ttlMs"])
        conflicts = [
            {"host": intent.who[0], "id": intent.who[1], "until": time_text(intent.until_ms)}
            for intent in others
        ]
        return {"stale": stale, "conflicts": conflicts}

    # -- where

    def _known(self, who: Who) -> Session:
        session = self._daemon.store.readers.account.get(who)
        if session is None:
            raise NotFound("this session is not known", hint="say hello with `session` again")
        return session

    def _place(self, link: Link, path: str) -> tuple[str, str]:
        """Find the directory and the file that one path means; raises as `_Places.place`."""
        return _Places(self, link).place(path)

    def place_of(self, path: str) -> tuple[str, str]:
        """Find the directory that a path lies in, and what it calls the file there.

        Raises: NotFound: it lies in no directory that is kept.
        """
        place = self._daemon.grounds.place_of(path)
        if place is None or place[0] not in self._daemon.store.kept:
            raise NotFound(
                f"{path} lies in no memory directory that is kept", hint="`zcsyncd dirs` lists them"
            )
        return place

    def snapshot(self, directory: str) -> Snapshot:
        """Give a directory that is kept as it is known now."""
        return self._daemon.store.kept[directory].snapshot

    def reach(self, link: Link) -> frozenset[str] | None:
        """Give the directories that a connection reaches; None: all."""
        said = link.session
        return None if said is None or said.scope == "all" else self._directories(said)

    def _now(self, directory: str, file: str) -> Now | None:
        """Look at what is on disk of a file at this moment: an event may not have told it yet."""
        kept = self._daemon.store.kept[directory]
        known = file_of(kept.snapshot, file)
        if known is not None and is_unchanged(directory, known):
            return now_of(known)
        try:
            content, stat = read_file(directory, file)
        except NotFound:
            return None
        except ZcsyncdError:
            return (
                now_of(known) if known is not None and known.content_hash is None else Now(None, None, 0, 0)
            )
        if file == kept.layout.index_name:
            return now_of(parse_index(file, content, stat, read_at_ns=0, caps=kept.layout.caps))
        return now_of(parse_fact(file, content, stat, read_at_ns=0))


class _Places:
    """Where paths lie, for one question: what it learns of a directory's names serves all its paths."""

    def __init__(self, requests: SessionRequests, link: Link) -> None:
        self._requests = requests
        self._link = link
        self._reach: frozenset[str] | None = None
        self._reach_known = False
        self._alike: dict[str, list[tuple[Callable[[str], str], dict[str, str]]]] = {}

    def place(self, path: str) -> tuple[str, str]:
        """Find the directory and the file that a path means, by whatever name it comes.

        Raises:
            NotFound: it lies in no directory that is kept.
            Refused: it lies in one that this session does not reach.
        """
        directory, file = self._requests.place_of(path)
        if not self._reach_known:
            self._reach, self._reach_known = self._requests.reach(self._link), True
        if self._reach is not None and directory not in self._reach:
            raise Refused(f"{path} lies in none of this session's directories")
        return directory, self._as_kept(self._requests.snapshot(directory), file)

    def _as_kept(self, snapshot: Snapshot, file: str) -> str:
        """Give a file's name as the snapshot has it: systems differ in Unicode's forms, and some fold case."""
        if file_of(snapshot, file) is not None:
            return file
        alike = self._alike.get(snapshot.directory)
        if alike is None:
            alike = self._alike[snapshot.directory] = _alike(snapshot)
        return next((names[form] for fold, names in alike if (form := fold(file)) in names), file)


def _alike(snapshot: Snapshot) -> list[tuple[Callable[[str], str], dict[str, str]]]:
    """Give the names of a directory's files under each form that they may be asked for in; the first one counts."""
    names = [*snapshot.facts, *([snapshot.index.file] if snapshot.index else [])]
    folds = (nfc, _folded) if snapshot.folds_case else (nfc,)
    return [(fold, {fold(name): name for name in reversed(names)}) for fold in folds]


def _folded(name: str) -> str:
    return nfc(name).casefold()


def _events(rows: Iterable[StoredEvent]) -> Iterator[Event]:
    for row in rows:
        if row.directory is not None:
            yield Event(row.sequence, row.time_ms, row.topic, row.directory, json.loads(row.data))


@dataclass(frozen=True, slots=True)
class _Scene:
    """All that a session's news hangs on at one moment, but for the events and the clock."""

    session: Session
    directories: frozenset[str]
    snapshots: dict[str, Snapshot]
    indexless: set[str]
    alarms: list[tuple[str, Finding, int]]
    main: str | None
    head: int


@dataclass(frozen=True, slots=True)
class _Count:
    """How much open news a session had, and what that was counted of."""

    session: Session
    """As of no contact: that alone is no news."""
    scene: tuple[object, ...]
    count: int

    @staticmethod
    def of(session: Session, scene: _Scene, count: int) -> _Count:
        """Note a count. What a directory holds changes with the head of the journal only."""
        return _Count(_timeless(session), _marks(scene), count)

    def is_of(self, session: Session, scene: _Scene) -> bool:
        """Tell whether it still counts."""
        return self.scene == _marks(scene) and self.session == _timeless(session)


def _timeless(session: Session) -> Session:
    return replace(session, last_contact_ms=0, told=None)


def _marks(scene: _Scene) -> tuple[object, ...]:
    alarms = [(directory, finding.key) for directory, finding, _ in scene.alarms]
    return (scene.head, scene.session.baseline, scene.main, scene.directories, set(scene.snapshots), alarms)


def _reported(directory: str, file: str, params: Mapping[str, Any], now: Now | None, at_ms: int) -> Read:
    """Make the record of a reported read: what is there now counts only where the report says that it was that."""
    lines = params.get("range")
    digest, mtime, size = params.get("contentHash"), params.get("mtimeMs"), params.get("sizeBytes")
    is_now = now is not None and (
        digest == now.content_hash if digest is not None else (mtime, size) == (now.mtime_ms, now.size)
    )
    if is_now and now is not None:
        span = (lines[0], lines[1]) if lines else None
        return read_of(directory, file, params["kind"], now, at_ms, lines=span)
    return Read(
        directory,
        file,
        params["kind"],
        digest,
        UNKNOWN if mtime is None else mtime,
        UNKNOWN if size is None else size,
        at_ms,
        range=(lines[0], lines[1]) if lines else None,
    )


def _revision(mtime_ms: int, size: int) -> str | None:
    return None if UNKNOWN in (mtime_ms, size) else revision(mtime_ms * 1_000_000, size)


def _who(call: Call) -> Who:
    said = call.link.session
    if said is None:
        raise InvalidRequest(f"{call.method} is a session's question", hint="say hello with `session` first")
    return said.host, said.id


def _attaching(said: Named) -> Named:
    return replace(said, reason="attach", parent=None)
