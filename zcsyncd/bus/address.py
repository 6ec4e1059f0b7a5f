"""What an address may look like, and where the socket lies when its path is too long for one: the same answer in
daemon and client. Pure.

Source: sun_path of struct sockaddr_un (unix(7), 108 bytes with the final NUL; 104 on macOS).
"""

from __future__ import annotations

import sys

SUN_PATH_BYTES = 103 if sys.platform == "darwin" else 107
"""Longest path of a Unix socket, in bytes."""

SHARED = "/tmp"  # noqa: S108 - the directory made there is 0700 and checked by whoever makes or uses it
"""Not $TMPDIR: a daemon that the system starts and a client in a terminal may see different ones."""

PIPE_PREFIX = "\\\\.\\pipe\\"
"""How the pipes of this machine are named; what follows may hold no further backslash (CreateNamedPipeW)."""
PIPE_CHARACTERS = 256
"""Longest name of a pipe, all in all."""


def is_pipe_name(address: str) -> bool:
    r"""Tell whether an address names a pipe of this machine, as `\\.\pipe\zcsyncd` does; case does not matter."""
    name = address[len(PIPE_PREFIX) :]
    return (
        address[: len(PIPE_PREFIX)].lower() == PIPE_PREFIX
        and 0 < len(name) <= PIPE_CHARACTERS - len(PIPE_PREFIX)
        and not any(sign in name for sign in "\\/\0")
    )


def fit_address(path: str, uid: int, limit: int = SUN_PATH_BYTES) -> str:
    """Give `path` itself if a Unix socket can have it, else a short one that stands for it.

    The short one is `/tmp/zcsyncd-<uid>-<first 12 hex digits of the SHA-256 of the path's bytes>/bus.sock`. Its
    directory must be private: made 0700 and owned by the user, refused otherwise (the caller's business).
    `limit` is in bytes.
    """
    raw = path.encode("utf-8", "surrogateescape")
    if len(raw) <= limit:
        return path
    import hashlib  # costs the control client some milliseconds, so only when it is needed

    return f"{SHARED}/zcsyncd-{uid}-{hashlib.sha256(raw).hexdigest()[:12]}/bus.sock"
