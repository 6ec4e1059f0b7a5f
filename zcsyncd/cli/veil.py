"""Paths as they may be shown to strangers: the home as `~`, what a variable moved by its name, no person's names. Pure.

Rule 1: a part of a path is shown only when it is one that every installation has (`_ORDINARY`); whatever a person may
have named is `…`.
Rule 2: with `--paths` everything is shown, the home still as `~`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_ORDINARY = frozenset(
    (
        ".cache",
        ".config",
        ".local",
        ".pi",
        ".pipx",
        ".zcode",
        "AppData",
        "Application Support",
        "Caches",
        "LaunchAgents",
        "LaunchDaemons",
        "Library",
        "Local",
        "LocalLow",
        "Logs",
        "Programs",
        "Python",
        "Roaming",
        "Scripts",
        "Users",
        "Volumes",
        "agent",
        "bin",
        "bus.sock",
        "canary",
        "cli",
        "com",
        "config.yaml",
        "daemon.lock",
        "dev",
        "dist-packages",
        "endpoint.json",
        "etc",
        "folders",
        "home",
        "lib",
        "lib64",
        "local",
        "log",
        "logs",
        "mem",
        "memories",
        "opt",
        "pipx",
        "private",
        "projects",
        "root",
        "run",
        "share",
        "shm",
        "site-packages",
        "srv",
        "state",
        "state.db",
        "state.db-shm",
        "state.db-wal",
        "systemd",
        "tmp",
        "tools",
        "user",
        "usr",
        "uv",
        "var",
        "venvs",
        "zcsyncd",
        "zcsyncd.log",
        "zcsyncd.service",
        "zcsyncd.socket",
    )
)
_FITS = re.compile(
    r"[0-9]+|[A-Za-z]:|zcsyncd[-.][0-9a-f]+(\.sock)?|runtime-[0-9]+|python3?(\.[0-9]+)?(\.exe)?|"
)
_SIGNS = re.compile(r"[/\\]")
HIDDEN = "…"


@dataclass(frozen=True, slots=True)
class Veil:
    """What is shown of a path."""

    home: str
    """What `~` stands for; empty for nothing."""
    shown: bool
    """Show paths whole."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Variables that name places, with their values."""

    def place(self, path: str) -> str:
        """Give a path as it may be shown."""
        if self.shown:
            return self._below(path, self.home, "~") or path
        for name, value in sorted(self.moved.items(), key=lambda one: (-len(one[1]), one[0])):
            found = self._below(path, value, f"${name}")
            if found is not None:
                return found
        return self._below(path, self.home, "~") or _veiled(path)

    def _below(self, path: str, base: str, stands_for: str) -> str | None:
        base = base.rstrip("/\\")
        if not base or path[: len(base)] != base:
            return None
        rest = path[len(base) :]
        if rest and rest[0] not in "/\\":
            return None
        return stands_for + (rest if self.shown else _veiled(rest))

    def text(self, text: str, *paths: str) -> str:
        """Give a text of ours in which these paths, which it repeats, are as they may be shown."""
        for path in sorted({*paths} - {""}, key=len, reverse=True):
            text = text.replace(path, self.place(path))
        return text

    def said(self, text: str | None) -> str | None:
        """Give what another program or a file said, which is nobody's business unless paths are shown."""
        return text if self.shown else None


def _veiled(path: str) -> str:
    shown: list[str] = []
    sign = "\\" if "\\" in path and "/" not in path else "/"
    for part in _SIGNS.split(path):
        fits = part in _ORDINARY or _FITS.fullmatch(part) is not None
        if fits or shown[-1:] != [HIDDEN]:
            shown.append(part if fits else HIDDEN)
    return sign.join(shown)
