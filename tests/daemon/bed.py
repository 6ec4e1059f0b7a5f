"""The river in a bed of its own: real database, store, pipeline and files; the watch and the clock are the test's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.daemon.fake_watch import FakeWatch, HandLoop
from zcsyncd.bus.events import StoredEvent
from zcsyncd.daemon.database import Database, JournalRefused, Transaction
from zcsyncd.daemon.grounds import Grounds
from zcsyncd.daemon.pipeline import Pipeline
from zcsyncd.daemon.store import Store
from zcsyncd.layouts.zcode import ZCODE, directory, tree
from zcsyncd.watching.settle import Settled

YEAR_S = 365 * 86_400
PATIENCE_S = 20.0
START_MS = 1_796_000_000_000
BROKEN = "---\nname: [\n---\n\nBody.\n"
"""A fact that has a finding at once: nobody waits for another half of it."""


def good(description: str = "What it says", body: str = "Body.", name: str = "a-fact") -> str:
    return f"---\nname: {name}\ndescription: {description}\nmetadata:\n  type: project\n---\n\n{body}\n"


class RefusingDatabase(Database):
    """A real database whose disk is full as long as the test says so."""

    full = False

    def commit(self, work: Transaction) -> list[StoredEvent]:
        if self.full:
            raise JournalRefused("database or disk is full")
        return super().commit(work)


class Memory:
    """A memory directory on the disk. What is saved in it is old, unless it says otherwise."""

    def __init__(self, path: str) -> None:
        self.dir = path

    def path(self, file: str) -> str:
        return os.path.join(self.dir, file)

    def save(self, file: str, text: str | bytes, *, young: bool = False) -> str:
        path = self.path(file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(text.encode() if isinstance(text, str) else text)
        if not young:
            self.age(file)
        return path

    def age(self, file: str) -> None:
        then = time.time() - YEAR_S
        os.utime(self.path(file), (then, then))

    def event(self, *files: str, whole: bool = False, lost: bool = False) -> Settled:
        return Settled(self.dir, frozenset(map(self.path, files)), whole, lost)

    def remove(self) -> None:
        shutil.rmtree(self.dir)


class Bed:
    """One run of the river."""

    def __init__(self, place: Path, *, quiet_s: float = 3600.0, grace_ms: int = 60_000) -> None:
        self.watch = FakeWatch()
        self.root = str(place / "cli")
        self.tree = tree(self.root)
        self.grounds = Grounds((self.tree,))
        self.database = RefusingDatabase(str(place / "state.db"), "boot", "1")
        self.groups: list[list[StoredEvent]] = []
        """What each transaction told."""
        self.on_file: Callable[[str], None] = lambda _file: None
        """Called in the middle of a look, before each file."""
        self.muted: Callable[[str], frozenset[str]] = lambda _directory: frozenset()
        self.store = Store(
            self.database,
            {ZCODE.name: ZCODE},
            lambda events: self.groups.append(list(events)),
            clock_ms=self.clock_ms,
            grace_ms=grace_ms,
            muted=lambda where: self.muted(where),
            refused=lambda directories: self.pipeline.look_again(directories),
        )
        self.pipeline = Pipeline(self.watch, self.store, self.grounds, quiet_s=quiet_s, ignored=self._ignored)  # type: ignore[arg-type]  # a fake
        self._river: asyncio.Task[None] | None = None

    def clock_ms(self) -> int:
        return START_MS + round(self.watch.now * 1000)

    def _ignored(self, file: str) -> bool:
        self.on_file(file)
        return False

    def memory(self, name: str = "app") -> Memory:
        return Memory(directory(self.root, f"/home/u/{name}"))

    # -- life

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        """Run a story with the river, and take it all down."""

        async def whole() -> None:
            try:
                await story()
            finally:
                await self._end()

        with asyncio.Runner(loop_factory=lambda: HandLoop(self.watch)) as runner:
            runner.run(whole())

    async def start(self) -> None:
        """Begin as the daemon does: the river, the first scan, ready."""
        self._river = asyncio.create_task(self.pipeline.run())
        await self.pipeline.scan("start")
        self.store.work.note_adopted()
        self.store.commit()
        self.pipeline.ready = True
        self.groups.clear()

    async def _end(self) -> None:
        if self._river is not None:
            self._river.cancel()
            await asyncio.gather(self._river, return_exceptions=True)
        await self.pipeline.stop()
        self.database.full = False
        self.database.close()

    async def until(self, fact: Callable[[], Any]) -> None:
        """Let the loop turn until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not fact():
            assert time.monotonic() < deadline, f"it did not come; told: {self.topics}"
            await asyncio.sleep(0)

    async def rest(self) -> None:
        """Let the loop turn until the stream is empty and nothing is looked at; no time passes."""
        await self.until(lambda: not self.watch.has_more)
        for _ in range(5):
            await self.until(lambda: not self.pipeline._busy and not self.pipeline._scans)
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, and let happen what is due then."""
        await self.rest()
        self.watch.move(seconds)
        await self.rest()

    async def tell(self, *items: Any) -> None:
        """Have the stream say something, and wait until it was dealt with and audited."""
        self.watch.give(*items)
        await self.rest()
        await self.pass_time(0.005)

    # -- what was told

    @property
    def told(self) -> list[StoredEvent]:
        return [event for group in self.groups for event in group]

    @property
    def topics(self) -> list[str]:
        return [event.topic for event in self.told]

    def data(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(event.data) for event in self.told if event.topic == topic]

    def changes(self) -> list[tuple[str, str]]:
        return [
            (change["kind"], change["file"])
            for data in self.data("memory/changed")
            for change in data["changes"]
        ]

    def codes(self, member: str = "appeared") -> list[str]:
        return [finding["code"] for data in self.data("memory/audit") for finding in data[member]]
