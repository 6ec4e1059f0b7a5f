"""How a host's plugin is, and what is noted of it: that it was installed, so that its loss is seen. Door: files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import zcsyncd
from zcsyncd.errors import Refused
from zcsyncd.install.files import drop_empty, put, read, take
from zcsyncd.places import private_directory, state_dir

State = Literal[
    "current",
    "absent",
    "thrown-away",
    "incomplete",
    "older",
    "changed",
    "broken",
    "switched-off",
    "unreadable",
]
"""`thrown-away`: it was installed, and is not there any more."""

_AGAIN = "`zcsyncd plugin install {name}` writes it anew"


@dataclass(frozen=True, slots=True)
class Wish:
    """What may be chosen; None leaves it as it is."""

    ask: bool | None = None
    """Hooks: ask before an outdated index is written over."""
    write: bool | None = None
    """MCP: give the tool that writes."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a host's plugin is."""

    name: str
    state: State
    path: str
    version: str | None = None
    """Of what is installed; None where it does not tell."""
    says: tuple[str, ...] = ()
    calls: Mapping[str, str | None] = field(default_factory=dict)
    """An event → when its hook was last called, RFC 3339; None: never."""

    def to_json(self) -> dict[str, object]:
        """Give what `--json` shows."""
        return {
            "host": self.name,
            "state": self.state,
            "path": self.path,
            "version": self.version,
            "packageVersion": zcsyncd.__version__,
            "calls": dict(self.calls),
            "says": list(self.says),
        }


def _note_file(env: Mapping[str, str], name: str) -> str:
    return os.path.join(state_dir(env), "plugins", name.replace(":", "-") + ".json")


def prepare(env: Mapping[str, str]) -> None:
    """Make sure that there is a place for notes, for this user only: before anything is put into a host.

    Raises: Refused.
    """
    private_directory(os.path.join(state_dir(env), "plugins"))


def note(env: Mapping[str, str], name: str, path: str) -> None:
    """Note that something was put into a host, and which version."""
    file = _note_file(env, name)
    put(file, (json.dumps({"version": zcsyncd.__version__, "path": path}) + "\n").encode(), 0o600)


def noted(env: Mapping[str, str], name: str) -> str | None:
    """Give the version that was put into a host; None when nothing was."""
    try:
        value = json.loads(read(_note_file(env, name)) or b"null")
    except (ValueError, Refused):
        return None
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, str) else None


def forget(env: Mapping[str, str], name: str) -> None:
    """Note that it was taken out."""
    file = _note_file(env, name)
    if take(file):
        drop_empty(os.path.dirname(file))


def absent(
    env: Mapping[str, str], name: str, path: str, calls: Mapping[str, str | None] | None = None
) -> Report:
    """Report that nothing is there: never was, or was thrown away."""
    version = noted(env, name)
    if version is None:
        return Report(name, "absent", path, calls=calls or {})
    said = f"it was installed and is not there any more: the host has thrown it away; {again(name)}"
    return Report(name, "thrown-away", path, version, (said,), calls or {})


def older(name: str, path: str, version: str | None, calls: Mapping[str, str | None] | None = None) -> Report:
    """Report that another version of the package put it in."""
    said = f"it is of version {version or 'unknown'}, the package of {zcsyncd.__version__}; {again(name)}"
    return Report(name, "older", path, version, (said,), calls or {})


def again(name: str) -> str:
    """Say what writes it anew."""
    return _AGAIN.format(name=name)
