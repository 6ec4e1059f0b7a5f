"""A throw-away home: memory directories as ZCode makes them, and an environment in which nothing of the user's is seen."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from typing import Self

OLD_S = 2.5
"""Younger files may be hashed again: what is measured begins when all are older."""

_QUIET = "/var/tmp"
"""Parents are watched too: in a busy /tmp the daemon would wake for what others do there."""

_BODY = (
    "The build of this project needs the generated tables before anything else compiles; the generator runs in a\n"
    "second and its output is not committed. Whoever adds a column changes the template, not the output.\n\n"
)


class Home:
    """A home with `directories` memory directories of `facts` facts each, and an index that names them all."""

    def __init__(self, directories: int, facts: int, disk: str | None = None) -> None:
        """Lay it out; `disk`: a directory to make it in, None for a quiet one on the disk of /var/tmp."""
        self.base = tempfile.mkdtemp(prefix="zcb-", dir=disk or (_QUIET if os.path.isdir(_QUIET) else None))
        self.path = os.path.join(self.base, "home")
        self.projects = os.path.join(self.path, ".zcode", "cli", "memories", "projects")
        self.state = os.path.join(self.base, "state")
        self.run = os.path.join(self.base, "run")
        for place in (self.projects, self.state, self.run):
            os.makedirs(place, mode=0o700)
        os.chmod(self.path, 0o700)
        self.directories = [self._directory(number) for number in range(directories)]
        self.names = [f"fact-{number:03}.md" for number in range(facts)]
        for place in self.directories:
            self._fill(place)
        self._made_at = time.monotonic()

    def _directory(self, number: int) -> str:
        digits = hashlib.sha256(f"/home/somebody/project-{number}".encode()).hexdigest()[:16]
        place = os.path.join(self.projects, f"project-{number}-{digits}", "memory")
        os.makedirs(place)
        return place

    def _fill(self, place: str) -> None:
        for name in self.names:
            _put(os.path.join(place, name), fact_text(name, 0))
        if self.names:
            _put(os.path.join(place, "MEMORY.md"), index_text(self.names))

    @property
    def env(self) -> dict[str, str]:
        """The environment of everything that runs in this home."""
        return {
            "HOME": self.path,
            "XDG_RUNTIME_DIR": self.run,
            "XDG_CONFIG_HOME": os.path.join(self.base, "config"),
            "XDG_STATE_HOME": self.state,
            "XDG_CACHE_HOME": os.path.join(self.base, "cache"),
            "ZCSYNCD_STATE_DIR": self.state,
            "ZCSYNCD_RUNTIME_DIR": self.run,
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), "/usr/bin", "/bin"]),
            "PYTHONPATH": os.getcwd(),
            "LANG": "C.UTF-8",
        }

    def configure(self, text: str) -> None:
        """Write the daemon's configuration, before it starts."""
        place = os.path.join(self.base, "config", "zcsyncd")
        os.makedirs(place)
        _put(os.path.join(place, "config.yaml"), text)

    def facts(self) -> list[str]:
        """All facts' paths, one directory after the other in turn."""
        return [os.path.join(place, name) for name in self.names for place in self.directories]

    def grow_old(self) -> None:
        """Wait until every file is old enough for its time stamp to tell."""
        time.sleep(max(0.0, self._made_at + OLD_S - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.base, ignore_errors=True)


def fact_text(name: str, serial: int) -> str:
    """Give a fact of about 1 KiB as ZCode writes it; another `serial` is another content."""
    stem = name.removesuffix(".md")
    return (
        f"---\nname: {stem}\ndescription: What the build needs before anything compiles, as of save {serial}\n"
        f"metadata:\n  node_type: memory\n  type: project\n---\n\nSave {serial} of {stem}.\n\n{_BODY * 4}"
    )


def index_text(names: list[str]) -> str:
    """Give an index that names these facts."""
    entries = [f"- [{name.removesuffix('.md')}]({name}) — what the build needs" for name in names]
    return "# Memory\n\n" + "\n".join(entries) + "\n"


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
