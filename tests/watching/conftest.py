"""What the watching tests share: a consumer that notes all it gets, and children with other rights or limits."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.settle import Degraded, Settled, Unsure
from zcsyncd.watching.stream import Barrier, Ping, Watch

PATIENCE_S = 20.0
CLONE_NEWUSER = 0x10000000
NOBODY = 65534


def _is_project(name: str) -> bool:
    return not name.startswith(".")


def _is_memory(name: str) -> bool:
    return name == "memory"


def _tree_of(base: Path | str) -> Tree:
    return Tree("test", str(base), (_is_project, _is_memory))


class River:
    """A `Watch` with a consumer that deals with everything at once, and remembers it."""

    def __init__(self, home: Path, *trees: Tree, **options: Any) -> None:
        self.home = home
        self.base = home / "projects"
        self.items: list[Settled | Unsure | Degraded] = []
        self.on_item: Callable[[Any], None] = lambda _: None
        options.setdefault("beside", lambda name: name.endswith(".lock"))
        self.watch = Watch(
            trees or (_tree_of(self.base),),
            canary_dir=str(home / "canary"),
            ending=lambda name: name.endswith(".md"),
            **options,
        )
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.watch.start()
        self._task = asyncio.create_task(self._consume())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.watch.stop()
        await asyncio.wait_for(self._task, PATIENCE_S)

    async def _consume(self) -> None:
        async for item in self.watch.settled():
            self.on_item(item)
            if isinstance(item, Barrier):
                item.done()
            elif isinstance(item, Ping):
                item.heard()
            else:
                self.items.append(item)
            if isinstance(item, Unsure):
                await self.watch.rewatch()
            self._news.set()

    async def until(self, fact: Callable[[], object]) -> None:
        """Wait until something holds that can only become true by an item."""
        async with asyncio.timeout(PATIENCE_S):
            while not fact():
                self._news.clear()
                await self._news.wait()

    async def flushed(self) -> None:
        await asyncio.wait_for(self.watch.barrier(), PATIENCE_S)

    def count(self, path: Path | str) -> int:
        """How often a path was delivered by its name."""
        return sum(isinstance(item, Settled) and str(path) in item.paths for item in self.items)

    def wholes(self, directory: Path | str) -> int:
        return sum(
            item.whole
            for item in self.items
            if isinstance(item, Settled) and item.directory == str(directory)
        )

    def unsure(self, reason: str) -> int:
        return sum(isinstance(item, Unsure) and item.reason == reason for item in self.items)

    def names(self) -> set[str]:
        return {os.path.basename(p) for item in self.items if isinstance(item, Settled) for p in item.paths}

    tree_of = staticmethod(_tree_of)


@pytest.fixture
def open_river() -> type[River]:
    """Give the class whose instances are a watch with a consumer."""
    return River


@pytest.fixture
def quick_home() -> Iterator[Path]:
    """Give a home in memory where there is one: for thousands of files."""
    place = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="zcsyncd-test-", dir=place if os.access(place, os.W_OK) else None))
    yield home
    shutil.rmtree(home, ignore_errors=True)


Scenario = Callable[[Path], Coroutine[Any, Any, None]]


@pytest.fixture
def in_child() -> Iterator[Callable[..., None]]:
    """Run a scenario in a forked child, in a home of its own: as `nobody` when we are root, or under other limits."""
    home = Path(tempfile.mkdtemp(prefix="zcsyncd-test-"))

    def run(scenario: Scenario, *, limits: dict[str, int] | None = None) -> None:
        import watchdog.observers  # noqa: F401  # a child without rights may not be able to read it any more

        asyncio.run(asyncio.sleep(0))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # fork beside threads: the child starts its own
            child = os.fork()
        if child == 0:
            os._exit(_child(scenario, home, limits))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 77:
            pytest.skip("this system gives no user namespaces, in which limits could be set")
        assert code == 0, "the child failed, see its traceback"

    run.open_river = River
    yield run
    shutil.rmtree(home, ignore_errors=True)


def _child(scenario: Scenario, home: Path, limits: dict[str, int] | None) -> int:
    try:
        if limits is not None:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
                return 77
            try:
                for name, value in limits.items():
                    Path("/proc/sys/user", name).write_text(str(value))
            except OSError:
                return 77
        elif os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        asyncio.run(asyncio.wait_for(scenario(home), 2 * PATIENCE_S))
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        return 1
    return 0
