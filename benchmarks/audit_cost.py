"""The first look at many facts, audit included, beside a script that only reads, hashes and parses them; and a restart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.home import Home
from benchmarks.inotify import IN_OPEN, Inotify, count_opens
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median


def measure(*, quick: bool) -> Iterator[Row]:
    directories, facts, rounds = (50, 10, 2) if quick else (200, 50, 3)
    with Home(0, 0) as empty:
        start_s, start_rss = _first(empty)
    ours, plain, loops, rss = [], [], [], []
    with Home(directories, facts) as home:
        home.grow_old()
        for _ in range(rounds):
            script = _plain(home)
            plain.append(script["process_s"])
            loops.append(script["loop_s"])
            with Home(0, 0) as fresh:
                fresh.path, fresh.projects = (
                    home.path,
                    home.projects,
                )  # the same files, a state that knows nothing
                cpu_s, mib = _first(fresh)
                ours.append(cpu_s)
                rss.append(mib)
        again_s, opens = _again(home)
    what = f"first audit of {directories * facts:,} facts in {directories} directories, CPU"
    mine, theirs, loop = median(ours), median(plain), median(loops)
    yield Row(
        what,
        f"{mine:.2f} s, {median(rss):.0f} MiB",
        f"read, hash, CSafeLoader: {theirs:.2f} s",
        mine / theirs,
        "≤ 2×",
        mine <= 2 * theirs,
    )
    net = mine - start_s
    yield Row(f"{what}, start-up of both taken off", f"{net:.2f} s", f"its loop: {loop:.2f} s", net / loop)
    yield Row("start-up of a daemon without directories, CPU", f"{start_s:.2f} s, {start_rss:.0f} MiB")
    yield Row("restart with nothing changed: files opened", str(opens), must="0", holds=opens == 0)
    yield Row(
        "restart with nothing changed, CPU", f"{again_s:.2f} s", f"first audit: {mine:.2f} s", again_s / mine
    )


def _first(home: Home) -> tuple[float, float]:
    """Give CPU seconds until ready and the memory then."""
    with Zcsyncd(home) as daemon:
        return daemon.cpu_s(), daemon.rss_mib()


def _again(home: Home) -> tuple[float, int]:
    with Zcsyncd(home) as daemon:
        daemon.wait_until_saved()
    queue = Inotify()
    try:
        queue.watch_tree(home.projects, IN_OPEN)
        with Zcsyncd(home) as daemon:
            return daemon.cpu_s(), count_opens(queue, ".md")
    finally:
        queue.close()


def _plain(home: Home) -> dict[str, float]:
    argv = [sys.executable, "-m", "benchmarks.plain_reader", home.projects]
    done = subprocess.run(argv, env=home.env, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return json.loads(done.stdout)
