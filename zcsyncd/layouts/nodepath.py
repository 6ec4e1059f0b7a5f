"""How JavaScript spells paths: what the agents' own programs compute, computed here. Pure.

Rule 1: lexical only. No `~`, no symlink, no disk.
Rule 2: the system is an argument, so both systems' rules are tested on either.
The yardstick is tests/vectors/paths.json.
"""

from __future__ import annotations

import sys
from typing import Literal

from zcsyncd.errors import InvalidParams

Platform = Literal["posix", "win32"]

HERE: Platform = "win32" if sys.platform == "win32" else "posix"
"""The rules of the system that this runs on."""

# What String.prototype.trim takes off. Python's strip() takes U+001C-001F and U+0085 too, and leaves U+FEFF.
_JS_BLANKS = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def js_trim(text: str) -> str:
    """Take off at both ends what JavaScript's `trim` takes off."""
    return text.strip(_JS_BLANKS)


def separator(platform: Platform) -> str:
    """Give the separator that resolved paths are written with."""
    return "\\" if platform == "win32" else "/"


def is_absolute(path: str, platform: Platform = HERE) -> bool:
    r"""Tell whether `path` names one place whatever the process's own directory is.

    On Windows that needs a drive and a root, or a share: `\orders` and `C:orders` are not enough.
    """
    if platform == "posix":
        return path.startswith("/")
    device, _, rooted = _split_windows(path)
    return rooted and device != ""


def join(platform: Platform, first: str, *parts: str) -> str:
    """Put names below a resolved path."""
    sign = separator(platform)
    return sign.join((first.rstrip(sign) if parts else first, *parts))


def resolve(path: str, platform: Platform = HERE, process_cwd: str | None = None) -> str:
    """Make `path` absolute and normal as Node's `path.resolve` does.

    `process_cwd` is the absolute directory that a relative path counts from.

    Raises: InvalidParams, when `path` is not absolute and there is no `process_cwd`.
    """
    if not is_absolute(path, platform) and process_cwd is None:
        raise InvalidParams(f"a directory must be an absolute path, not {path!r}")
    if platform == "posix":
        full = path if path.startswith("/") else f"{process_cwd}/{path}"
        return "/" + "/".join(_without_dots(full.split("/")))
    return _resolve_windows(path, process_cwd or "")


def basename(resolved: str, platform: Platform = HERE) -> str:
    r"""Give the last name of a resolved path; empty for a root without a name.

    The name of a share's root is the share: Node sees `\\host\share\` so, Python's ntpath does not.
    """
    sign = separator(platform)
    if platform == "win32" and _has_drive(resolved):
        resolved = resolved[2:]
    return resolved.rstrip(sign).rpartition(sign)[2]


def _without_dots(parts: list[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            # Above the root there is only the root.
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return kept


def _has_drive(path: str) -> bool:
    return len(path) > 1 and path[1] == ":" and path[0].isascii() and path[0].isalpha()


def _skip(path: str, start: int, *, separators: bool) -> int:
    """Find the first position from `start` on that is (not) a separator."""
    while start < len(path) and (path[start] in "/\\") is separators:
        start += 1
    return start


def _split_windows(path: str) -> tuple[str, str, bool]:
    r"""Split into device (`C:`, `\\host\share`, `\\?`, or nothing), the rest, and whether it starts at a root."""
    if not path or path[0] not in "/\\":
        if not _has_drive(path):
            return "", path, False
        rooted = len(path) > 2 and path[2] in "/\\"
        return path[:2], path[2:], rooted
    if len(path) == 1 or path[1] not in "/\\":
        return "", path, True
    host_end = _skip(path, 2, separators=False)
    share = _skip(path, host_end, separators=True)
    share_end = _skip(path, share, separators=False)
    has_both = 2 < host_end < share < share_end
    if not has_both:
        # Two separators without host and share behind them are just a root.
        return "", path, True
    if path[2:host_end] in (".", "?"):
        # A device prefix is a root by itself; what follows it is a name like any other.
        return f"\\\\{path[2]}", path[3:], True
    return f"\\\\{path[2:host_end]}\\{path[share:share_end]}", path[share_end:], True


def _resolve_windows(path: str, process_cwd: str) -> str:
    device, rest, rooted = _split_windows(path)
    if not rooted or not device:
        own_device, own_rest, _ = _split_windows(process_cwd)
        if not device or device.lower() == own_device.lower():
            rest = rest if rooted else f"{own_rest}\\{rest}"
            device = device or own_device
        # Another drive's own directory is known to its shell only: count from that drive's root.
    tail = "\\".join(_without_dots(rest.replace("/", "\\").split("\\")))
    return f"{device}\\{tail}"
