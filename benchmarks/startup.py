"""`zcsyncd status` as a person types it, the daemon running, beside the same interpreter doing nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.home import Home
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median, ms, percentile


def measure(*, quick: bool) -> Iterator[Row]:
    rounds = 10 if quick else 60
    script = os.path.join(os.path.dirname(sys.executable), "zcsyncd")
    if not os.path.exists(script):
        yield Row("`zcsyncd status`", f"{script} is not installed", must="≤ 3×")
        return
    with Home(20, 10) as home, Zcsyncd(home):
        env = {name: value for name, value in home.env.items() if name != "PYTHONPATH"}
        ours, bare = [], []
        for _ in range(rounds):
            bare.append(_run([sys.executable, "-c", "pass"], env))
            ours.append(_run([script, "status"], env))
    mine, theirs = median(ours), median(bare)
    shown = f"{ms(mine)}, p99 {ms(percentile(ours, 0.99))}"
    yield Row(
        "`zcsyncd status`",
        shown,
        f"`python -c pass`: {ms(theirs)}",
        mine / theirs,
        "≤ 3×",
        mine <= 3 * theirs,
    )


def _run(argv: Sequence[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000
