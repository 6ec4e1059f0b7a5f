"""What an audit costs at the very least: read, hash and parse every file, keep nothing. A process of its own.

Run as `python -m benchmarks.plain_reader ROOT`; prints JSON: files, CPU seconds of the loop, CPU seconds of the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time

import yaml


def front_matter(text: str) -> str:
    """Give what stands between the first two fences."""
    if not text.startswith("---\n"):
        return ""
    return text[4 : text.index("\n---\n", 3) + 1]


def main() -> None:
    start = time.process_time()
    files = 0
    for place, _, names in os.walk(sys.argv[1]):
        for name in names:
            if not name.endswith(".md"):
                continue
            with open(os.path.join(place, name), "rb") as file:
                content = file.read()
            hashlib.sha256(content).hexdigest()
            yaml.load(front_matter(content.decode()), Loader=yaml.CSafeLoader)
            files += 1
    loop_s = time.process_time() - start
    json.dump({"files": files, "loop_s": loop_s, "process_s": time.process_time()}, sys.stdout)


if __name__ == "__main__":
    main()
