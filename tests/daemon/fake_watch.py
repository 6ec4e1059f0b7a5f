"""A watch of which the test is the kernel: it says what settled, and moves the clock by hand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection

from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier

Item = Settled | Unsure | Degraded | Barrier


class FakeWatch:
    """Gives what the test puts in; what is held comes back when the test moves the clock past its time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.holds: dict[tuple[str, str], float] = {}
        self.silent: set[str] = set()
        self.distrusted: list[str] = []
        self.on_rewatch: Callable[[], None] = lambda: None
        self._items: deque[Item] = deque()
        self._news = asyncio.Event()

    # -- what the daemon asks of a watch

    def clock(self) -> float:
        return self.now

    @property
    def has_more(self) -> bool:
        return bool(self._items)

    def is_current(self, directory: str) -> bool:
        return False

    def hold(self, directory: str, path: str, until: float) -> None:
        self.holds[directory, path] = until

    async def silent_in(self, directories: Collection[str]) -> list[str]:
        return [directory for directory in directories if directory in self.silent]

    def distrust(self, base: str, reason: str) -> None:
        self.distrusted.append(base)

    async def rewatch(self) -> None:
        self.on_rewatch()
        for _ in range(3):  # a real one gives the loop its turns
            await asyncio.sleep(0)

    async def settled(self) -> AsyncIterator[Item]:
        while True:
            while self._items:
                yield self._items.popleft()
            self._news.clear()
            await self._news.wait()

    # -- what the test does

    def give(self, *items: Item) -> None:
        """Put items into the stream, all there at one moment."""
        self._items.extend(items)
        self._news.set()

    def move(self, seconds: float) -> None:
        """Move the clock; what was held until then is delivered."""
        self.now = round(self.now + seconds, 6)
        for directory, path in [key for key, until in self.holds.items() if until <= self.now + 1e-9]:
            del self.holds[directory, path]
            self.give(Settled(directory, frozenset({path})))


class HandLoop(asyncio.SelectorEventLoop):
    """A real loop whose timers go by the clock of a fake watch."""

    def __init__(self, watch: FakeWatch) -> None:
        self._watch = watch
        super().__init__()

    def time(self) -> float:
        return self._watch.now
