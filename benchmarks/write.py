"""A fact and its entry through the daemon's pen, beside two bare atomic writes with the same syncs, in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.home import Home, fact_text, index_text
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, ms, percentile
from zcsyncd.bus.client import Client

DIRECTORIES, FACTS = 20, 25
ROUNDS = 400
MEMORY_DISK = "/dev/shm"


def measure(*, quick: bool) -> Iterator[Row]:
    rounds = 20 if quick else ROUNDS
    yield from _rows("", _turns(None, rounds), must=True)
    if os.path.isdir(MEMORY_DISK) and os.access(MEMORY_DISK, os.W_OK):
        yield from _rows(", on tmpfs, where a sync costs nothing", _turns(MEMORY_DISK, rounds), must=False)


def _turns(disk: str | None, rounds: int) -> tuple[list[float], list[float]]:
    """Give the milliseconds of each turn: the daemon's, the bare writer's."""
    ours: list[float] = []
    bare: list[float] = []
    with ExitStack() as stack:
        home = stack.enter_context(Home(DIRECTORIES, FACTS, disk))
        # The bare writer's directories are like the daemon's, and nobody watches them.
        other = stack.enter_context(Home(DIRECTORIES, FACTS, disk))
        home.grow_old()
        daemon = stack.enter_context(Zcsyncd(home))
        client = stack.enter_context(Client(daemon.address, timeout_s=30))
        names = {place: list(other.names) for place in other.directories}
        for number in range(-len(home.directories), rounds):
            turn = number % len(home.directories)
            timed = number >= 0  # the first round over all directories warms both up
            name = f"new-{number + len(home.directories):04}.md"
            took = _ask(client, home.directories[turn], name)
            ours += [took] if timed else []
            # What the daemon does after its answer (the audit, the words) must not fall into the other's turn.
            client.call("daemon.flush")
            took = _write_bare(other.directories[turn], name, names[other.directories[turn]])
            bare += [took] if timed else []
    return ours, bare


def _ask(client: Client, place: str, name: str) -> float:
    body = fact_text(name, 0).partition("\n\n")[2]
    params = {
        "dir": place,
        "name": name.removesuffix(".md"),
        "description": "What the build needs before anything compiles, as of save 0",
        "type": "project",
        "body": body,
        "mode": "create",
    }
    start = time.perf_counter()
    answer = client.call("memory.write", params)
    took = (time.perf_counter() - start) * 1000
    if (answer["action"], answer["index"]) != ("created", "inserted"):
        raise RuntimeError(f"this is no new fact with its entry: {answer}")
    return took


def _write_bare(place: str, name: str, names: list[str]) -> float:
    fact = fact_text(name, 0).encode()
    names.append(name)
    index = index_text(names).encode()
    start = time.perf_counter()
    write_atomically(os.path.join(place, name), fact)
    write_atomically(os.path.join(place, "MEMORY.md"), index)
    return (time.perf_counter() - start) * 1000


def write_atomically(path: str, content: bytes) -> None:
    """Write a file as a careful program does: temporary file, sync, rename, sync of the directory."""
    temporary = f"{path}.tmp.{os.getpid()}.0123456789ab"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _rows(where: str, turns: tuple[list[float], list[float]], *, must: bool) -> Iterator[Row]:
    for what, share in (("median", 0.5), ("p90", 0.9)):
        ours, bare = (percentile(times, share) for times in turns)
        yield Row(
            f"`memory.write` of a new fact and its entry{where}, {what} of {len(turns[0])}",
            ms(ours),
            f"two bare atomic writes: {ms(bare)}",
            ours / bare,
            "≤ 2×" if must and what == "median" else "–",
            ours <= 2 * bare if must and what == "median" else None,
        )
