"""Prints what happens to facts and indexes, over restarts of the daemon and of itself, until interrupted.

python follow.py FILE       keeps its place in FILE: what happened while it did not run comes first
"""

import sys
from pathlib import Path
from typing import TextIO

from zcsyncd.bus.client import follow


def say(line: str, where: TextIO = sys.stdout) -> None:
    """Say it at once, also into a pipe."""
    print(line, file=where, flush=True)


def main(place: Path) -> None:
    """Follow from the place that the file tells, without one from now on."""
    since = place.read_text().strip() if place.exists() else None
    with follow(
        "memory/*", since=since, on_away=lambda error: say(f"waiting: {error}", sys.stderr)
    ) as events:
        for event in events:
            if event["topic"] == "bus/gap":
                say("some events are gone: read anew what you rely on")
            for change in event["data"].get("changes", []):
                say(f"{change['kind']} {change['file']} in {event['dir']}")
            place.write_text(f"{events.cursor}\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
