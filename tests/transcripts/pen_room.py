"""A memory directory of a script: what lies there, read without the daemon's own code, and what its pens know."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.transcripts.machine import Project

INDEX = "MEMORY.md"
NAMES = [f"{letter}{number}" for letter in "nzp" for number in range(7)]
"""Facts that all pens write to: so few that six that go are always a fifth."""
BELOW = ["below/q0", "below/q1"]
"""Facts in a folder, which our pen finds and never makes anew by name."""
UNKNOWN: Any = object()

_ENTRY = re.compile(r"^[-*] \[(?P<title>[^]]*)\]\((?P<target>[^)]*)\)(?: — (?P<hook>.*))?$")

Disk = dict[str, bytes]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def targets(index: bytes | None) -> list[str]:
    """Name the targets of an index's entries, in order, as plain text tells them."""
    found = map(_ENTRY.match, (index or b"").decode(errors="replace").splitlines())
    return [match["target"] for match in found if match]


@functools.cache
def front(content: bytes) -> dict[str, Any]:
    """Read a fact's front matter, which in these scripts is always well-formed."""
    return yaml.safe_load(content.decode().split("---\n", 2)[1])


def read_disk(directory: Path) -> Disk:
    """Read all Markdown that lies in a directory and below, by name with `/`; nothing when it is not there."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*.md")
        if path.is_file()
    }


def is_whole(content: bytes) -> bool:
    """Tell whether a fact was not saved in the midst of being written, and says what it is about."""
    with contextlib.suppress(IndexError, UnicodeDecodeError, yaml.YAMLError):
        said = front(content)
        return content.count(b"---\n") >= 2 and bool(said["description"] and said["metadata"]["type"])
    return False


def revision_of(path: Path) -> str:
    """Give a file's revision; its time as Node sums it up, in a double."""
    status = os.stat(path)
    return f"mtime:{ms(status.st_mtime_ns)}:size:{status.st_size}"


def ms(time_ns: int) -> int:
    """Give a time in milliseconds, as Node sums it up and cuts it."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return int(seconds * 1000 + rest / 1e6)


def says(content: bytes, body: str) -> bool:
    """Tell whether a fact's text is this, byte for byte, below its front matter."""
    return content.split(b"---\n", 2)[2] in (b"\n" + body.encode(), body.encode())


@dataclass
class Room:
    """One project's memory directory, what its pens know, and what the model knows of it."""

    project: Project
    told: dict[str, str] = field(default_factory=dict)
    """What a subscriber knows: content hashes by file."""
    had: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Contents that must be had, by file and hash: acknowledged, replaced by our pen, or there at a flush."""
    entered: set[str] = field(default_factory=set)
    """Facts that our pen acknowledged, with their entries, and did not forget since."""
    copies: list[bytes] = field(default_factory=list)
    """The index as sessions of ZCode hold it."""
    halves: list[tuple[Any, bytes]] = field(default_factory=list)
    """Files that somebody has open, and what is still to be written."""
    last: Any = None
    """Our last act, by file: bytes before and after. None: there was none; UNKNOWN: nobody knows."""
    owed: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Findings that must be open until the disk mends them, with what tells that."""
    since: list[str] = field(default_factory=list)
    """Pens that acted since the last flush: `ours`, or what another one did."""
    before: Disk = field(default_factory=dict)
    """The disk at the last flush."""
    losses: set[str] = field(default_factory=set)
    """Keys of the history's findings at the last flush."""
    moved: set[str] = field(default_factory=set)
    """Names of facts that somebody gave other file names: two facts may bear one of them."""

    @property
    def memory(self) -> Path:
        return self.project.memory

    @property
    def dir(self) -> str:
        return self.project.dir

    def disk(self) -> Disk:
        return read_disk(self.memory)

    def facts(self) -> list[str]:
        return sorted(self.disk().keys() - {INDEX})

    def index(self) -> bytes | None:
        return self.disk().get(INDEX)

    def must_have(self, file: str, content: bytes | None) -> None:
        if content is not None:
            self.had.setdefault(file, {})[digest(content)] = content

    def finish_halves(self) -> None:
        """Have everybody write to the end what they began."""
        while self.halves:
            file, rest = self.halves.pop(0)
            with file:
                file.write(rest)

    def hold(self) -> None:
        """Have a session of ZCode begin, which holds the index as it is now."""
        self.finish_halves()  # what it would read of a half-written index would be no defect of ours to follow
        self.copies = [*self.copies, self.index() or b""][-3:]

    def mend(self) -> None:
        """Strike what the disk shows to be mended, or that nobody can tell any more."""
        disk = self.disk()
        if not self.memory.is_dir():
            self.owed.clear()
        entered = targets(disk.get(INDEX))
        for (code, what), damaged in list(self.owed.items()):
            if code == "entry-lost":
                over = what in entered or what not in disk
            elif code == "mass-delete":
                over = sum(file not in disk for file in damaged) < 5
            else:
                over = disk.get(what) != damaged
            if over:
                del self.owed[code, what]
