"""One commit of the daemon's database (an event, the fact, its directory) beside the barest SQLite can do, in turns."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from benchmarks.home import Home
from benchmarks.result import Row, median, ms, percentile
from zcsyncd.daemon.database import Database, NewEvent, Transaction
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.disk import read_snapshot


def measure(*, quick: bool) -> Iterator[Row]:
    rounds = 100 if quick else 2000
    with Home(1, 10) as home, ExitStack() as stack:
        writers = {
            "ours": stack.enter_context(_ours(home)),
            "normal": stack.enter_context(_bare(home, "normal")),
            "full": stack.enter_context(_bare(home, "full")),
        }
        times: dict[str, list[float]] = {name: [] for name in writers}
        for number in range(rounds):
            for name, write in writers.items():
                if name == "full" and number % 10:
                    continue  # every one of these waits for the disk
                start = time.perf_counter()
                write()
                times[name].append((time.perf_counter() - start) * 1000)
    shown = {name: f"{ms(median(some))}, p99 {ms(percentile(some, 0.99))}" for name, some in times.items()}
    mine = median(times["ours"])
    what = "one commit: event, fact and directory"
    yield Row(
        what,
        shown["ours"],
        f"bare insert of the event, synchronous=NORMAL: {shown['normal']}",
        mine / median(times["normal"]),
    )
    yield Row(
        what, shown["ours"], f"the same, synchronous=FULL: {shown['full']}", mine / median(times["full"])
    )


@contextmanager
def _ours(home: Home) -> Iterator[Callable[[], None]]:
    place, name = home.directories[0], home.names[0]
    before = read_snapshot(place, ZCODE)
    after = read_snapshot(place, ZCODE, before, frozenset([os.path.join(place, name)]))
    data = _data(name)

    def write() -> None:
        work = Transaction()
        work.tell(NewEvent("memory/changed", place, data, 0))
        work.save_directory(after, 0, 0)
        work.save_files(before, after)
        database.commit(work)

    with closing(Database(os.path.join(home.state, "ours.db"), "boot", "benchmark")) as database:
        yield write


@contextmanager
def _bare(home: Home, synchronous: str) -> Iterator[Callable[[], None]]:
    path = os.path.join(home.state, f"{synchronous}.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute(f"pragma synchronous={synchronous}")
        connection.execute("create table events (seq integer primary key, data text)")
        data = _data(home.names[0])
        yield lambda: connection.execute("insert into events (data) values (?)", (data,)) and None


def _data(name: str) -> str:
    return f'{{"changes":[{{"kind":"updated","file":"{name}","contentHash":"{"0" * 64}","description":"{"x" * 80}"}}]}}'
