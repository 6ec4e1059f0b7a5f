"""Atomic save → a subscriber's hands: the daemon beside watchman and the bare relay, in turns."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.home import Home, fact_text
from benchmarks.processes import Contestant, Listener, Relay, Stamps, Told, Watchman, Zcsyncd, save_all
from benchmarks.result import Row, median, ms, percentile
from zcsyncd.bus.client import Client

DIRECTORIES, FACTS = 20, 10
MODES = {"every 50 ms": 0.05, "every 10 ms": 0.01}
QUIET_S = 0.3
PING_EVERY_S = 0.02


@dataclass
class Heat:
    """What one contestant did in one mode."""

    latencies_ms: list[float] = field(default_factory=list)
    saves: int = 0

    @property
    def missed(self) -> int:
        """Saves that nobody was told of before the same file was saved again."""
        return self.saves - len(self.latencies_ms)


class Lane:
    """A contestant with its own home and listener."""

    serials = itertools.count(1)

    def __init__(self, contestant: Contestant, listener: Listener) -> None:
        self.contestant = contestant
        self.listener = listener
        self.paths = itertools.cycle(contestant.home.facts())
        self.heats: dict[str, Heat] = defaultdict(Heat)

    def run(self, mode: str, saves: int) -> None:
        """Save so many facts and add up what was told when."""
        work = [
            (path, fact_text("fact.md", next(self.serials))) for path in itertools.islice(self.paths, saves)
        ]
        stamps = save_all(self.contestant.home, work, MODES[mode.partition(",")[0]])
        heat = self.heats[mode]
        heat.saves += saves
        heat.latencies_ms += latencies([path for path, _ in work], stamps, self.listener.told(QUIET_S))


def latencies(paths: list[str], stamps: Stamps, told: Told) -> list[float]:
    """Match each save with the first telling of its path before the path's next save; give milliseconds."""
    when = defaultdict(list)
    for path, _, at in told:
        when[path].append(at)
    saves = defaultdict(list)
    for path, stamp in zip(paths, stamps, strict=True):
        saves[path].append(stamp)
    found = []
    for path, times in saves.items():
        # From right before the move: a reader that the move wakes may run before the saver can look at the clock again.
        starts = [before for before, _ in times]
        for before, end in zip(starts, [*starts[1:], float("inf")], strict=True):
            first = next((at for at in when[path] if before <= at < end), None)
            if first is not None:
                found.append((first - before) / 1e6)
    return found


class Pings(threading.Thread):
    """Asks the daemon something again and again, and notes how long the answers take."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.round_trips_ms: list[float] = []
        self.enough = threading.Event()

    def run(self) -> None:
        with Client(self.address, timeout_s=10) as client:
            while not self.enough.wait(PING_EVERY_S):
                start = time.perf_counter()
                client.call("ping")
                self.round_trips_ms.append((time.perf_counter() - start) * 1000)


def asked_while(daemon: Contestant) -> Pings:
    pings = Pings(daemon.address)
    pings.start()
    return pings


def measure(*, quick: bool) -> Iterator[Row]:
    rounds, gentle, steady = (2, 20, 60) if quick else (5, 50, 200)
    with ExitStack() as stack:
        kinds = [Zcsyncd, Relay, *([Watchman] if Watchman.there() else [])]
        lanes = []
        for kind in kinds:
            home = stack.enter_context(Home(DIRECTORIES, FACTS))
            contestant = stack.enter_context(kind(home))
            lanes.append(Lane(contestant, stack.enter_context(contestant.listen())))
        for _ in range(rounds):
            for mode, saves in zip(MODES, (gentle, steady), strict=True):
                for lane in lanes:
                    lane.run(mode, saves)
        ours = lanes[0]
        pings = asked_while(ours.contestant)
        ours.run("every 10 ms, asked meanwhile", steady)
        pings.enough.set()
        pings.join()
    results = {lane.contestant.kind: lane.heats for lane in lanes}
    for mode in MODES:
        yield from _rows(mode, {kind: heats[mode] for kind, heats in results.items()})
    yield from _asked(ours.heats, pings.round_trips_ms)


def _rows(mode: str, heats: dict[str, Heat]) -> Iterator[Row]:
    ours, relay, watchman = heats["zcsyncd"], heats["relay"], heats.get("watchman")
    mine = median(ours.latencies_ms)
    what = f"save {mode} → subscriber"
    if watchman:
        theirs = median(watchman.latencies_ms)
        shown = f"watchman settle 1: {ms(theirs)}, p99 {ms(percentile(watchman.latencies_ms, 0.99))}"
        yield Row(f"{what}, median", ms(mine), shown, mine / theirs, "< 1×", mine < theirs)
    else:
        yield Row(f"{what}, median", ms(mine), "watchman is not installed", None, "< 1×")
    bare = median(relay.latencies_ms)
    shown = f"bare relay: {ms(bare)}, p99 {ms(percentile(relay.latencies_ms, 0.99))}"
    yield Row(f"{what}, median", ms(mine), shown, mine / bare, "≤ 8×", mine <= 8 * bare)
    late, bare = percentile(ours.latencies_ms, 0.99), percentile(relay.latencies_ms, 0.99)
    yield Row(f"{what}, p99", ms(late), f"bare relay: {ms(bare)}", late / bare, "< 25 ms", late < 25)
    others = ", ".join(f"{kind} {heat.missed}" for kind, heat in heats.items() if kind != "zcsyncd")
    yield Row(f"{what}, not told of {ours.saves}", f"{ours.missed}", others, None, "0", ours.missed == 0)


def _asked(heats: dict[str, Heat], round_trips_ms: list[float]) -> Iterator[Row]:
    alone, asked = heats["every 10 ms"], heats["every 10 ms, asked meanwhile"]
    shown = f"{ms(median(round_trips_ms))}, p99 {ms(percentile(round_trips_ms, 0.99))}"
    yield Row(
        f"a question asked meanwhile ({len(round_trips_ms)} pings)",
        shown,
        must="answered",
        holds=bool(round_trips_ms),
    )
    mine, before = median(asked.latencies_ms), median(alone.latencies_ms)
    yield Row(
        "save every 10 ms → subscriber while asked, median",
        ms(mine),
        f"not asked: {ms(before)}",
        mine / before,
    )
