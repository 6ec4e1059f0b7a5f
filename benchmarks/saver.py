"""The agent's side: saves files the way ZCode does and stamps each save. A process of its own.

Run as `python -m benchmarks.saver`: one JSON job on stdin, one JSON list of `[before_ns, after_ns]` on stdout, by
CLOCK_MONOTONIC, which all processes of one machine share.

Job: `{"saves": [[path, text], …], "interval_s": seconds between groups (0: as fast as the disk takes them),
"group": saves per group}`.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time


def save(path: str, content: bytes, temporary: str) -> tuple[int, int]:
    """Write a temporary file and move it into place; give the times right before and right after the move."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, content)
    os.close(descriptor)
    before = time.monotonic_ns()
    os.rename(temporary, path)
    return before, time.monotonic_ns()


def main() -> None:
    job = json.load(sys.stdin)
    interval_s, group = job["interval_s"], job.get("group", 1)
    work = [
        (path, text.encode(), f"{path}.tmp.{os.getpid()}.{secrets.token_hex(6)}")
        for path, text in job["saves"]
    ]
    stamps = []
    start = time.monotonic()
    for number, (path, content, temporary) in enumerate(work):
        if interval_s and number % group == 0:
            time.sleep(max(0.0, start + number // group * interval_s - time.monotonic()))
        stamps.append(save(path, content, temporary))
    json.dump(stamps, sys.stdout)


if __name__ == "__main__":
    main()
