"""`python -m benchmarks [NAME …] [--quick] [--profile]`: run, and print one Markdown table."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

from benchmarks.result import Row, table

NAMES = (
    "latency",
    "burst",
    "audit_cost",
    "idle",
    "startup",
    "hook",
    "kills",
    "commit",
    "write",
    "search",
    "history",
    "sessions",
)


def machine() -> str:
    """Say where and with what this run took place."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    watchman = "none"
    if shutil.which("watchman"):
        watchman = subprocess.run(
            ["watchman", "--version"], capture_output=True, text=True, check=False
        ).stdout.strip()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{dt.date.today()}, {model}, {os.cpu_count()} CPUs, load {load}; {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, watchman {watchman}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="zcsyncd beside other tools, in one run"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)} (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="small counts: does it run at all?")
    parser.add_argument(
        "--profile", action="store_true", help="profile the daemon during steady saves instead"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    if sys.platform != "linux":
        parser.error("the benchmarks read /proc and use inotify: they run on Linux")
    if options.profile:
        from benchmarks.profiling import profile

        print(profile(quick=options.quick))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that whatever was started is ended too
    print(machine(), flush=True)
    rows: list[Row] = []
    for name in options.names or NAMES:
        start = time.monotonic()
        rows += importlib.import_module(f"benchmarks.{name}").measure(quick=options.quick)
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"\n{table(rows)}")
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
