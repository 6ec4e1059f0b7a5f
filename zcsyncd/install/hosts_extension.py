"""The extension of pi and omp: one file in the directory from which they load extensions. Door: files.

Rule 1: a file is ours by its first line, which tells its version; any other one is refused, and stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from zcsyncd.errors import Refused
from zcsyncd.install.files import drop_empty, put, read, take
from zcsyncd.install.hosts_files import BACKUP
from zcsyncd.install.hosts_places import agent_directory, package_folder, wanted_there
from zcsyncd.install.hosts_reports import Report, Wish, absent, again, forget, note, older, prepare

_HEADER = re.compile(rb"// zcsyncd-plugin (\S+)")


class FilePlugin:
    """One file in the directory from which pi and omp load extensions."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name = name
        self._env = env
        self._base = agent_directory(name, env)
        self.target = os.path.join(self._base, "extensions", "zcsyncd.js")
        self.source = os.path.join(package_folder("pi"), "zcsyncd.js")

    def install(self, _wish: Wish) -> list[str]:
        """Copy it."""
        wanted_there(self.name, self._base)
        prepare(self._env)
        content = self._content()
        before = read(self.target)
        if before is not None and not _HEADER.match(before):
            raise Refused(
                f"{self.target} is not ours: its first line does not say `// zcsyncd-plugin`",
                hint="move it away, then try again",
            )
        if before is not None and before != content and _version(before) == _version(content):
            put(self.target + BACKUP, before)  # somebody has changed it
        if os.path.islink(self.target) and before == content:
            return []
        done = put(self.target, content)
        note(self._env, self.name, self.target)
        return [] if done == "unchanged" else [f"{done}: {self.target}"]

    def remove(self) -> list[str]:
        """Remove it, if it is ours."""
        before = read(self.target)
        forget(self._env, self.name)
        if before is None or not _HEADER.match(before):
            return []
        take(self.target)
        drop_empty(os.path.dirname(self.target))
        return [f"removed: {self.target}"]

    def report(self) -> Report:
        """Compare it with the package's."""
        try:
            before = read(self.target)
        except Refused as error:
            return Report(self.name, "unreadable", self.target, says=(error.message,))
        if before is None:
            return absent(self._env, self.name, self.target)
        version = _version(before)
        if version is None:
            return Report(self.name, "changed", self.target, says=(f"{self.target} is not ours",))
        content = self._content()
        if before == content:
            return Report(self.name, "current", self.target, version)
        if version != _version(content):
            return older(self.name, self.target, version)
        return Report(
            self.name, "changed", self.target, version, (f"it was changed by hand; {again(self.name)}",)
        )

    def path(self, _wish: Wish) -> str:
        """Give the package's own file: `pi -e FILE` tries it."""
        self._content()
        return self.source

    def _content(self) -> bytes:
        content = read(self.source)
        if content is None:
            raise Refused(f"this installation has no {self.source}", hint="install zcsyncd again, whole")
        return content


def _version(content: bytes) -> str | None:
    found = _HEADER.match(content)
    return found[1].decode("ascii", "replace") if found else None
