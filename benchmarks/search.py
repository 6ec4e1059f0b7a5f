"""`memory.search` over many facts, the socket included, beside the bare FTS5 query on the same database, in turns."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.home import Home
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median, ms, percentile
from benchmarks.texts import made_up_fact
from zcsyncd.bus.client import Client
from zcsyncd.memory.terms import WEIGHTS, match

DIRECTORIES, FACTS = 50, 10_000
LIMIT = 20
QUERIES = {
    "a word of most facts": "build",
    "a common word": "database",
    "a seldom word": "certificate",
    "a rare word": "idempotent sextant",
    "two words": "stale ledger",
    "three words": "nightly backup failed",
    "a number": "OPS-405",
    "a common Chinese word": "数据库",
    "a rare Chinese word": "潮汐",
    "two Chinese words": "证书 备份",
    "both": "harbour 港口",
    "a word that nobody wrote": "quetzalcoatl",
}
_BARE = "select rowid, rank from search where search match ? and rank match ? order by rank limit ?"
_RANK = f"bm25({', '.join(map(str, WEIGHTS))})"


def measure(*, quick: bool) -> Iterator[Row]:
    facts, rounds = (500, 5) if quick else (FACTS, 40)
    with Home(DIRECTORIES, 0) as home:
        _fill(home, facts)
        with Zcsyncd(home) as daemon, Client(daemon.address, timeout_s=30) as client:
            daemon.wait_until_saved()
            yield from _rows(facts, *_turns(home, client, rounds), judged=not quick)


def _fill(home: Home, facts: int) -> None:
    for number in range(facts):
        file, text = made_up_fact(number)
        with open(os.path.join(home.directories[number % DIRECTORIES], file), "w", encoding="utf-8") as page:
            page.write(text)


_Times = dict[str, list[float]]


def _turns(home: Home, client: Client, rounds: int) -> tuple[_Times, _Times, dict[str, int]]:
    """Give the milliseconds of each query, ours and the bare one's, and how many facts it finds."""
    ours: _Times = {what: [] for what in QUERIES}
    bare: _Times = {what: [] for what in QUERIES}
    hits: dict[str, int] = {}
    path = os.path.join(home.state, "state.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        for number in range(-1, rounds):  # the first round warms both up
            for what, query in QUERIES.items():
                start = time.perf_counter()
                # With a time of its own: without one the client asks a ping along with it.
                found = client.call("memory.search", {"query": query, "limit": LIMIT}, timeout_s=30)["hits"]
                between = time.perf_counter()
                rows = _bare(connection, query)
                end = time.perf_counter()
                if len(rows) != len(found):
                    raise RuntimeError(f"{query}: {len(found)} hits, and {len(rows)} by the bare query")
                hits[what] = len(rows)
                if number >= 0:
                    ours[what].append((between - start) * 1000)
                    bare[what].append((end - between) * 1000)
    return ours, bare, hits


def _bare(connection: sqlite3.Connection, query: str) -> list[tuple[int, float]]:
    """Ask as the daemon does: for all words, and if no fact has them all, for any."""
    rows: list[tuple[int, float]] = []
    for any_word in (False, True):
        rows = connection.execute(_BARE, (match(query, any_word=any_word), _RANK, LIMIT)).fetchall()
        if rows:
            break
    return rows


def _rows(facts: int, ours: _Times, bare: _Times, hits: dict[str, int], *, judged: bool) -> Iterator[Row]:
    """`judged`: there are as many facts as the promise is about."""
    ratios = {what: median(ours[what]) / median(bare[what]) for what in QUERIES}
    what = f"`memory.search` over {facts:,} facts in {DIRECTORIES} directories"
    all_ours, all_bare = (sum(median(times) for times in side.values()) for side in (ours, bare))
    middle = median(list(ratios.values()))
    yield Row(
        f"{what}: {len(QUERIES)} queries, one after the other",
        ms(all_ours),
        f"bare FTS5 queries: {ms(all_bare)}",
        all_ours / all_bare,
        "≤ 2×" if judged else "–",
        all_ours <= 2 * all_bare if judged else None,
    )
    yield Row(
        f"{what}: the median of their ratios",
        "below",
        "below",
        middle,
        "≤ 2×" if judged else "–",
        middle <= 2 if judged else None,
    )
    for name, query in QUERIES.items():
        yield Row(
            f"… {name}, `{query}`: {hits[name]} hits",
            f"{ms(median(ours[name]))}, p99 {ms(percentile(ours[name], 0.99))}",
            f"bare: {ms(median(bare[name]))}",
            ratios[name],
        )
