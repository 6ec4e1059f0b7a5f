"""A real bus on a real socket (on Windows a real pipe), in a thread of its own, answering with small functions."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path

from tests.bus.fake_journal import FakeJournal
from zcsyncd.bus.codec import data_text
from zcsyncd.bus.connection import session_of
from zcsyncd.bus.events import StoredEvent
from zcsyncd.bus.hub import Hub
from zcsyncd.bus.server import Call, Server
from zcsyncd.bus.unix import bind_socket, same_user

TIMEOUT_S = 20.0
WINDOWS = sys.platform == "win32"


class BusThread:
    """Server, hub and journal; `publish` is what the daemon's store does."""

    def __init__(self, directory: Path, admits: Callable[..., bool] = same_user) -> None:
        self.address = rf"\\.\pipe\{directory.name}" if WINDOWS else str(directory / "bus.sock")
        self.journal = FakeJournal()
        self.release = threading.Event()
        self.calls: list[str] = []
        self._admits = admits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bus")

    def start(self) -> None:
        self._thread.start()
        self.run(self._start())

    def stop(self) -> None:
        try:
            self.run(self.server.close(grace_s=0.3))
            leftovers = self.run(self._tasks())
            assert leftovers == []
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(TIMEOUT_S)
            self._loop.close()

    def run(self, work: Coroutine[object, object, object]):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def begin(self, work: Coroutine[object, object, object]) -> concurrent.futures.Future[object]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def publish(
        self, *data: dict[str, object], topic: str = "memory/changed", directory: str | None = "/m"
    ) -> None:
        """Journal some events and announce them in one go."""

        async def go() -> None:
            self.hub.announce([self.journal.add(topic, directory, data_text(each)) for each in data])

        self.run(go())

    def until(self, fact: Callable[[], bool]) -> None:
        """Wait for a fact on the bus's own loop."""

        async def go() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                while not fact():  # noqa: ASYNC110 - any fact, not only ours
                    await asyncio.sleep(0.001)

        self.run(go())

    async def _start(self) -> None:
        self.hub = Hub(self.journal, lambda: 1_796_055_660_000)
        self.server = Server(self._answer, self.hub, admits=self._admits)
        if WINDOWS:
            self.server.serve_pipe(self.address)
        else:
            await self.server.serve(bind_socket(self.address))

    async def _tasks(self) -> list[str]:
        me = asyncio.current_task()
        return [repr(task) for task in asyncio.all_tasks() if task is not me]

    async def _answer(self, call: Call) -> dict[str, object]:
        self.calls.append(call.method)
        return await getattr(self, "do_" + call.method.replace(".", "_"))(call)

    async def do_ping(self, call: Call) -> dict[str, object]:
        return {"cursor": call.link.hub_cursor}

    async def do_hello(self, call: Call) -> dict[str, object]:
        session = call.params.get("session")
        call.link.session = session_of(session) if isinstance(session, dict) else None
        return {"cursor": call.link.hub_cursor, "host": call.link.session.host if call.link.session else None}

    async def do_status(self, call: Call) -> dict[str, object]:
        counters = self.server.counters
        return {"connections": counters.connections, "subscriptions": counters.subscriptions}

    async def do_dirs_resolve(self, call: Call) -> dict[str, object]:
        raise RuntimeError("a bug of the test's own")

    async def do_memory_index(self, call: Call) -> dict[str, object]:
        return {"text": "x" * 2_000_000}

    async def do_daemon_flush(self, call: Call) -> dict[str, object]:
        """Wait until the test lets go."""
        await asyncio.to_thread(self.release.wait, TIMEOUT_S)
        return {"cursor": call.link.hub_cursor}

    async def do_daemon_stop(self, call: Call) -> dict[str, object]:
        self.server.stop_accepting()
        await self.server.close_all(but=call.link, grace_s=0.3)
        return {}

    async def do_audit_dismiss(self, call: Call) -> dict[str, object]:
        """Publish something, then answer: the order is what counts."""
        self.hub.announce([self.journal.add(data=data_text({"key": call.params["key"]}))])
        return {}

    async def do_audit_get(self, call: Call) -> dict[str, object]:
        """Subscribe, then fail."""
        call.link.subscribe(["*"], lambda _event: True)
        raise RuntimeError("after subscribing")

    async def do_events_subscribe(self, call: Call) -> dict[str, object]:
        dirs = call.params.get("dirs")

        def wants(event: StoredEvent) -> bool:
            return not isinstance(dirs, list) or event.directory in dirs

        topics, since = call.params["topics"], call.params.get("since")
        assert isinstance(topics, list)
        number, cursor = call.link.subscribe(topics, wants, since if isinstance(since, str) else None)
        return {"subscription": number, "cursor": cursor}

    async def do_events_unsubscribe(self, call: Call) -> dict[str, object]:
        number = call.params["subscription"]
        assert isinstance(number, int)
        call.link.unsubscribe(number)
        return {}
