"""What a host is to call: the command line of a hook, of the MCP server. Pure.

Rule 1: absolute paths: a host that was started from a desktop has another PATH than a shell.
Rule 2: behind a shell that ends with 0 when the program is gone: a host complains at every call of a hook that fails.
Rule 3: `-IS`, and our script by its path: half the time of a plain start (docs/hosts/zcode.md).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcsyncd.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Program:
    """This installation, as a host has to call it."""

    python: str
    """The interpreter."""
    script: str
    """`run_hook.py`."""
    version: str
    env: tuple[tuple[str, str], ...] = ()
    """Variables that move our places, sorted by name: a host may be started without them."""
    platform: str = "linux"


def hook(program: Program, host: str) -> dict[str, object]:
    """Give the hook's entry. It ends with the version, by which a newer package knows an older entry."""
    if host == "zcode":
        if program.platform == "win32":  # quotes within a quoted command do not survive there
            return {
                "type": "command",
                "command": program.python,
                "args": ["-IS", program.script, host, program.version],
            }
        return {"type": "command", "command": "/bin/sh", "args": ["-c", hook_line(program, host)]}
    return {"type": "command", "command": hook_line(program, host), "timeout": 5}


def hook_line(program: Program, host: str) -> str:
    """Give the hook's command as a line for a shell; on Windows hosts bring one along.

    Raises: ConfigError, for a path that no shell takes.
    """
    python, script = (_slashes(path, program.platform) for path in (program.python, program.script))
    words = _quoted([python, "-IS", script, host, program.version])
    exports = "".join(f"export {name}={_quoted([value])}; " for name, value in program.env)
    there = f"[ -x {_quoted([python])} ] && [ -f {_quoted([script])} ]"
    return f"if {there}; then {exports}exec {words}; fi"


def server(program: Program, client: str, *, news: bool, write: bool) -> dict[str, object]:
    """Give the MCP server's entry. `news`: no hook or plugin of ours tells the news in that host."""
    args = ["-P", "-m", "zcsyncd", "mcp"]
    args += [] if news else ["--no-news"]
    args += ["--write"] if write else []
    entry: dict[str, object] = {"command": program.python, "args": args}
    if program.env:
        entry["env"] = dict(program.env)
    if client == "pi":
        entry["exposure"] = "direct"
    return entry


def filled(value: object, texts: Mapping[str, object]) -> object:
    """Give a template's value with each text of the table replaced by what it stands for."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, list):
        return [filled(one, texts) for one in value]
    if isinstance(value, dict):
        return {name: filled(one, texts) for name, one in value.items()}
    return value


def _quoted(words: Sequence[str]) -> str:
    for word in words:
        if any(ord(one) < 32 for one in word):
            raise ConfigError(
                f"a host cannot call what has a line break or control character in its path: {word!r}"
            )
    return shlex.join(words)


def _slashes(path: str, platform: str) -> str:
    return path.replace("\\", "/") if platform == "win32" else path
