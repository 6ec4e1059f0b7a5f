"""What remembering costs: saves → subscriber and CPU with versions and words kept, beside the same daemon without."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.home import Home
from benchmarks.latency import Lane
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median, ms, percentile
from benchmarks.texts import made_up_fact

NO_WORDS = "search:\n  enabled: false\n"
NOTHING = f"history:\n  enabled: false\n{NO_WORDS}"
KINDS = {"all": "", "no words": NO_WORDS, "nothing": NOTHING}
"""What is kept, and the configuration for it."""
DIRECTORIES, FACTS = 20, 10
MODE = "every 10 ms"
SIZED_DIRECTORIES, SIZED_FACTS, FACT_BYTES = 200, 10_000, 850
"""A body of so many bytes, a little more, makes a file of 1 KiB or little more."""
WAIT_S = 300.0


def measure(*, quick: bool) -> Iterator[Row]:
    yield from _saves(*((2, 40) if quick else (8, 250)))
    yield from _sizes(300 if quick else SIZED_FACTS)


# -- the way of a save


def _saves(rounds: int, each: int) -> Iterator[Row]:
    spent_us: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    with ExitStack() as stack:
        lanes = {what: _lane(stack, config) for what, config in KINDS.items()}
        for _ in range(rounds):
            for what, lane in lanes.items():
                before_s = lane.contestant.fine_cpu_s()
                lane.run(MODE, each)
                lane.contestant.flush()
                spent_us[what] += (lane.contestant.fine_cpu_s() - before_s) * 1e6
        heats = {what: lane.heats[MODE].latencies_ms for what, lane in lanes.items()}
    saves = rounds * each
    ours = heats["all"]
    for what, other in (("neither versions nor words", "nothing"), ("versions, no words", "no words")):
        theirs = heats[other]
        yield Row(
            f"save {MODE} → subscriber, versions and words kept, median",
            f"{ms(median(ours))}, p99 {ms(percentile(ours, 0.99))}",
            f"{what}: {ms(median(theirs))}, p99 {ms(percentile(theirs, 0.99))}",
            median(ours) / median(theirs),
        )
        mine, other_us = spent_us["all"] / saves, spent_us[other] / saves
        yield Row(
            f"the same, CPU for each of {saves:,} saves",
            f"{mine:.0f} µs",
            f"{what}: {other_us:.0f} µs",
            mine / other_us,
        )


def _lane(stack: ExitStack, config: str) -> Lane:
    home = stack.enter_context(Home(DIRECTORIES, FACTS))
    if config:
        home.configure(config)
    daemon = stack.enter_context(Zcsyncd(home))
    return Lane(daemon, stack.enter_context(daemon.listen()))


# -- the database


def _sizes(facts: int) -> Iterator[Row]:
    sizes, spent_s = {}, {}
    for what, config in KINDS.items():
        with Home(SIZED_DIRECTORIES, 0) as home:
            total = _fill(home, facts)
            if config:
                home.configure(config)
            with Zcsyncd(home) as daemon:
                ready_s = daemon.cpu_s()
                _wait(home, facts, versions="history" not in config, words="search" not in config)
                spent_s[what] = daemon.cpu_s() - ready_s
            sizes[what] = os.path.getsize(_database(home)) / 2**20
    whole = total / 2**20
    yield Row(
        f"database with {facts:,} facts of 1 KiB ({whole:.1f} MiB in all), versions and words",
        f"{sizes['all']:.1f} MiB",
        f"without both: {sizes['nothing']:.1f} MiB; without words: {sizes['no words']:.1f} MiB",
        sizes["all"] / sizes["nothing"],
    )
    yield Row(
        "CPU until all of them are saved, after the first scan",
        f"{spent_s['all']:.2f} s",
        f"without words: {spent_s['no words']:.2f} s",
        spent_s["all"] / spent_s["no words"] if spent_s["no words"] else None,
    )


def _fill(home: Home, facts: int) -> int:
    """Lay out facts, the like of which no two are; give their bytes."""
    total = 0
    for number in range(facts):
        file, text = made_up_fact(number, FACT_BYTES)
        total += len(text.encode())
        with open(
            os.path.join(home.directories[number % len(home.directories)], file), "w", encoding="utf-8"
        ) as page:
            page.write(text)
    return total


def _database(home: Home) -> str:
    return os.path.join(home.state, "state.db")


def _wait(home: Home, facts: int, *, versions: bool, words: bool) -> None:
    """Wait until everything is saved, which happens in the background, in slices."""
    until = time.monotonic() + WAIT_S
    asked = [
        f"select count(*) from {table}"
        for table, kept in (("versions", versions), ("searched", words))
        if kept
    ]
    with closing(sqlite3.connect(f"file:{_database(home)}?mode=ro", uri=True)) as connection:
        while any(connection.execute(question).fetchone()[0] < facts for question in asked):
            if time.monotonic() > until:
                raise RuntimeError(f"not everything was saved within {WAIT_S:g} s")
            time.sleep(0.1)
