"""A daemon whose acts stop at a step that a test names, and wait there to be killed; for test_killed_in_an_act.py.

    python -m tests.transcripts.parked run      (ZCSYNCD_PARKS: a directory)

    parks/orders.json   memory directory → what is to happen to an act on it; acts before it is there go their way
    parks/visits        one line for each step that an act came to: memory directory, step, how often so far
    parks/waiting       one line for each act that has come to its step and stands still

Rule 1: everything else is the real daemon: its command line, socket, database, threads.
Rule 2: an act stands still at its step as if the process had ended there: it does nothing any more, and nobody looks
at its directory meanwhile. So many acts are killed at once, each at a step of its own.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from zcsyncd.cli.main import main
from zcsyncd.daemon import desk
from zcsyncd.daemon.pipeline import Pipeline
from zcsyncd.memory import pen
from zcsyncd.memory.exchange import Unsupported
from zcsyncd.memory.folder import Folder

MOST_ACTS = 256
"""Threads in which acts may stand still: the daemon's own few would soon be all taken."""

parks = Path(os.environ["ZCSYNCD_PARKS"])
acting: ContextVar[str] = ContextVar("acting", default="")
"""The memory directory that an act is about; threads that it works in know it, too."""
visited: Counter[tuple[str, str]] = Counter()


def orders() -> dict[str, Any]:
    """Tell what is to happen to this act; nothing while no orders are there."""
    try:
        with open(parks / "orders.json", "rb") as file:
            every: dict[str, dict[str, Any]] = json.load(file)
    except FileNotFoundError:
        return {}
    return every.get(acting.get(), {})


def note(name: str, *words: object) -> None:
    with open(parks / name, "ab", buffering=0) as file:
        file.write("\t".join(map(str, words)).encode() + b"\n")


def is_here(step: str) -> bool:
    """Note that an act came to a step, let others do there what they are to do, and tell whether it is to wait here."""
    order = orders()
    if not order:
        return False
    directory = acting.get()
    visited[directory, step] += 1
    count = visited[directory, step]
    note("visits", directory, step, count)
    if order.get("amid") == [step, count]:
        os.replace(order["theirs"], os.path.join(directory, order["file"]))
    if order.get("stop") != [step, count]:
        return False
    note("waiting", directory)
    return True


def pen_step(step: str) -> None:
    if is_here(step):
        threading.Event().wait()


async def desk_step(step: str) -> None:
    if is_here(step):
        await asyncio.Event().wait()


def alone(self: Pipeline, directory: str, act: Any) -> Any:
    """Begin an act, from here on known by its directory."""
    acting.set(directory)
    return begin(self, directory, act)


async def begin(self: Pipeline, directory: str, act: Any) -> Any:
    loop = asyncio.get_running_loop()
    if not hasattr(loop, "parks"):
        loop.parks = ThreadPoolExecutor(MOST_ACTS)
        loop.set_default_executor(loop.parks)
    return await whole_alone(self, directory, act)


def no_exchange(whole: Any) -> Any:
    """Make a rename that is missing where an order says so."""

    def called(self: Folder, *names: str) -> None:
        if orders().get("lacks"):
            raise Unsupported
        whole(self, *names)

    return called


def link(self: Folder, source: str, target: str) -> None:
    if orders().get("lacks") == "links":
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    whole_link(self, source, target)


whole_alone, whole_link = Pipeline.alone, Folder.link
if __name__ == "__main__":
    pen.step, desk.step = pen_step, desk_step
    Pipeline.alone = alone
    Folder.exchange = no_exchange(Folder.exchange)
    Folder.rename_new = no_exchange(Folder.rename_new)
    Folder.link = link
    sys.exit(main(sys.argv[1:]))
