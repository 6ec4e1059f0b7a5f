"""A hook as a host calls it, by the command line that is installed, beside the same interpreter doing nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.home import Home
from benchmarks.processes import Zcsyncd
from benchmarks.result import Row, median, ms, percentile
from zcsyncd.install.hosts_command import hook_line
from zcsyncd.install.hosts_places import this_program

TURNS = 2.0
OUTSIDE = 1.3


def measure(*, quick: bool) -> Iterator[Row]:
    rounds = 15 if quick else 120
    with Home(20, 10) as home, Zcsyncd(home):
        cwd, memory = home.path, home.directories[0]
        env = {name: value for name, value in home.env.items() if name != "PYTHONPATH"}
        line = ["/bin/sh", "-c", hook_line(this_program({"HOME": home.path}), "zcode")]
        bare = [sys.executable, "-c", "pass"]
        events = {
            "SessionStart": ({"source": "startup"}, TURNS),
            "UserPromptSubmit, no news": ({"prompt": "?"}, TURNS),
            "PostToolUse of a memory file": (
                {"tool_name": "Read", "tool_input": {"file_path": os.path.join(memory, home.names[0])}},
                TURNS,
            ),
            "PostToolUse outside memory": (
                {"tool_name": "Read", "tool_input": {"file_path": os.path.join(cwd, "README.md")}},
                OUTSIDE,
            ),
            "Stop": ({}, TURNS),
        }
        took: dict[str, list[float]] = {name: [] for name in events}
        theirs: list[float] = []
        for _ in range(rounds):
            theirs.append(_run(bare, env, b""))
            for name, (more, _) in events.items():
                said = {
                    "hook_event_name": name.split(maxsplit=1)[0].strip(","),
                    "session_id": "b-1",
                    "cwd": cwd,
                }
                took[name].append(_run(line, env, json.dumps({**said, **more}).encode() + b"\n"))
        other = median(theirs)
        for name, (_, most) in events.items():
            ours = median(took[name])
            yield Row(
                f"hook: {name}",
                f"{ms(ours)}, p99 {ms(percentile(took[name], 0.99))}",
                f"`python -c pass`: {ms(other)}",
                ours / other,
                f"≤ {most:g}×",
                ours <= most * other,
            )


def _run(argv: Sequence[str], env: dict[str, str], said: bytes) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=env, input=said, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000
