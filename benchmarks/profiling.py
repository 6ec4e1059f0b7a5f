"""Where the daemon's time goes, steady saves and a burst: a table per function, in microseconds per save.

A profiler makes small functions look dearer than they are: the order counts, not the sum. The start is in it too, and
is kept small by a home of few facts.
"""

from __future__ import annotations

import itertools
import os
import pstats

from benchmarks.home import Home, fact_text
from benchmarks.processes import Zcsyncd, save_all

LINES = 45


def profile(*, quick: bool) -> str:
    """Profile a daemon under steady saves and one in a burst; give the report."""
    steady, burst = (300, 500) if quick else (2000, 5000)
    return "\n\n".join(
        [
            _profiled("saves every 10 ms", Home(20, 10), steady, 0.01),
            _profiled("saves at once", Home(200, 10), burst, 0.0),
        ]
    )


def _profiled(what: str, made: Home, saves: int, interval_s: float) -> str:
    with made as home:
        home.grow_old()
        with Zcsyncd(home, wrapper=("-m", "benchmarks.profiled")) as daemon, daemon.listen():
            before_s = daemon.fine_cpu_s()
            paths = itertools.islice(itertools.cycle(home.facts()), saves)
            work = [(path, fact_text(os.path.basename(path), number)) for number, path in enumerate(paths, 1)]
            save_all(home, work, interval_s)
            daemon.flush()
            spent_us = (daemon.fine_cpu_s() - before_s) * 1e6 / saves
        stats = pstats.Stats(os.path.join(home.state, "profile")).stats
    parts = [f"{saves:,} {what}: {spent_us:.0f} µs CPU per save under the profiler"]
    for title, column in (("own time", 2), ("with what it calls", 3)):
        ranked = sorted(stats.items(), key=lambda item: item[1][column], reverse=True)
        lines = [
            f"{values[column] * 1e6 / saves:9.1f} {values[1] / saves:8.2f}  {_name(place)}"
            for place, values in ranked
            if _name(place).startswith("zcsyncd") or column == 2
        ]
        parts.append("\n".join([title, " µs/save  calls/save  function", *lines[:LINES]]))
    return "\n\n".join(parts)


def _name(place: tuple[str, int, str]) -> str:
    file, line, function = place
    short = file.partition("site-packages" + os.sep)[2] or file
    at = short.rfind("zcsyncd" + os.sep)
    return f"{short[at:] if at >= 0 else os.path.basename(short)}:{line} {function}"
