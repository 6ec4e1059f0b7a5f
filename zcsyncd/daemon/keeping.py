"""Saves, in slices, what the files have now: after the first scan, and wherever a look could not bring the bytes along.

Rule 1: only what differs is read: what is saved under a file's hash already is not opened again.
Rule 2: a slice is short and the loop has its turn after it; nobody waits for this.
Rule 3: what is saved is what the snapshot knows. A file that is another by now is left to the event that tells it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from zcsyncd.daemon.database import JournalRefused, Transaction
from zcsyncd.daemon.history import Cause, Held
from zcsyncd.daemon.remembering import file_of
from zcsyncd.errors import ZcsyncdError
from zcsyncd.memory.disk import read_file

if TYPE_CHECKING:
    from zcsyncd.daemon.store import Store

log = logging.getLogger(__name__)

SLICE_S = 0.004
REST_S = 0.004
"""As long as a slice: a start must not take a whole processor."""
AGAIN_S = 60.0
"""After this it is tried again when the disk took nothing."""


class Keeping:
    """The background task that saves what is not saved yet."""

    def __init__(self, store: Store, is_full: Callable[[], bool] = lambda: False) -> None:
        """`is_full`: asked before a file is saved that no change asks for."""
        self._store = store
        self._is_full = is_full
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.complete = False
        """Whether everything has been saved and can be found."""

    def start(self) -> None:
        """Begin with everything that is kept."""
        self._store.memory.unkept |= self._store.kept.keys()
        self._news.set()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Go on: some directory has something to be saved."""
        self._news.set()

    async def finish(self) -> None:
        """Save everything that is kept, and return when it is done."""
        self._store.memory.unkept |= self._store.kept.keys()
        while self._store.memory.unkept:
            await self._keep(self._store.memory.unkept.pop(), 0)
        self.complete = True

    async def stop(self) -> None:
        """End after the slice that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        self._drop_gone()
        while True:
            await self._news.wait()
            self._news.clear()
            while self._store.memory.unkept:
                await self._keep(self._store.memory.unkept.pop(), REST_S)
            self.complete = True

    def _drop_gone(self) -> None:
        """Let go of directories that vanished while nobody looked."""
        store = self._store
        work = Transaction()
        for directory in store.memory.history.directories() - store.kept.keys():
            store.memory.history.let_go(work, directory, store.clock_ms())
        for directory in store.memory.finder.directories() - store.kept.keys():
            store.memory.finder.drop(work, directory)
        self._commit(work)

    async def _keep(self, directory: str, rest_s: float) -> None:
        try:
            slices = self._slices(directory)
            for _ in slices:
                await asyncio.sleep(rest_s)
        except (JournalRefused, ZcsyncdError) as error:
            log.warning("history put off dir=%r error=%r", directory, str(error))
            asyncio.get_running_loop().call_later(AGAIN_S, self._again, directory)
        except Exception:
            # Whatever one directory holds, the others are saved.
            log.exception("history failed dir=%r", directory)

    def _again(self, directory: str) -> None:
        if directory in self._store.kept:
            self._store.memory.unkept.add(directory)
            self.wake()

    def _slices(self, directory: str) -> Iterator[None]:
        """Save one directory; each `yield` is the end of a slice, with everything of it committed."""
        store = self._store
        if directory not in store.kept:
            return
        saved = store.memory.history.current(directory) if store.memory.history.enabled else {}
        found = store.memory.finder.known(directory) if store.memory.finder.enabled else {}
        work = Transaction()
        until = time.monotonic() + SLICE_S
        for file in dict.fromkeys([*self._files(directory), *saved, *found]):
            now = file_of(store.kept[directory].snapshot, file)
            digest = now.content_hash if now else None
            is_fact = not self._is_index(directory, file)
            wants_bytes = store.memory.history.enabled and saved.get(file) != digest and not self._is_full()
            wants_words = store.memory.finder.enabled and is_fact and found.get(file) != digest
            if wants_bytes or wants_words:
                self._take(work, directory, file, digest, wants_bytes=wants_bytes, wants_words=wants_words)
            if time.monotonic() > until:
                self._commit(work)
                work = Transaction()
                yield
                if directory not in store.kept:
                    return
                until = time.monotonic() + SLICE_S
        self._commit(work)

    def _files(self, directory: str) -> list[str]:
        snapshot = self._store.kept[directory].snapshot
        return [*([snapshot.index.file] if snapshot.index else []), *snapshot.facts]

    def _is_index(self, directory: str, file: str) -> bool:
        return file == self._store.kept[directory].layout.index_name

    def _take(
        self,
        work: Transaction,
        directory: str,
        file: str,
        digest: str | None,
        *,
        wants_bytes: bool,
        wants_words: bool,
    ) -> None:
        store = self._store
        cause = Cause("updated" if digest else "deleted", store.clock_ms())
        if digest is None:
            if wants_bytes:
                store.memory.history.replaced(
                    work, directory, file, was=None, now=None, content=None, cause=cause
                )
            if wants_words:
                store.memory.finder.drop(work, directory, file)
            return
        try:
            content, stat = read_file(directory, file)
        except ZcsyncdError:
            return  # its own finding says so
        if hashlib.sha256(content).hexdigest() != digest:
            return
        if wants_bytes:
            now = Held(digest, stat.size, stat.mtime_ns)
            store.memory.history.replaced(
                work, directory, file, was=None, now=now, content=content, cause=cause
            )
        if wants_words:
            store.memory.finder.put(work, directory, file, digest, content)

    def _commit(self, work: Transaction) -> None:
        """Write a slice, behind everything that was told and saved before it."""
        self._store.commit()
        self._store.keep()
        if not work.empty:
            self._store.database.commit(work)
        self._store.memory.history.settled()
