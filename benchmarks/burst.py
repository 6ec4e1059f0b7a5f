"""Many saves at once: is every one of them told, and how soon? The daemon beside watchman and the bare relay."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator

from benchmarks.home import Home, fact_text, index_text
from benchmarks.processes import Contestant, Listener, Relay, Stamps, Told, Watchman, Zcsyncd, save_all
from benchmarks.result import Row
from zcsyncd.bus.client import Client
from zcsyncd.memory.revision import revision

DIRECTORIES, FACTS = 200, 25
QUIET_S = 2.5
PAIR_EVERY_S = 0.005

Work = list[tuple[str, str]]


def measure(*, quick: bool) -> Iterator[Row]:
    directories, facts = (20, 25) if quick else (DIRECTORIES, FACTS)
    rivals = [Relay, *([Watchman] if Watchman.there() else [])]
    theirs = {kind.kind: _burst(kind, directories, facts) for kind in rivals}
    with Home(directories, facts) as home, Zcsyncd(home) as daemon, daemon.listen() as listener:
        ours = _told_in_burst(daemon, listener, _work(home, 1))
        yield from _burst_rows(directories * facts, directories, ours, theirs)
        yield from _stopped(daemon, listener, 10 if quick else 100)
        yield from _pairs(daemon, listener, 100 if quick else 1000)


def _work(home: Home, serial: int) -> Work:
    return [(path, fact_text(os.path.basename(path), serial)) for path in home.facts()]


def _new(home: Home, each: int) -> Work:
    """So many new facts in each directory."""
    names = [f"new-{number:03}.md" for number in range(each)]
    return [(os.path.join(place, name), fact_text(name, 0)) for name in names for place in home.directories]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- as fast as the disk takes them


def _burst(kind: type[Contestant], directories: int, facts: int) -> tuple[int, float, float]:
    with Home(directories, facts) as home, kind(home) as contestant, contestant.listen() as listener:
        return _told_in_burst(contestant, listener, _work(home, 1))


def _told_in_burst(contestant: Contestant, listener: Listener, work: Work) -> tuple[int, float, float]:
    """Give: files told, seconds from the last save to the last telling, seconds that the saves took."""
    stamps = save_all(contestant.home, work)
    told = listener.told(QUIET_S)
    return len(_told_of(work, stamps, told)), _late_s(stamps, told), (stamps[-1][1] - stamps[0][0]) / 1e9


def _told_of(work: Work, stamps: Stamps, told: Told) -> set[str]:
    """Give the paths whose last content was told (those who tell no hash: that were told after the last save)."""
    last = {path: (before, _hash(text)) for (path, text), (before, _) in zip(work, stamps, strict=True)}
    return {
        path
        for path, content, at in told
        if path in last and (content == last[path][1] if content else at >= last[path][0])
    }


def _late_s(stamps: Stamps, told: Told) -> float:
    return (max(at for _, _, at in told) - stamps[-1][1]) / 1e9 if told else float("nan")


def _burst_rows(
    saves: int, directories: int, ours: tuple[int, float, float], theirs: dict[str, tuple[int, float, float]]
) -> Iterator[Row]:
    files, late_s, took_s = ours
    what = f"{saves:,} saves over {directories} directories at once"
    shown = ", ".join(f"{kind} {told:,}" for kind, (told, _, _) in theirs.items())
    yield Row(f"{what}: told", f"{files:,}", shown, None, "all", files == saves)
    for kind, (_, their_late_s, their_took_s) in theirs.items():
        yield Row(
            f"{what}: first save → last telling",
            f"{took_s + late_s:.2f} s, {late_s:.2f} s after the last save",
            f"{kind} {their_took_s + their_late_s:.2f} s, {their_late_s:.2f} s after",
            (took_s + late_s) / (their_took_s + their_late_s),
            "≤ 2 s after",
            late_s <= 2,
        )


# -- while the reader is stopped


def _stopped(daemon: Zcsyncd, listener: Listener, each: int) -> Iterator[Row]:
    work = _new(daemon.home, each)
    stamps, told, took_s = _saved_while_stopped(daemon, work, daemon.flush, listener)
    seen = _told_of(work, stamps, told)
    rescans = sum(what == "daemon/rescanned" for what, _, _ in told)
    wrong = _differences(daemon)
    with Home(len(daemon.home.directories), len(daemon.home.names)) as home, Relay(home) as relay:
        with relay.listen() as theirs:
            more = _new(home, each)
            their_stamps, their_told, _ = _saved_while_stopped(relay, more, lambda: None, theirs)
    bare = len(_told_of(more, their_stamps, their_told))
    what = f"{len(work):,} new facts while stopped"
    yield Row(
        f"{what}: told",
        f"{len(seen):,}",
        f"relay {bare:,}",
        None,
        "all",
        len(seen) == len(work),
    )
    yield Row(
        f"{what}: rescans; files whose memory.list differs from the disk",
        f"{rescans}; {wrong}",
        must="≤ 1; 0",
        holds=rescans <= 1 and not wrong,
    )
    yield Row(f"{what}: from going on to all told", f"{took_s:.2f} s")


def _saved_while_stopped(
    contestant: Contestant, work: Work, settled, listener: Listener
) -> tuple[Stamps, Told, float]:
    os.kill(contestant.pid, signal.SIGSTOP)
    try:
        stamps = save_all(contestant.home, work)
    finally:
        os.kill(contestant.pid, signal.SIGCONT)
    start = time.monotonic()
    settled()
    took_s = time.monotonic() - start
    return stamps, listener.told(QUIET_S), took_s


def _differences(daemon: Zcsyncd) -> int:
    """Count files of which the daemon's list and the disk say different things."""
    wrong = 0
    with Client(daemon.address, timeout_s=30) as client:
        for place in daemon.home.directories:
            facts = client.call("memory.list", dir=place, limit=500)["facts"]
            listed = {(fact["file"], fact["revision"]) for fact in facts}
            with os.scandir(place) as entries:
                there = {
                    (entry.name, revision(entry.stat().st_mtime_ns, entry.stat().st_size))
                    for entry in entries
                    if entry.name.endswith(".md") and entry.name != "MEMORY.md"
                }
            wrong += len(listed ^ there)
    return wrong


# -- a fact and its entry


def _pairs(daemon: Zcsyncd, listener: Listener, pairs: int) -> Iterator[Row]:
    places, names = (
        daemon.home.directories,
        {place: list(daemon.home.names) for place in daemon.home.directories},
    )
    work: Work = []
    for number in range(pairs):
        place, name = places[number % len(places)], f"pair-{number:04}.md"
        names[place].append(name)
        work.append((os.path.join(place, name), fact_text(name, number)))
        work.append((os.path.join(place, "MEMORY.md"), index_text(names[place])))
    save_all(daemon.home, work, PAIR_EVERY_S, group=2)
    daemon.flush()
    told = {(path, content) for path, content, _ in listener.told(QUIET_S)}
    seen = [(path, _hash(text)) in told for path, text in work]
    both = sum(fact and entry for fact, entry in zip(seen[::2], seen[1::2], strict=True))
    shown = f"{both:,} (facts {sum(seen[::2]):,}, indexes {sum(seen[1::2]):,})"
    yield Row(
        f"a fact and its entry saved together, {pairs:,} times: both told",
        shown,
        must="all",
        holds=both == pairs,
    )
