"""One function per request: `do_<method>` with `/`, `.` as `_`. What a session may reach is decided in `_reach`.

A handler gets checked parameters (zcsyncd.bus.requests) and gives the result as the wire has it, or raises one of
zcsyncd.errors.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from zcsyncd.bus.connection import Session, session_of
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.limits import LINE_BYTES, PROTOCOL, READY_WAIT_S
from zcsyncd.bus.requests import METHODS, describe
from zcsyncd.daemon.desk import Place
from zcsyncd.daemon.readers import now_of, read_of
from zcsyncd.daemon.session_requests import SessionRequests
from zcsyncd.daemon.words import told
from zcsyncd.errors import (
    InvalidParams,
    NotFound,
    NotReady,
    Refused,
    UnsupportedProtocol,
    ZcsyncdError,
)
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.memory.answers import (
    find_fact,
    index_answer,
    list_answer,
    read_answer,
    repair_answer,
    saved_answer,
    time_ms,
    time_text,
)
from zcsyncd.memory.audit import RULES
from zcsyncd.memory.disk import read_file
from zcsyncd.memory.fact import parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.recall import recalled
from zcsyncd.memory.revision import revision
from zcsyncd.memory.terms import snippet
from zcsyncd.memory.text import decode
from zcsyncd.memory.why import why

if TYPE_CHECKING:
    from zcsyncd.bus.server import Call, Link
    from zcsyncd.daemon.app import Daemon
    from zcsyncd.daemon.finder import Found
    from zcsyncd.daemon.history import By, Version
    from zcsyncd.daemon.store import Kept

log = logging.getLogger(__name__)

Answer = dict[str, object]
_SEVERITIES = ("error", "warning", "info")


class Handlers:
    """Answers requests from what the daemon keeps."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._sessions = SessionRequests(daemon)
        self._methods: dict[str, Callable[[Call], Awaitable[Answer]]] = {
            name.removeprefix("do_"): getattr(holder, name)
            for holder in (self, self._sessions)
            for name in dir(holder)
            if name.startswith("do_")
        }

    async def answer(self, call: Call) -> Answer:
        """Answer one request."""
        method = METHODS[call.method]
        if method.needs_session and call.link.session is None:
            raise Refused(
                f"{call.method} is a session's question",
                hint="say hello with `session` on this connection first",
            )
        if method.waits_for_ready:
            await self._wait_for_ready()
        self._sessions.contact(call.link)
        return await self._methods[call.method.replace(".", "_")](call)

    async def _wait_for_ready(self) -> None:
        if self._daemon.ready.is_set():
            return
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self._daemon.ready.wait()
        except TimeoutError:
            raise NotReady("the first scan still runs", hint="ask again in a moment") from None

    # -- the connection

    async def do_hello(self, call: Call) -> Answer:
        """Say who is there; a session teaches its working directory."""
        daemon = self._daemon
        spoken = call.params["protocol"]
        if PROTOCOL not in spoken:
            raise UnsupportedProtocol(
                f"this daemon speaks protocol {PROTOCOL}, not {spoken}",
                hint="update the client, or zcsyncd",
                protocols=[PROTOCOL],
            )
        session = call.params.get("session")
        directory: str | None = None
        call.link.client = call.params.get("client") or {}
        if session is not None:
            said = session_of(session)
            _absolute(said.cwd, "session.cwd")
            for number, path in enumerate(said.dirs):
                _absolute(path, f"session.dirs[{number}]")
            call.link.session = said
            directory = daemon.territory.resolve(said.cwd).dir
            daemon.territory.session_directories(said.cwd, said.dirs)
            daemon.note_session(said)
            await daemon.watch_named()
            self._sessions.hello(said)
        return {
            "protocol": PROTOCOL,
            "server": daemon.server_words(),
            "cursor": daemon.cursor(),
            "dir": directory,
            "ready": daemon.ready.is_set(),
            "limits": {"lineBytes": LINE_BYTES},
            "layouts": [layout.name for layout in LAYOUTS],
        }

    async def do_ping(self, _call: Call) -> Answer:
        """Tell how far the events have gone."""
        return {"cursor": self._daemon.cursor()}

    async def do_describe(self, _call: Call) -> Answer:
        """Tell every method and topic."""
        return describe()

    async def do_events_subscribe(self, call: Call) -> Answer:
        """Begin to send events."""
        params = call.params
        named = any(params.get(member) is not None for member in ("dirs", "dir", "cwd"))
        asked = [*(params.get("dirs") or ()), *([params["dir"]] if params.get("dir") else [])]
        wanted = {self._subscribed(call.link, path) for path in asked}
        if params.get("cwd"):
            found = self._daemon.territory.resolve(_absolute(params["cwd"], "cwd"))
            wanted.add(self._subscribed(call.link, found.dir or found.computed_dir))
        reach = _Reach(self, call.link)

        def wants(event: StoredEvent) -> bool:
            if event.directory is None:
                passes = not named
            else:
                passes = (not named or event.directory in wanted) and reach.holds(event.directory)
            return passes and (event.session is None or reach.is_own(event.session))

        number, cursor = call.link.subscribe(params.get("topics") or ["*"], wants, params.get("since"))
        return {"subscription": number, "cursor": cursor}

    def _subscribed(self, link: Link, path: str) -> str:
        directory = self._chief(_absolute(path, "dir"))
        reach = self.scope(link)
        if reach is not None and directory not in reach:
            raise _out_of_scope(directory)
        return directory

    async def do_events_unsubscribe(self, call: Call) -> Answer:
        """Stop sending events."""
        call.link.unsubscribe(call.params["subscription"])
        return {}

    # -- directories

    async def do_dirs_list(self, call: Call) -> Answer:
        """List the memory directories."""
        params = call.params
        reach = self.scope(call.link)
        layout = params.get("layout")
        wanted = [
            directory
            for directory, kept in sorted(self._daemon.store.kept.items())
            if (reach is None or directory in reach) and layout in (None, kept.layout.name)
        ]
        page = wanted[params["offset"] : params["offset"] + params["limit"]]
        return {"total": len(wanted), "dirs": [self._directory(directory) for directory in page]}

    def _directory(self, directory: str) -> Answer:
        daemon = self._daemon
        kept = daemon.store.kept[directory]
        error, warning, info = kept.counts
        index = kept.snapshot.index
        return {
            "dir": directory,
            "layout": kept.layout.name,
            "label": kept.layout.label(directory),
            "cwds": daemon.territory.cwds_of(directory),
            "aliases": list(daemon.grounds.aliases(directory)),
            "facts": len(kept.snapshot.facts),
            "entries": len(index.entries) if index else 0,
            "findings": {"error": error, "warning": warning, "info": info},
            "revision": _revision(kept),
            "changedAt": time_text(kept.changed_ms),
        }

    async def do_dirs_resolve(self, call: Call) -> Answer:
        """Find the memory directory of a working directory."""
        session = call.link.session
        cwd = call.params.get("cwd") or (session.cwd if session else None)
        if cwd is None:
            raise InvalidParams("cwd: it is needed outside of a session")
        cwd = _absolute(cwd, "cwd")
        if self.scope(call.link) is not None and session is not None and cwd != session.cwd:
            raise Refused(f"this session resolves its own working directory only, not {cwd}")
        layout = call.params.get("layout")
        if layout is not None and layout not in self._daemon.store.layouts:
            raise NotFound(
                f"the layout {layout} is not kept by this version", hint="hello tells those that are"
            )
        found = self._daemon.territory.resolve(cwd)
        if found.source == "config":
            self._daemon.learn_cwd(cwd)
        await self._daemon.watch_named()
        return found.to_wire()

    async def do_dirs_allow(self, call: Call) -> Answer:
        """Allow a directory that somebody named, or take that back."""
        if self.scope(call.link) is not None:
            raise Refused("a session allows no directories", hint="a person does: `zcsyncd dirs --allow DIR`")
        directory = _normal(call.params["dir"], "dir")
        ownness = self._daemon.territory.judge(directory, "client")
        if ownness.kind == "never":
            raise Refused(f"{directory} is never kept: {ownness.reason}")
        if call.params["allow"] and not _is_directory(directory):
            raise NotFound(f"{directory} is no directory", hint="make it first, or check the spelling")
        await self._daemon.allow(directory, allowed=call.params["allow"])
        return {}

    # -- memory

    async def do_memory_list(self, call: Call) -> Answer:
        """List the facts of a directory."""
        kept, params = await self._reach(call), call.params
        return list_answer(
            kept.snapshot,
            recalled(kept.snapshot.facts.values(), unreadable_directory=_has_unreadable(kept)),
            limit=params["limit"],
            offset=params["offset"],
            type=params.get("type"),
            sort=params.get("sort", "file"),
        )

    async def do_memory_read(self, call: Call) -> Answer:
        """Read one fact; in a session this is a read that is told."""
        kept, params = await self._reach(call), call.params
        directory = kept.snapshot.directory
        file = await self._file_of(directory, params["name"])
        content, stat = read_file(directory, file)
        answer = read_answer(directory, file, content, stat.mtime_ns, full=bool(params.get("full")))
        if call.link.session is not None:
            store = self._daemon.store
            now = now_of(parse_fact(file, content, stat, read_at_ns=0))
            assert now is not None
            kind = "full" if answer["truncated"] is None else "truncated"
            self._sessions.note_read(call.link, read_of(directory, file, kind, now, store.clock_ms()))
            store.commit_or_raise()
        if params.get("why"):
            kept = self._daemon.store.kept.get(directory, kept)
            findings = [row.finding for row in kept.rows.values()]
            answer |= why(kept.snapshot, file, kept.layout.caps, findings)
        return answer

    async def _file_of(self, directory: str, name: str) -> str:
        kept = self._daemon.store.kept[directory]
        try:
            return find_fact(kept.snapshot, name).file
        except NotFound:
            # It may have been written a moment ago: the disk is the truth, by the rules of every look at it.
            await self._daemon.look([directory])
            kept = self._daemon.store.kept.get(directory, kept)
            return find_fact(kept.snapshot, name).file

    async def do_memory_index(self, call: Call) -> Answer:
        """Give the text that the model gets."""
        kept = await self._reach(call)
        index_name = kept.layout.index_name
        if index_name is None:
            raise Refused(f"{kept.snapshot.directory} has no index: its layout {kept.layout.name} keeps none")
        directory = kept.snapshot.directory
        try:
            content, stat = read_file(directory, index_name)
        except NotFound:
            answer = index_answer(directory, None, 0, kept.layout.caps)
        else:
            answer = index_answer(directory, content, stat.mtime_ns, kept.layout.caps)
            if call.link.session is not None:
                # What was injected was read; it is told to nobody, for no tool of a host read it.
                index = parse_index(index_name, content, stat, read_at_ns=0, caps=kept.layout.caps)
                now = now_of(index)
                assert now is not None
                kind = "truncated" if answer["truncated"] else "full"
                read = read_of(directory, index_name, kind, now, self._daemon.store.clock_ms())
                self._daemon.store.readers.begin().read(_by(call.link), read)
        self._note_index_read(call.link, directory, cast("str | None", answer["textHash"]))
        return answer

    def _note_index_read(self, link: Link, directory: str, text_hash: str | None) -> None:
        """Remember which text of an index a session was given."""
        if link.session is not None:
            self._daemon.store.readers.begin().index_given(_by(link), directory, text_hash)
            self._daemon.store.commit()

    # -- our own pen

    async def do_memory_write(self, call: Call) -> Answer:
        """Write a fact and its entry."""
        params = call.params
        place = await self._place(call)
        return await self._daemon.desk.write(
            place,
            name=params["name"],
            description=params["description"],
            type=params["type"],
            body=params["body"],
            mode=params["mode"],
            if_revision=params.get("ifRevision"),
            by=_by_or_none(call.link),
            is_stale=lambda file, now: self._sessions.is_stale(call.link, place.directory, file, now),
        )

    async def do_memory_forget(self, call: Call) -> Answer:
        """Remove a fact and its entry."""
        kept, params = await self._reach(call), call.params
        place = Place(kept.snapshot.directory, kept.layout)
        if params.get("purge"):
            self._daemon.check_state()
        answer = await self._daemon.desk.forget(
            place,
            name=params["name"],
            if_revision=params.get("ifRevision"),
            by=_by_or_none(call.link),
        )
        if params.get("purge"):
            await self._daemon.purge(place.directory, str(answer["file"]))
            answer["saved"] = None
        return answer

    async def do_memory_repair(self, call: Call) -> Answer:
        """Mend what can be mended, or tell what would be done."""
        kept, params = await self._reach(call), call.params
        place = Place(kept.snapshot.directory, kept.layout)
        codes, keys = params.get("codes"), params.get("keys")
        for code in codes or ():
            if code not in RULES or not RULES[code].fixable:
                known = ", ".join(sorted(rule.code for rule in RULES.values() if rule.fixable))
                raise InvalidParams(f"codes: {code!r} is none that a repair can mend; these are: {known}")
        repair, text, saved, applied = await self._daemon.desk.repair(
            place,
            apply=params["apply"],
            codes=frozenset(codes) if codes else None,
            keys=frozenset(keys) if keys else None,
            by=_by_or_none(call.link),
        )
        kept = self._daemon.store.kept.get(place.directory, kept)
        return repair_answer(
            repair,
            text,
            applied=applied,
            revision=_revision(kept),
            saved=saved,
            held_by=self._held_by(kept) if applied else [],
        )

    def _held_by(self, kept: Kept) -> list[dict[str, str]]:
        """Name the sessions that were given another text of the index than there is now."""
        index = kept.snapshot.index
        text_hash = index.text_hash if index else None
        holding = self._daemon.store.readers.account.held_by(kept.snapshot.directory, text_hash)
        return [{"host": host, "id": session} for host, session in holding]

    async def do_memory_search(self, call: Call) -> Answer:
        """Find facts by their words."""
        params = call.params
        reach = self.scope(call.link)
        if params.get("dir") or params.get("cwd"):
            reach = frozenset({(await self._reach(call)).snapshot.directory})
        self._daemon.pipeline.telling.tell_now()  # the words of what was told a moment ago are still to be taken in
        found = self._daemon.store.memory.finder.find(params["query"], reach, params["limit"])
        hits = [hit for each in found if (hit := self._hit(each, params["query"])) is not None]
        answer: Answer = {"hits": hits}
        if not self._daemon.keeping.complete:
            answer["complete"] = False
        return answer

    def _hit(self, found: Found, query: str) -> Answer | None:
        """Tell one hit from the file as it is now; None: it is gone."""
        kept = self._daemon.store.kept.get(found.directory)
        fact = kept.snapshot.facts.get(found.file) if kept else None
        if fact is None:
            return None
        try:
            content, _ = read_file(found.directory, found.file)
        except ZcsyncdError:
            return None
        decoded = decode(content)
        if decoded is None:
            return None
        line, text = snippet(decoded.text, query)
        return {
            "dir": found.directory,
            "file": found.file,
            "name": fact.name,
            "description": fact.description,
            "score": round(found.score, 6),
            "line": line,
            "snippet": text,
        }

    # -- history

    async def do_history_list(self, call: Call) -> Answer:
        """List saved versions, the newest first."""
        directory = await self._once_kept(call)
        versions = self._daemon.store.memory.history.versions(
            directory, call.params.get("file"), call.params["limit"]
        )
        return {"versions": [version.to_wire() for version in versions]}

    async def do_history_show(self, call: Call) -> Answer:
        """Give a saved version's text."""
        version = self._version(call)
        content = (
            self._daemon.store.memory.history.bytes_of(version.hash) if version.hash is not None else None
        )
        if content is None:
            raise NotFound(
                f"version {version.saved} stands for a file that was not there"
                if version.hash is None
                else f"the bytes of version {version.saved} are gone",
                hint="`zcsyncd history list` shows the others",
            )
        return saved_answer(version.directory, version.file, content)

    async def do_history_restore(self, call: Call) -> Answer:
        """Give a file the content that it had."""
        version = self._version(call)
        return await self._daemon.desk.restore(
            self._place_of(version.directory),
            version,
            if_revision=call.params.get("ifRevision"),
            by=_by_or_none(call.link),
        )

    async def do_history_undo(self, call: Call) -> Answer:
        """Take back the last act of our own pen on a directory."""
        directory = await self._once_kept(call)
        done = await self._daemon.desk.undo(self._place_of(directory), by=_by_or_none(call.link))
        return {"files": done}

    async def do_history_purge(self, call: Call) -> Answer:
        """Remove saved versions for good."""
        directory, params = await self._once_kept(call), call.params
        before = params.get("before")
        if directory in self._daemon.store.kept:
            await self._daemon.look([directory])  # what is gone by now is gone with all that is kept of it
        removed = await self._daemon.purge(
            directory, params.get("file"), before_ms=time_ms(before, "before") if before else None
        )
        return {"removed": removed}

    def _version(self, call: Call) -> Version:
        saved = call.params["saved"]
        version = self._daemon.store.memory.history.version(saved)
        reach = self.scope(call.link)
        if version is None or version.at_ms is None:
            raise NotFound(f"no version {saved} is saved", hint="`zcsyncd history list` shows those that are")
        if reach is not None and version.directory not in reach:
            raise _out_of_scope(version.directory)
        return version

    async def _once_kept(self, call: Call) -> str:
        """Give the directory that a call is about, which may be gone by now: its versions are still there."""
        try:
            return (await self._reach(call)).snapshot.directory
        except NotFound:
            directory = self._directory_of(call)
            if directory is None or not self._daemon.store.memory.history.versions(directory, None, 1):
                raise
            return directory

    def _place_of(self, directory: str) -> Place:
        """Give the place of a directory that is kept, or was and may be made again."""
        chief = self._daemon.grounds.kept_as(directory)
        if chief != directory:
            raise Refused(
                f"{directory} leads to {chief} by now: what it held is not put into another directory",
                hint="`zcsyncd history show` gives the text",
            )
        kept = self._daemon.store.kept.get(directory)
        if kept is not None:
            return Place(directory, kept.layout)
        tree = self._daemon.grounds.tree_of(directory)
        if tree is None or not self._daemon.territory.still_ours(directory):
            raise self._not_kept(directory)
        return Place(directory, self._daemon.store.layouts[tree.layout])

    async def _place(self, call: Call) -> Place:
        """Give the directory that a fact is to be written to; one that is not there yet will be made."""
        try:
            kept = await self._reach(call)
        except NotFound:
            directory = self._directory_of(call)
            if directory is None:
                raise
            return self._place_of(directory)
        return Place(kept.snapshot.directory, kept.layout)

    def _directory_of(self, call: Call) -> str | None:
        """Give the directory that a call names, or that its working directory would have; None: out of reach."""
        params, session = call.params, call.link.session
        if params.get("dir"):
            directory = self._chief(_absolute(params["dir"], "dir"))
        else:
            cwd = params.get("cwd") or (session.cwd if session else None)
            if cwd is None:
                return None
            found = self._daemon.territory.resolve(_absolute(cwd, "cwd"))
            directory = self._chief(found.dir or found.computed_dir)
        reach = self.scope(call.link)
        return directory if reach is None or directory in reach else None

    # -- audit

    async def do_audit_get(self, call: Call) -> Answer:
        """List findings, errors first."""
        params = call.params
        least = _SEVERITIES.index(params["severity"])
        names = await self._audited(call)
        if params.get("fresh"):
            await self._daemon.look(names)
        store = self._daemon.store
        found = [
            (_SEVERITIES.index(row.finding.severity), directory, number, row)
            for directory in names
            if (kept := store.kept.get(directory)) is not None
            for number, row in enumerate(kept.rows.values())
            if _SEVERITIES.index(row.finding.severity) <= least
        ]
        found.sort(key=lambda item: item[:3])
        page = found[params["offset"] : params["offset"] + params["limit"]]
        return {
            "total": len(found),
            "findings": [
                told(
                    directory,
                    row,
                    pending=store.pending(row),
                    dismissed=row.finding.key in store.dismissed,
                )
                for _, directory, _, row in page
            ],
        }

    async def _audited(self, call: Call) -> list[str]:
        if call.params.get("dir") or call.params.get("cwd"):
            return [(await self._reach(call)).snapshot.directory]
        reach = self.scope(call.link)
        return sorted(
            directory for directory in self._daemon.store.kept if reach is None or directory in reach
        )

    async def do_audit_dismiss(self, call: Call) -> Answer:
        """Silence a finding, or let it speak again."""
        key, undo = call.params["key"], bool(call.params.get("undo"))
        store = self._daemon.store
        reach = self.scope(call.link)
        holder = next((d for d, kept in store.kept.items() if key in kept.rows), None)
        if holder is None and undo and reach is None and key in store.dismissed:
            store.forget_dismissal(key)  # the defect is gone for now; should it come back, it speaks
            store.commit_or_raise()
            return {}
        if holder is None:
            raise NotFound(
                f"no finding has the key {key}", hint="`zcsyncd audit --all --json` lists the keys"
            )
        if reach is not None and holder not in reach:
            raise _out_of_scope(holder)
        store.dismiss(key, undo=undo)
        store.commit_or_raise()
        self._daemon.pipeline.telling.mind_graces([holder])
        return {}

    # -- the daemon

    async def do_status(self, call: Call) -> Answer:
        """Tell how the daemon is."""
        return self._daemon.status(self.scope(call.link))

    async def do_daemon_flush(self, call: Call) -> Answer:
        """Wait until everything on disk before the call is told."""
        await self._daemon.flush(rescan=bool(call.params.get("rescan")))
        return {"cursor": self._daemon.cursor()}

    async def do_daemon_reload(self, call: Call) -> Answer:
        """Read the configuration again, and tell what is another now."""
        if self.scope(call.link) is not None:
            raise Refused(
                "a session does not reload the daemon", hint="a person does: `zcsyncd service reload`"
            )
        changed = await self._daemon.reload()
        return {"changed": [one.to_wire() for one in changed]}

    async def do_daemon_probe(self, call: Call) -> Answer:
        """Send a canary through the watcher, and tell subscribers once it has come through."""
        if self.scope(call.link) is not None:
            raise Refused("a session does not probe the daemon", hint="a person does: `zcsyncd doctor`")
        return await self._daemon.probe(call.params.get("token", ""))

    async def do_daemon_stop(self, call: Call) -> Answer:
        """Stop the daemon; the answer comes when everything is down but this connection."""
        if self.scope(call.link) is not None:
            raise Refused("a session does not stop the daemon", hint="a person does: `zcsyncd stop`")
        await self._daemon.shut_down(but=call.link)
        return {}

    # -- who may reach what

    def scope(self, link: Link) -> frozenset[str] | None:
        """Give the directories that a connection reaches; None: all."""
        session = link.session
        if session is None or session.scope == "all":
            return None
        return self._daemon.territory.session_directories(session.cwd, session.dirs)

    async def _reach(self, call: Call) -> Kept:
        """Give the directory that a call is about."""
        daemon, params, session = self._daemon, call.params, call.link.session
        if params.get("dir"):
            directory = self._chief(_absolute(params["dir"], "dir"))
        else:
            cwd = params.get("cwd") or (session.cwd if session else None)
            if cwd is None:
                raise InvalidParams("dir or cwd: one of them is needed outside of a session")
            found = daemon.territory.resolve(_absolute(cwd, "cwd"))
            if found.dir is None:
                raise NotFound(
                    f"{cwd} has no memory directory yet",
                    hint=f"an agent makes {found.computed_dir} with its first memory",
                )
            directory = found.dir
        reach = self.scope(call.link)
        if reach is not None and directory not in reach:
            raise _out_of_scope(directory)
        await daemon.watch_named()
        kept = daemon.store.kept.get(directory)
        if kept is None:
            raise self._not_kept(directory)
        return kept

    @property
    def generation(self) -> int:
        """Another number whenever a scope may be another: both only grow."""
        return self._daemon.grounds.generation + self._daemon.territory.generation

    def _chief(self, path: str) -> str:
        return self._daemon.grounds.kept_as(path)

    def _not_kept(self, directory: str) -> ZcsyncdError:
        if directory in self._daemon.territory.asked:
            return Refused(
                f"{directory} was named by a project or a client and not allowed yet",
                hint=f"`zcsyncd dirs --allow {directory}`",
            )
        return NotFound(
            f"no memory directory {directory} is kept", hint="`zcsyncd dirs` lists those that are"
        )


class _Reach:
    """What a connection reaches, worked out anew when directories come or go: not for each event."""

    def __init__(self, handlers: Handlers, link: Link) -> None:
        self._handlers = handlers
        self._link = link
        self._known: tuple[int, Session] | None = None
        self._scope: frozenset[str] | None = None
        self._former: frozenset[str] = frozenset()
        """What it reached before: the news that a directory is gone comes when it is reached no longer."""

    def is_own(self, session: tuple[str, str]) -> bool:
        """Tell whether the connection hears of a session's reads: of its own only, unless it reaches all."""
        own = self._link.session
        return own is None or own.scope == "all" or session == (own.host, own.id)

    def holds(self, directory: str) -> bool:
        """Tell whether the connection reaches a directory."""
        session = self._link.session
        if session is None or session.scope == "all":
            return True
        now = (self._handlers.generation, session)
        if self._known != now:
            same_session = self._known is not None and self._known[1] == now[1]
            self._former = self._scope if same_session and self._scope is not None else frozenset()
            self._known = now
            try:
                self._scope = self._handlers.scope(self._link)
            except Exception:
                # Whatever a project's file says, it must not end the fan-out: this connection hears nothing then.
                log.exception("scope unknown connection=%d", self._link.number)
                self._scope = frozenset()
        return self._scope is None or directory in self._scope or directory in self._former


def _by(link: Link) -> By:
    assert link.session is not None
    return link.session.host, link.session.id


def _by_or_none(link: Link) -> By | None:
    return None if link.session is None else _by(link)


def _has_unreadable(kept: Kept) -> bool:
    return any(stray.kind == "unreadable-directory" for stray in kept.snapshot.strays.values())


def _revision(kept: Kept) -> str | None:
    index = kept.snapshot.index
    return revision(index.stat.mtime_ns, index.stat.size) if index else None


def _absolute(path: Any, name: str) -> str:
    if not isinstance(path, str) or not os.path.isabs(path) or "\0" in path:
        raise InvalidParams(f"{name} must be an absolute path, not {path!r}")
    return path


def _normal(path: Any, name: str) -> str:
    return os.path.normpath(_absolute(path, name))


def _is_directory(path: str) -> bool:
    return os.path.isdir(path)


def _out_of_scope(directory: str) -> Refused:
    return Refused(
        f"{directory} is not one of this session's directories",
        hint='a session reaches those of its own working directory; "scope":"all" in hello asks for more',
    )
