"""Nothing happens: what the daemon holds and burns meanwhile, beside watchman on the same tree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.home import Home
from benchmarks.processes import Watchman, Zcsyncd
from benchmarks.result import Row

DIRECTORIES, FACTS = 200, 10
CALM_S = 4.0  # after this nothing is young any more


def measure(*, quick: bool) -> Iterator[Row]:
    watched_s = 5 if quick else 20
    with ExitStack() as stack:
        home = stack.enter_context(Home(DIRECTORIES, FACTS))
        home.grow_old()
        both = [stack.enter_context(Zcsyncd(home))]
        listening = [stack.enter_context(both[0].listen())]
        if Watchman.there():
            both.append(stack.enter_context(Watchman(home)))
            listening.append(stack.enter_context(both[1].listen()))
        time.sleep(CALM_S)
        before = [one.fine_cpu_s() for one in both]
        time.sleep(watched_s)
        shares = [(one.fine_cpu_s() - was) / watched_s * 100 for one, was in zip(both, before, strict=True)]
        sizes = [one.rss_mib() for one in both]
    yield _row("memory (RSS)", sizes, "{:.1f} MiB", 45)
    yield _row(f"CPU over {watched_s} s", shares, "{:.3f} %", 0.1)


def _row(what: str, values: list[float], form: str, bound: float) -> Row:
    ours, *others = values
    shown = f"watchman: {form.format(others[0])}" if others else "watchman is not installed"
    ratio = ours / others[0] if others and others[0] else None
    must = f"< {form.format(bound)}"
    return Row(
        f"idle on {DIRECTORIES} directories of {FACTS} facts: {what}",
        form.format(ours),
        shown,
        ratio,
        must,
        ours < bound,
    )
