"""The service as units of systemd: the template's lines, and our values quoted into them. Pure.

Rule 1: a value arrives at the daemon as it is, whatever signs it holds. systemd splits at blanks, takes quotes and
backslashes off, expands `%` everywhere and `$` in commands (docs/service.md, "Quoting").
Rule 2: the service's unit does not name the socket's: it is whole by itself.
"""

from __future__ import annotations

import re

from zcsyncd.errors import ConfigError
from zcsyncd.install.wanted import Wanted, checked

SERVICE = "zcsyncd.service"
SOCKET = "zcsyncd.socket"
HEAD = (
    "# Written by `zcsyncd service install`, which writes it anew.",
    f"# Changes of yours belong into a drop-in: systemctl --user edit {SERVICE}",
)

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_MOST_SOCKET_BYTES = 107
_BY_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')
_REFUSED_IN_A_PROGRAM = frozenset("\"'\\")
"""systemd takes these in a command's arguments, not in the path of its program."""


def service_unit(template: str, wanted: Wanted) -> str:
    """Fill in the service's unit.

    Raises: ConfigError, for a value that no unit can hold.
    """
    command = _command(wanted.words)
    variables = [f"Environment={_environment(name, value)}" for name, value in wanted.environment]
    return _filled(template, {"exec": [f"ExecStart={command}"], "environment": variables})


def socket_unit(template: str, wanted: Wanted) -> str:
    """Fill in the socket's unit.

    Raises: ConfigError, for an address that systemd cannot listen at.
    """
    if wanted.socket is None:
        return _filled(template, {"listen": None})
    path = checked("the socket's path", wanted.socket)
    if not path.startswith("/") or path != path.strip() or len(path.encode()) > _MOST_SOCKET_BYTES:
        raise ConfigError(
            f"systemd cannot listen at {path!r}",
            hint=f"it takes an absolute path of at most {_MOST_SOCKET_BYTES} bytes; or leave --socket out",
        )
    return _filled(template, {"listen": [f"ListenStream={path.replace('%', '%%')}"]})


def _filled(template: str, values: dict[str, list[str] | None]) -> str:
    """Replace each marked line (`# @name: …`, and the example behind it) by ours; None keeps the example."""
    lines = list(HEAD)
    example: str | None = None
    for line in _without_head(template.splitlines()):
        mark = re.match(r"# @(\w+):", line)
        if mark is not None:
            own = values[mark[1]]
            if own:
                lines += own
                example = own[0].partition("=")[0] + "="
        elif example is not None and line.startswith(example):
            continue
        else:
            example = None
            lines.append(line)
    return "\n".join(lines) + "\n"


def _without_head(lines: list[str]) -> list[str]:
    """Leave out the template's own words about itself; the blank line behind them stays."""
    return lines[next(at for at, line in enumerate(lines) if not line.startswith("#")) :]


def _command(words: tuple[str, ...]) -> str:
    for word in words:
        checked("the command", word)
    if _REFUSED_IN_A_PROGRAM & set(words[0]):
        words = (*_BY_SHELL, *words)  # the shell gives its place, and its process number, to the program
    # In the path of the program `$` is never expanded, in its arguments it is: so expansion is switched off.
    plain = ":" if any("$" in word for word in words) else ""
    return plain + " ".join(quoted(word) for word in words)


def _environment(name: str, value: str) -> str:
    return quoted(f"{name}={checked(f'the variable {name}', value)}")


def quoted(word: str) -> str:
    """Quote one word for a unit, where systemd splits words and expands `%`."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def unquoted(text: str) -> list[str]:
    """Give the words that `quoted` made a line of; what it cannot have made is taken as it stands."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text)
    return [
        re.sub(r"\\(.)", r"\1", inner).replace("%%", "%") if not bare else bare.replace("%%", "%")
        for inner, bare in words
    ]


def command_of(unit: str) -> list[str]:
    """Give the words of a unit's command, as `service_unit` writes them; empty when it has none."""
    found = re.search(r"^ExecStart=:?(.+)$", unit, re.MULTILINE)
    words = unquoted(found[1]) if found else []
    return words[len(_BY_SHELL) :] if tuple(words[: len(_BY_SHELL)]) == _BY_SHELL else words


# --- what systemctl tells ----------------------------------------------------------------------------------------


def properties(text: str) -> dict[str, str]:
    """Read what `systemctl show` prints: `Name=value` lines."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def failure_of(shown: dict[str, str]) -> str | None:
    """Tell in words why the service failed; None when it did not."""
    result = shown.get("Result", "")
    if shown.get("ActiveState") not in {"failed", "activating"} or result in {"", "success"}:
        return None
    status = shown.get("ExecMainStatus", "")
    words = {
        "exit-code": f"the daemon ended with exit code {status}",
        "signal": f"the daemon was ended by signal {status}",
        "core-dump": f"the daemon was ended by signal {status}",
        "watchdog": "the daemon was silent for too long and was ended",
        "timeout": "the daemon was not ready, or not gone, in time",
        "start-limit-hit": "it was started too often within a minute; `zcsyncd service logs` tells why",
        "protocol": "the daemon ended before it was ready",
        "resources": "the service manager is short of something, or cannot read the unit",
    }
    return words.get(result, result)
