"""From a kill to the first answer of the next start, a hundred times while others write, beside a bare interpreter."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Event, Thread

from benchmarks.home import Home, fact_text
from benchmarks.processes import START_S, Process, Zcsyncd
from benchmarks.result import Row, median, ms, percentile
from benchmarks.write import write_atomically
from zcsyncd.bus.client import Client
from zcsyncd.errors import NoDaemon

KILLS = 100
FIRST_ANSWER_S = 1.0
LEAVE_S = 2.0
PAUSE_S = 0.005


def measure(*, quick: bool) -> Iterator[Row]:
    kills = 5 if quick else KILLS
    with Home(20, 10) as home:
        with Zcsyncd(home) as first:
            address = first.address
            first.child.kill()
            first.child.wait()
        over = Event()
        writers = [Thread(target=_save, args=(home, number, over)) for number in range(2)]
        for writer in writers:
            writer.start()
        try:
            answers, bare = [], []
            for _ in range(kills):
                bare.append(_bare(home))
                answers.append(_start(home, address))
            leaves = [_leave(home) for _ in range(max(2, kills // 5))]
        finally:
            over.set()
            for writer in writers:
                writer.join()
    mine, theirs = median(answers), median(bare)
    yield Row(
        f"killed {kills} times while two programs save: from the start to the first answer",
        f"{ms(mine)}, p99 {ms(percentile(answers, 0.99))}, longest {ms(max(answers))}",
        f"`python -c pass`: {ms(theirs)}",
        mine / theirs,
        "each ≤ 1 s",
        max(answers) <= FIRST_ANSWER_S * 1000,
    )
    yield Row(
        f"told to stop (SIGTERM) {len(leaves)} times while two programs save: to the end of the process",
        f"{ms(median(leaves))}, longest {ms(max(leaves))}",
        must="each ≤ 2 s",
        holds=max(leaves) <= LEAVE_S * 1000,
    )


def _save(home: Home, number: int, over: Event) -> None:
    facts = home.facts()
    saves = number
    while not over.wait(PAUSE_S):
        path = facts[saves % len(facts)]
        write_atomically(path, fact_text(os.path.basename(path), saves).encode())
        saves += 2


def _bare(home: Home) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=home.env, check=True)
    return (time.perf_counter() - start) * 1000


def _leave(home: Home) -> float:
    """Start a daemon, wait until it is ready, tell it to stop; give the milliseconds until it has."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(home.state, "endpoint.json"))  # a killed one's
    with Zcsyncd(home) as daemon:
        start = time.perf_counter()
        daemon.child.terminate()
        if daemon.child.wait(START_S) != 0:
            raise RuntimeError(f"it did not leave in order: {daemon.words()}")
        return (time.perf_counter() - start) * 1000


def _start(home: Home, address: str) -> float:
    """Start a daemon, wait for its first answer, kill it; give the milliseconds."""
    start = time.perf_counter()
    daemon = Process(home, [sys.executable, "-m", "zcsyncd", "run"])
    try:
        while True:
            try:
                with Client(address, timeout_s=START_S) as client:
                    client.call("ping", timeout_s=START_S)
                return (time.perf_counter() - start) * 1000
            except NoDaemon:
                if daemon.child.poll() is not None or time.perf_counter() - start > START_S:
                    raise RuntimeError(f"the daemon did not start: {daemon.words()}") from None
                time.sleep(0.002)
    finally:
        daemon.child.kill()
        daemon.end()
