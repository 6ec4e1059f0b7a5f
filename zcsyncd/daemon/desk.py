"""Our own pen's acts on one directory: write, forget, repair, restore, undo.

    what lies there ─► what it is to be (pure) ─► saved before ─► memory.pen ─► store.take ─► journal, subscribers

Rule 1: acts on one directory run one after another, and nobody looks at it meanwhile (`Pipeline.alone`).
Rule 2: what another pen did is told, and judged, before ours does anything: an act of ours never hides a loss.
Rule 3: before a file is replaced or removed its bytes are saved, and the temporary name is noted; so a kill at any step
leaves the old bytes or the new ones, both can be had, and the next start takes the leftover away.
Rule 4: what was acted on is compared once more right before each rename. A conflict on the index, which we read
ourselves, is tried again once; one on what the caller named never is.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from zcsyncd.daemon.database import JournalRefused, Transaction
from zcsyncd.daemon.history import CUT, By, Cause, Held, Version
from zcsyncd.daemon.readers import now_of
from zcsyncd.daemon.remembering import Act, file_of
from zcsyncd.daemon.strokes import Conflicting, Drawing, Stroke
from zcsyncd.errors import (
    AlreadyExists,
    NotFound,
    Refused,
    RevisionConflict,
    TooLarge,
    Unreadable,
    ZcsyncdError,
)
from zcsyncd.memory.answers import absolute, find_fact, seek_fact
from zcsyncd.memory.audit import indexed
from zcsyncd.memory.audit.finding import listed
from zcsyncd.memory.audit.history_rules import moment
from zcsyncd.memory.entry_lines import entry_text, has_own, insert, put_back, remove, replace_hook
from zcsyncd.memory.fact import Fact, FileStat, parse_fact, read_view
from zcsyncd.memory.front_matter import MENDABLE, compose, one_line
from zcsyncd.memory.index import Index, parse_index
from zcsyncd.memory.locks import lives
from zcsyncd.memory.naming import file_for
from zcsyncd.memory.past import Loss
from zcsyncd.memory.pen import (
    Displaced,
    Existing,
    Pen,
    living_lock,
    make_directory,
    temp_name,
    unmake_directory,
)
from zcsyncd.memory.plain import grown
from zcsyncd.memory.repair import Repair, Skipped, diff, plan
from zcsyncd.memory.revision import revision
from zcsyncd.memory.snapshot import Snapshot

if TYPE_CHECKING:
    from zcsyncd.daemon.pipeline import Pipeline
    from zcsyncd.daemon.store import Kept, Store
    from zcsyncd.layouts.layout import Caps, Layout
    from zcsyncd.memory.audit.finding import Finding
    from zcsyncd.sessions.account import Now

STILL_S = 2.0
"""A repair waits until a directory was left alone for this long."""
AGREE_S = 2.0
"""How long an act waits for a file that another pen is just writing."""
AGREE_STEP_S = 0.05
MOST_MENDED = 100
"""Findings that one repair mends."""
REPAIR_BYTES = 128 * 1024
"""A larger index is not repaired: a host shows 25,000 characters of it."""
ENDING = ".md"
STEPS = (
    "desk.saved",  # what is replaced is saved, and the temporary names are noted
    "desk.drawn",  # the pen is done
    "desk.taken",  # what it did is in the journal
)
"""What `step` is called with, each time just after it was done; between the first two come the pen's own steps."""
_NO_STAT = FileStat(0, 0, 0, 0)

Answer = dict[str, object]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Place:
    """The directory that an act is about."""

    directory: str
    layout: Layout


class Desk:
    """Carries out what a person, or an agent on their behalf, asks to be written."""

    def __init__(self, store: Store, pipeline: Pipeline) -> None:
        self._store = store
        self._pipeline = pipeline

    # -- write

    async def write(
        self,
        place: Place,
        *,
        name: str,
        description: str,
        type: str,  # noqa: A002 - the wire's word
        body: str,
        mode: str,
        if_revision: str | None,
        by: By | None,
        is_stale: Callable[[str, Now], bool] = lambda _file, _now: False,
    ) -> Answer:
        """Write a fact and its entry (docs/protocol.md, `memory.write`).

        `is_stale` is asked whether the caller has read something else of a file than is there.
        """
        _check_layout(place)

        async def act() -> Answer:
            file = await self._file(self._here(place), place, name)
            if file is None:
                file = self._new_file(self._here(place).snapshot, name)
            found = await self._read(place, [file, _index_name(place)])
            there = found[file]
            if there is not None and mode == "create":
                raise AlreadyExists(
                    f"{absolute(place.directory, file)} exists already",
                    hint="write with `upsert` to replace it, or choose another name",
                    file=file,
                )
            _check_revision(place, file, there, if_revision)
            if there is not None and is_stale(file, _now_of(file, there)):
                raise RevisionConflict(
                    f"{absolute(place.directory, file)} changed since this session read it",
                    hint="read it again, then write",
                    revision=_revision_of(there),
                )
            former = read_view(there.content, full=True) if there else None
            title = (former.name if former and former.name else None) or _stem(name if not there else file)
            content = compose(
                there.content if there else None, name=title, description=description, type=type, body=body
            )
            hook = one_line(description)
            was = one_line(former.description) if former and former.description else None

            def index_for(index: bytes | None) -> tuple[bytes | None, str]:
                snapshot = self._store.kept[place.directory].snapshot
                return _indexed_as(snapshot, index, file, title=title, hook=hook, was=was)

            done = await self._strike(
                place,
                self._act("write", by),
                [Stroke(file, content, there)],
                index_for,
                found=found,
                index_first=False,
            )
            return {
                "file": file,
                "absolutePath": absolute(place.directory, file),
                "action": "overwrote" if there else "created",
                "index": done.index,
                "revision": self._revision(place, file),
            }

        async def in_place() -> Answer:
            if if_revision is not None and not _is_directory(place.directory):
                _check_revision(place, file_for(name), None, if_revision)
            return await self._in_place(place, act)

        return await self._pipeline.alone(place.directory, in_place)

    async def _in_place(self, place: Place, act: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Do an act in a directory that is made if it is not there, and goes again if nothing was written to it."""
        made: list[str] = []
        try:
            await self._kept_or_made(place, made)
            return await act()
        except BaseException:
            if made:
                await asyncio.to_thread(unmake_directory, made)
                await self._pipeline.look_inside(place.directory, place.layout)
            raise

    async def _kept_or_made(self, place: Place, made: list[str]) -> Kept:
        """Give the directory, looked at if it is not known yet, and made if it is not there: `made` tells what was."""
        kept = self._store.kept.get(place.directory)
        if kept is not None and not _is_directory(place.directory):
            await self._pipeline.look_inside(place.directory, place.layout)  # that it went is told first
            kept = self._store.kept.get(place.directory)
        if kept is None:
            made += await asyncio.to_thread(make_directory, place.directory)
            await self._pipeline.look_inside(place.directory, place.layout)
            kept = self._store.kept.get(place.directory)
        if kept is None:
            raise NotFound(f"{place.directory} vanished while it was being written to", hint="try again")
        return kept

    async def _file(self, kept: Kept, place: Place, name: str) -> str | None:
        """Find the fact that a name means, as reading does; None: there is none."""
        found = seek_fact(kept.snapshot, name)
        if found is None and self._pipeline.shows_changes(kept):
            # It may have been written a moment ago: the disk is the truth.
            await self._pipeline.look_inside(place.directory, place.layout)
            found = seek_fact(self._store.kept.get(place.directory, kept).snapshot, name)
        return found.file if found is not None else None

    def _new_file(self, snapshot: Snapshot, name: str) -> str:
        file = file_for(name)
        twin = next((known for known in snapshot.facts if known.casefold() == file.casefold()), None)
        if twin is not None:
            raise AlreadyExists(
                f"{absolute(snapshot.directory, twin)} differs in case only: some systems take the two for one file",
                hint="use that name, or another one",
                file=twin,
            )
        return file

    # -- forget

    async def forget(self, place: Place, *, name: str, if_revision: str | None, by: By | None) -> Answer:
        """Remove a fact and its entry; both can be restored (docs/protocol.md, `memory.forget`)."""
        _check_layout(place)

        async def act() -> Answer:
            kept = self._here(place)
            file = await self._file(kept, place, name)
            if file is None:
                find_fact(self._here(place).snapshot, name)  # raises, and says what comes near
                raise AssertionError
            found = await self._read(place, [file, _index_name(place)])
            there = found[file]
            _check_revision(place, file, there, if_revision)
            if there is None:
                raise NotFound(f"{absolute(place.directory, file)} is not there any more")

            def index_for(index: bytes | None) -> tuple[bytes | None, str]:
                without = remove(index, file) if index is not None else None
                return (None, "unchanged") if without is None else (without, "removed")

            act = self._act("forget", by)
            done = await self._strike(
                place, act, [Stroke(file, None, there)], index_for, found=found, index_first=True
            )
            saved = self._store.memory.history.saved_as(place.directory, file, act.batch)
            return {"file": file, "index": done.index, "saved": saved}

        return await self._pipeline.alone(place.directory, act)

    # -- restore, undo

    async def restore(
        self, place: Place, version: Version, *, if_revision: str | None, by: By | None
    ) -> Answer:
        """Give a file the content that it had (docs/protocol.md, `history.restore`)."""
        _check_layout(place)

        async def act() -> Answer:
            if not _is_directory(place.directory):
                self._check_restorable(place, version, None, if_revision)
            return await self._in_place(
                place, lambda: self._restore(place, version, if_revision, self._act("restore", by))
            )

        return await self._pipeline.alone(place.directory, act)

    async def _restore(self, place: Place, version: Version, if_revision: str | None, act: Act) -> Answer:
        file, index_name = version.file, _index_name(place)
        found = await self._read(place, list(dict.fromkeys([file, index_name])))
        there = found[file]
        content = self._check_restorable(place, version, there, if_revision)
        stroke = self._stroke_back(version, there)
        index_for = self._index_back(place, [stroke])
        index_for(_bytes(found[index_name]))
        left = [] if _is_done(stroke) else [stroke]
        done = await self._strike(place, act, left, index_for, index_first=content is None)
        return self._restored(place, stroke, done.index)

    def _check_restorable(
        self, place: Place, version: Version, there: Existing | None, if_revision: str | None
    ) -> bytes | None:
        """Give the bytes of a version that a file may be given; None: it is to be gone."""
        content = self._content(version)
        _check_revision(place, version.file, there, if_revision)
        if content is None and there is None:
            raise NotFound(f"{absolute(place.directory, version.file)} is not there, as before that version")
        return content

    def _stroke_back(self, version: Version, there: Existing | None) -> Stroke:
        content = self._content(version)
        return Stroke(version.file, content, there, version.mtime_ns if content is not None else None)

    def _index_back(
        self, place: Place, strokes: Sequence[Stroke]
    ) -> Callable[[bytes | None], tuple[bytes | None, str]]:
        """Give what facts that come and go mean for the index.

        One that has come already, as after a kill, lacks its entry perhaps.
        """

        def index_for(index: bytes | None) -> tuple[bytes | None, str]:
            now, word = index, "unchanged"
            for stroke in strokes:
                edited: bytes | None = None
                if stroke.file != _index_name(place) and stroke.content is None:
                    edited = remove(now, stroke.file) if now is not None else None
                elif stroke.file != _index_name(place) and (stroke.expected is None or _is_done(stroke)):
                    edited = self._entry_back(place, now, stroke.file, stroke.content or b"")
                if edited is not None:
                    now, word = edited, "removed" if stroke.content is None else "inserted"
            return (None if word == "unchanged" else now), word

        return index_for

    def _restored(self, place: Place, stroke: Stroke, word: str) -> Answer:
        """Say what became of a file that was given back what it was."""
        action = "removed" if stroke.content is None else "overwrote" if stroke.expected else "created"
        return {
            "file": stroke.file,
            "absolutePath": absolute(place.directory, stroke.file),
            "action": action,
            "index": word,
            "revision": self._revision(place, stroke.file),
        }

    def _content(self, version: Version) -> bytes | None:
        """Give a version's bytes; None: it stands for a file that was not there."""
        if version.hash is None:
            return None
        content = self._store.memory.history.bytes_of(version.hash)
        if content is None:
            raise NotFound(f"the bytes of version {version.saved} are gone", hint="`zcsyncd history list`")
        return content

    def _entry_back(self, place: Place, index: bytes | None, file: str, content: bytes) -> bytes | None:
        """Give the entry of a fact that comes back its old place, if a saved index knows one; None: it has one."""
        snapshot = self._here(place).snapshot
        if index is not None and has_own(index, file):
            return None
        history = self._store.memory.history
        for digest in history.former_hashes(place.directory, _index_name(place)):
            former = history.bytes_of(digest)
            if former is None:
                continue
            stat = _NO_STAT
            page = parse_index(_index_name(place), former, stat, read_at_ns=0, caps=place.layout.caps)
            entry = next((e for e in page.entries if e.target == file and not e.hidden), None)
            if entry is not None:
                loss = Loss("entry-lost", 0, target=file, title=entry.title, hook=entry.hook, line=entry.line)
                return put_back(index or b"", former, [loss], mentions=False)
        if file in indexed(_with_file(snapshot, file, content)):
            return None
        view = read_view(content)
        return insert(index, entry_text(view.name or _stem(file), file, one_line(view.description or "")))

    async def undo(self, place: Place, *, by: By | None) -> list[Answer]:
        """Take back the last act of our own pen on a directory, all files of it."""
        _check_layout(place)

        if not self._store.memory.history.enabled:
            raise Refused(
                "nothing can be taken back while the history is switched off",
                hint="`history.enabled` in the configuration; saved versions can be restored one by one",
            )

        async def undo() -> list[Answer]:
            versions = self._undoable(place)
            if not _is_directory(place.directory):
                self._check_untouched(place, versions, {})
            return await self._in_place(place, lambda: act(versions))

        async def act(versions: Sequence[Version]) -> list[Answer]:
            index_name = _index_name(place)
            found = await self._read(place, list(dict.fromkeys([*(v.file for v in versions), index_name])))
            index = next((version for version in versions if version.file == index_name), None)
            facts = [version for version in versions if version.file != index_name]
            self._check_untouched(place, versions, found)
            strokes = [self._stroke_back(version, found[version.file]) for version in facts]
            left = [stroke for stroke in strokes if not _is_done(stroke)]
            again = self._act("restore", by)
            if index is not None and _hash(found[index_name]) == index.became:
                # Nobody else wrote the index since: it gets its very bytes back.
                itself = self._stroke_back(index, found[index_name])
                await self._strike(place, again, [itself, *left], None, index_first=True)
                words = _entry_words(place, strokes, _bytes(found[index_name]), itself.content)
                return [
                    *self._all_restored(place, strokes, words),
                    self._restored(place, itself, "unchanged"),
                ]
            removes = any(stroke.content is None for stroke in left)
            index_for = self._index_back(place, strokes)
            was = now = _bytes(found[index_name])

            def noted(present: bytes | None) -> tuple[bytes | None, str]:
                nonlocal was, now
                edited, word = index_for(present)
                was, now = present, present if edited is None else edited
                return edited, word

            await self._strike(place, again, left, noted, index_first=removes)
            return self._all_restored(place, strokes, _entry_words(place, strokes, was, now))

        return await self._pipeline.alone(place.directory, undo)

    def _undoable(self, place: Place) -> list[Version]:
        """Give what our last act on a directory replaced.

        Raises:
            NotFound: there was no act.
            Refused: not all that it replaced is saved, so that only a part of it could be taken back.
        """
        history = self._store.memory.history
        versions, broken = history.last_batch(place.directory), history.broken_act(place.directory)
        hint = "`zcsyncd history list` shows what is saved, and `zcsyncd history restore` gives one file a version back"
        if broken is not None and broken.unkept:
            files = listed(file for file in broken.unkept if file) or "a file that was purged"
            raise Refused(
                f"the last act on {place.directory}, a {broken.reason} of {files} at {moment(broken.at_ms)}, was done "
                "while the history was switched off, and cannot be taken back",
                hint=hint,
            )
        only_index = all(version.file == place.layout.index_name for version in versions)
        if broken is not None or (only_index and any(version.became == CUT for version in versions)):
            raise Refused(
                f"the last act on {place.directory} cannot be taken back as a whole, so nothing was changed: what it "
                "replaced was purged, or went by age or for want of room",
                hint=hint,
            )
        if not versions:
            raise NotFound(
                f"nothing was written to {place.directory} that could be taken back",
                hint="`zcsyncd history list` shows what other programs replaced",
            )
        return versions

    def _all_restored(self, place: Place, strokes: Sequence[Stroke], words: Sequence[str]) -> list[Answer]:
        return [self._restored(place, stroke, word) for stroke, word in zip(strokes, words, strict=True)]

    def _check_untouched(
        self, place: Place, versions: Sequence[Version], found: Mapping[str, Existing | None]
    ) -> None:
        """Refuse to take back what somebody changed since; what is as before the act already is taken back.

        `found`: what is there; a file that it does not name is not. An index that others wrote to as well is edited.
        """
        index_name = _index_name(place)
        facts = [version for version in versions if version.file != index_name]
        for version in facts or versions:
            there = found.get(version.file)
            if _hash(there) in (version.became, version.hash):
                continue
            raise RevisionConflict(
                f"{absolute(place.directory, version.file)} was written again since the act that would be taken back",
                hint=f"`zcsyncd history restore {version.saved}` gives it that version all the same",
                revision=_revision_of(there),
            )

    # -- repair

    async def repair(
        self,
        place: Place,
        *,
        apply: bool,
        codes: frozenset[str] | None,
        keys: frozenset[str] | None,
        by: By | None,
    ) -> tuple[Repair, str, int | None, bool]:
        """Mend what can be mended; give the plan, its diff, the version of the index before, and whether it was done.

        Raises:
            Unreadable: the index cannot be read.
            Refused: it is too early: another program is at the directory; `retryAfterMs` tells when to ask again.
        """
        _check_layout(place)

        async def act() -> tuple[Repair, str, int | None, bool]:
            await self._pipeline.look_inside(place.directory, place.layout)
            self._pipeline.telling.tell_now()
            kept = self._here(place)
            findings = [
                row.finding for row in kept.rows.values() if row.finding.key not in self._store.dismissed
            ]
            wanted = [
                finding
                for finding in findings
                if finding.fixable
                and (codes is None or finding.code in codes)
                and (keys is None or finding.key in keys)
            ]
            index_name = _index_name(place)
            files = [index_name, *(f.file for f in wanted if f.file and f.file in kept.snapshot.facts)]
            found = await self._read(place, list(dict.fromkeys(files)))
            if kept.snapshot.index is not None and kept.snapshot.index.encoding is None:
                raise Unreadable(
                    f"{absolute(place.directory, index_name)} cannot be read, so it is not written"
                )
            if not _is_utf8(kept.snapshot.index) and (codes is None or not codes <= MENDABLE):
                raise Refused(
                    f"{absolute(place.directory, index_name)} is not UTF-8: it can be read, not written",
                    hint="save it as UTF-8, then repair",
                )
            contents = {file: there.content for file, there in found.items() if there is not None}
            if len(contents.get(index_name, b"")) > REPAIR_BYTES:
                raise TooLarge(
                    f"{absolute(place.directory, index_name)} is larger than {REPAIR_BYTES >> 10} KiB: no host shows "
                    "a tenth of it",
                    hint="cut it by hand; `zcsyncd history list` has what it was",
                )
            bytes_of = self._store.memory.history.bytes_of
            former = {loss.held_in: bytes_of(loss.held_in) for loss in kept.past.losses if loss.held_in}
            # In a thread: an index full of repeats takes seconds, and others are to be answered meanwhile.
            repair, text = await asyncio.to_thread(
                _planned,
                kept,
                wanted[:MOST_MENDED],
                contents,
                caps=place.layout.caps,
                codes=codes,
                keys=keys,
                bytes_of=former.get,
            )
            left = tuple(
                Skipped(f.key, f.code, "too many at once: repair again") for f in wanted[MOST_MENDED:]
            )
            repair = replace(repair, skipped=(*repair.skipped, *left))
            if not apply or not repair.contents:
                return repair, text, None, False
            await self._check_still(place, kept)
            act = self._act("repair", by)
            strokes = [Stroke(file, content, found[file]) for file, content in repair.contents.items()]
            await self._strike(place, act, strokes, None, index_first=False)
            first = index_name if index_name in repair.contents else strokes[0].file
            return repair, text, self._store.memory.history.saved_as(place.directory, first, act.batch), True

        return await self._pipeline.alone(place.directory, act)

    async def _check_still(self, place: Place, kept: Kept) -> None:
        lock = await asyncio.to_thread(living_lock, place.directory) or _living_temp(kept.snapshot)
        if lock is not None:
            raise Refused(
                f"{lock} shows that another program is writing there",
                hint="let it end, then repair again",
                retryAfterMs=int(STILL_S * 1000),
            )
        age_ms = self._store.clock_ms() - kept.changed_ms
        if 0 <= age_ms < STILL_S * 1000:
            raise Refused(
                f"{place.directory} changed {age_ms} ms ago: another program may still be writing",
                hint="repair again in two seconds",
                retryAfterMs=int(STILL_S * 1000) - age_ms,
            )

    # -- what lies there

    def _here(self, place: Place) -> Kept:
        kept = self._store.kept.get(place.directory)
        if kept is None:
            raise NotFound(
                f"{place.directory} is gone", hint="`zcsyncd dirs` lists the directories that are kept"
            )
        return kept

    async def _read(self, place: Place, files: Sequence[str]) -> dict[str, Existing | None]:
        """Read files as the pen will find them; what another pen did to them is told before this returns."""
        until = time.monotonic() + AGREE_S
        while True:
            # As a look at a few files: at once. Windows may have to wait for other programs to let go of a file.
            found = (
                await asyncio.to_thread(_read_all, place.directory, files)
                if sys.platform == "win32"
                else _read_all(place.directory, files)
            )
            if self._agrees(place, found):
                return found
            await self._pipeline.look_inside(place.directory, place.layout, files)
            if self._agrees(place, found):
                return found
            if time.monotonic() > until:
                raise RevisionConflict(
                    f"another program keeps writing to {absolute(place.directory, files[0])}",
                    hint="try again when it is done",
                    revision=_revision_of(found[files[0]]),
                )
            await asyncio.sleep(AGREE_STEP_S)

    def _agrees(self, place: Place, found: Mapping[str, Existing | None]) -> bool:
        kept = self._store.kept.get(place.directory)
        if kept is None:
            return False
        snapshot = kept.snapshot
        for file, there in found.items():
            known = file_of(snapshot, file)
            if (known.content_hash if known else None) != _hash(there):
                return False
        return True

    def _revision(self, place: Place, file: str) -> str | None:
        known = file_of(self._here(place).snapshot, file)
        return revision(known.stat.mtime_ns, known.stat.size) if known else None

    # -- the strokes

    def _act(self, reason: str, by: By | None) -> Act:
        return Act(reason, self._store.memory.history.begin_batch(), by)

    async def _strike(
        self,
        place: Place,
        act: Act,
        strokes: Sequence[Stroke],
        index_for: Callable[[bytes | None], tuple[bytes | None, str]] | None,
        *,
        index_first: bool,
        found: Mapping[str, Existing | None] | None = None,
    ) -> _Done:
        """Carry out strokes and what they mean for the index; tell what became of it.

        `index_for`: the index's present bytes to its new ones (None: it stays) and the wire's word for it; where it
        refuses, nothing is written. `found`: what was read a moment ago, the index among it; None: read it.
        """
        index_name = _index_name(place)
        word = "unchanged"
        written: list[str] = []
        for again in (False, True):
            every = list(strokes)
            if index_for is not None:
                if again or found is None:
                    found = await self._read(place, [index_name])
                there = found[index_name]
                content, word = index_for(_bytes(there))
                if content is not None and content != _bytes(there):
                    every.insert(0 if index_first else len(every), Stroke(index_name, content, there))
            done, conflict = await self._draw(place, act, every)
            if conflict is None:
                return _Done(word)
            mended = index_for is not None and conflict.file == index_name
            strokes = [stroke for stroke in strokes if stroke.file not in done]
            written += done
            if not mended or again:
                raise _told_so_far(conflict.error, written)
        raise AssertionError

    async def _draw(
        self, place: Place, act: Act, strokes: Sequence[Stroke]
    ) -> tuple[list[str], Conflicting | None]:
        """Save what is replaced, write, take in what was written."""
        temps = {stroke.file: temp_name(stroke.file) for stroke in strokes}
        self._save_before(place, strokes, temps)
        await step("desk.saved")
        parsed = _parsed(place, strokes, self._here(place).snapshot.index)
        drawing = Drawing(place.directory, strokes, temps)
        try:
            placed = await drawing.placed
            self._take(place, act, placed.drawn, parsed)
        finally:
            failed = await drawing.over
        await step("desk.drawn")
        conflict = placed.conflict or failed
        if (
            conflict is not None
            and isinstance(conflict.error, Displaced)
            and conflict.error.aside is not None
        ):
            # Another pen's file that lies nowhere any more: whoever misses it finds it here.
            aside, now_ms = conflict.error.aside, self._store.clock_ms()
            history = self._store.memory.history
            history.put_aside(
                self._store.work,
                place.directory,
                conflict.file,
                aside.content,
                mtime_ns=aside.stat.mtime_ns,
                at_ms=now_ms,
            )
        self._commit(place, temps, [stroke.file for stroke, _ in placed.drawn])
        await step("desk.taken")
        return [stroke.file for stroke, _ in placed.drawn], conflict

    def _save_before(self, place: Place, strokes: Sequence[Stroke], temps: Mapping[str, str]) -> None:
        store = self._store
        store.commit_or_raise()
        store.keep()
        work = Transaction()
        now_ms = store.clock_ms()
        for stroke in strokes:
            temp = _temp_path(place, stroke.file, temps[stroke.file])
            work.note_temp(temp, place.directory, stroke.file)
            there = stroke.expected
            if there is None:
                continue
            digest = hashlib.sha256(there.content).hexdigest()
            if store.memory.history.enabled and not store.memory.history.holds(
                place.directory, stroke.file, digest
            ):
                held = Held(digest, len(there.content), there.stat.mtime_ns)
                cause = Cause("updated", now_ms)
                store.memory.history.replaced(
                    work, place.directory, stroke.file, was=None, now=held, content=there.content, cause=cause
                )
        try:
            store.database.commit(work)
        except JournalRefused as error:
            raise ZcsyncdError(
                f"nothing was written, since {store.database.path} takes nothing: {error}",
                hint="make room on the disk, then try again",
            ) from error
        finally:
            store.memory.history.settled()

    def _take(
        self,
        place: Place,
        act: Act,
        drawn: Sequence[tuple[Stroke, FileStat | None]],
        parsed: Mapping[str, Fact | Index],
    ) -> None:
        """Take in what the pen did, as nobody else's doing.

        `parsed`: what was written, but for its stat.
        """
        if not drawn:
            return
        before = self._here(place).snapshot
        facts, index = dict(before.facts), before.index
        now_ns = time.time_ns()
        contents: dict[str, bytes] = {}
        for stroke, stat in drawn:
            if stroke.content is None or stat is None:
                if stroke.file == place.layout.index_name:
                    index = None
                facts.pop(stroke.file, None)
                continue
            contents[stroke.file] = stroke.content
            written = replace(parsed[stroke.file], stat=stat, read_at_ns=now_ns)
            if isinstance(written, Index):
                index = written
            else:
                facts[stroke.file] = written
        after = replace(before, facts=facts, index=index)
        self._store.take(
            after,
            place.layout,
            files=frozenset(stroke.file for stroke, _ in drawn),
            contents=contents,
            act=act,
        )

    def _commit(self, place: Place, temps: Mapping[str, str], written: Sequence[str]) -> None:
        """Tell what was taken in, and that no temporary file is left."""
        store = self._store
        for file, temp in temps.items():
            store.work.drop_temp(_temp_path(place, file, temp))
        self._pipeline.telling.found(place.directory)
        try:
            store.commit_or_raise()
            store.raise_refusal()  # it may have been somebody else who wrote, in vain, what was taken in
        except ZcsyncdError as error:
            raise _told_so_far(error, written) from error


async def step(name: str) -> None:
    """Do nothing: the place where tests stop an act. `name` is one of STEPS."""


@dataclass(frozen=True, slots=True)
class _Done:
    index: str


def _parsed(place: Place, strokes: Sequence[Stroke], known: Index | None) -> dict[str, Fact | Index]:
    """Read what is to be written, as a look would; its stat is not known yet. `known`: the index before."""
    parsed: dict[str, Fact | Index] = {}
    for stroke in strokes:
        file, content, caps = stroke.file, stroke.content, place.layout.caps
        if content is None:
            continue
        if file != place.layout.index_name:
            parsed[file] = parse_fact(file, content, _NO_STAT, read_at_ns=0)
            continue
        longer = None
        if known is not None and stroke.expected is not None:
            longer = grown(known, stroke.expected.content, content, _NO_STAT, read_at_ns=0, caps=caps)
        parsed[file] = longer or parse_index(file, content, _NO_STAT, read_at_ns=0, caps=caps)
    return parsed


def _is_directory(path: str) -> bool:
    return os.path.isdir(path)


def _read_all(directory: str, files: Sequence[str]) -> dict[str, Existing | None]:
    with Pen(directory) as pen:
        return {file: pen.read(file) for file in files}


def _told_so_far(error: ZcsyncdError, done: Sequence[str]) -> ZcsyncdError:
    """Say in an error what was written before it."""
    if done:
        error.data["written"] = list(done)
        error.message = error.message.replace("nothing was written", "it was not written")
        error.args = (error.message,)
        error.hint = f"{', '.join(done)} was written before; {error.hint or 'look, then try again'}"
    return error


def _indexed_as(
    snapshot: Snapshot, index: bytes | None, file: str, *, title: str, hook: str, was: str | None
) -> tuple[bytes | None, str]:
    """Give the index with an entry for a fact, and the wire's word for what had to be done.

    `was`: the fact's former description; a hook that equals it becomes `hook`, any other stays.
    """
    if file in snapshot.facts and file in indexed(snapshot):
        if index is None or was is None or was == hook:
            return None, "unchanged"
        replaced = replace_hook(index, file, was, hook)
        return (None, "unchanged") if replaced is None else (replaced, "updated")
    known = snapshot.index
    if known is not None and any(entry.target == file and not entry.hidden for entry in known.entries):
        return None, "unchanged"  # it was there before its fact
    return insert(index, entry_text(title, file, hook)), "inserted"


def _with_file(snapshot: Snapshot, file: str, content: bytes) -> Snapshot:
    fact = parse_fact(file, content, _NO_STAT, read_at_ns=0)
    return replace(snapshot, facts={**snapshot.facts, file: fact})


def _check_layout(place: Place) -> None:
    if not place.layout.writable or place.layout.index_name is None:
        raise Refused(f"{place.directory} is not written to: its layout {place.layout.name} is read only")


def _check_revision(place: Place, file: str, there: Existing | None, if_revision: str | None) -> None:
    now = _revision_of(there)
    if if_revision is not None and now != if_revision:
        what = "is not there any more" if there is None else "changed since"
        raise RevisionConflict(
            f"{absolute(place.directory, file)} {what}", hint="read it again, then write", revision=now
        )


def _planned(
    kept: Kept,
    findings: Sequence[Finding],
    contents: Mapping[str, bytes],
    *,
    caps: Caps,
    codes: frozenset[str] | None,
    keys: frozenset[str] | None,
    bytes_of: Callable[[str], bytes | None],
) -> tuple[Repair, str]:
    """Plan a repair, and show it as a diff."""
    losses = kept.past.losses
    repair = plan(
        kept.snapshot, findings, losses, contents, caps=caps, codes=codes, keys=keys, bytes_of=bytes_of
    )
    return repair, diff({file: contents.get(file) for file in repair.contents}, repair.contents)


def _is_utf8(index: Index | None) -> bool:
    return index is None or (
        index.encoding == "utf-8" and all(remark.code != "index-encoding" for remark in index.remarks)
    )


def _living_temp(snapshot: Snapshot) -> str | None:
    """Give a temporary file whose writer lives: it is about to put it in its place."""
    for stray in snapshot.strays.values():
        pid = stray.file.rpartition(".tmp.")[2].partition(".")[0]
        if stray.kind == "temp" and pid.isdigit() and int(pid) != os.getpid() and lives(int(pid)):
            return absolute(snapshot.directory, stray.file)
    return None


def _revision_of(there: Existing | None) -> str | None:
    return revision(there.stat.mtime_ns, there.stat.size) if there else None


def _now_of(file: str, there: Existing) -> Now:
    now = now_of(parse_fact(file, there.content, there.stat, read_at_ns=0))
    assert now is not None
    return now


def _hash(there: Existing | None) -> str | None:
    return hashlib.sha256(there.content).hexdigest() if there else None


def _bytes(there: Existing | None) -> bytes | None:
    return there.content if there else None


def _index_name(place: Place) -> str:
    assert place.layout.index_name is not None
    return place.layout.index_name


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(ENDING)


def _temp_path(place: Place, file: str, temp: str) -> str:
    folder = file.rpartition("/")[0]
    return (
        os.path.join(place.directory, *folder.split("/"), temp)
        if folder
        else os.path.join(place.directory, temp)
    )


def _is_done(stroke: Stroke) -> bool:
    """Tell whether a file is already what it is to be."""
    return stroke.content == _bytes(stroke.expected)


def _entry_words(place: Place, strokes: Sequence[Stroke], was: bytes | None, now: bytes | None) -> list[str]:
    """Give the wire's words for what became of the entries of some facts, by the index before and after."""
    before, after = (_entries_in(place, content) for content in (was, now))
    words = []
    for stroke in strokes:
        old, new = before.get(stroke.file, []), after.get(stroke.file, [])
        words.append(
            "unchanged" if old == new else "inserted" if not old else "removed" if not new else "updated"
        )
    return words


def _entries_in(place: Place, content: bytes | None) -> dict[str, list[tuple[str, str]]]:
    """Give the entries of an index that the model sees, title and hook, by target."""
    found: dict[str, list[tuple[str, str]]] = {}
    if content is not None:
        index = parse_index(_index_name(place), content, _NO_STAT, read_at_ns=0, caps=place.layout.caps)
        for entry in index.entries:
            if not entry.hidden:
                found.setdefault(entry.target, []).append((entry.title, entry.hook))
    return found
