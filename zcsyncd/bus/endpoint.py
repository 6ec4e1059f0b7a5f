"""`endpoint.json` in the state directory: where the daemon can be reached. Door: os.

Rule 1: only the holder of the state directory's lock writes or removes it.
Rule 2: the control client imports this module on its fast path: no dataclasses, no tempfile.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import time

from zcsyncd.errors import Refused
from zcsyncd.opening import open_to_read

# typing costs the control client some milliseconds; type checkers take this name for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

NAME = "endpoint.json"
_TEMPORARY = NAME + ".tmp"
"""One fixed name, since one process writes at a time: what a killed daemon left over is replaced, not collected."""

_PLAIN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
"""Not for children, and bytes as they are: Windows would put a carriage return before each line's end."""

_MOST_BYTES = 65_536
_TRIES = 12


class Endpoint:
    """What the file says. A plain class: dataclasses would cost the control client 10 ms."""

    __slots__ = ("address", "host", "pid", "protocol", "started_at", "version")

    def __init__(
        self, address: str, *, pid: int, host: str, started_at: str, protocol: int, version: str
    ) -> None:
        self.address = address
        self.pid = pid
        self.host = host
        """Name of the machine: a state directory may be shared over the network, a socket is not."""
        self.started_at = started_at
        """RFC 3339."""
        self.protocol = protocol
        self.version = version

    def members(self) -> dict[str, object]:
        """Give the file's members."""
        return {
            "address": self.address,
            "pid": self.pid,
            "host": self.host,
            "startedAt": self.started_at,
            "protocol": self.protocol,
            "version": self.version,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Endpoint) and self.members() == other.members()

    __hash__ = None  # type: ignore[assignment]  # equal by content, never a key

    def __repr__(self) -> str:
        return f"Endpoint({self.members()!r})"


def write_endpoint(state_dir: str, endpoint: Endpoint) -> None:
    """Write the file, 0600, replacing whatever is there in one step.

    Raises: Refused.
    """
    path, temporary = os.path.join(state_dir, NAME), os.path.join(state_dir, _TEMPORARY)
    text = json.dumps(endpoint.members()) + "\n"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN_FLAGS, 0o600)
            with open(descriptor, "wb") as file:
                file.write(text.encode("ascii"))
            _patiently(lambda: os.replace(temporary, path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Refused(
            f"cannot write {path}: {error.strerror or error}", hint="make the state directory writable"
        ) from error


def _patiently(call: Callable[[], T]) -> T:
    """Call; on Windows again, for 0.7 s at most, where somebody has the file open or is just replacing it."""
    for left in reversed(range(_TRIES)):
        try:
            return call()
        except PermissionError:
            if sys.platform != "win32" or left == 0:
                raise
            time.sleep(0.01 * (_TRIES - left))
    raise AssertionError("the last try returns or raises")


def read_endpoint(state_dir: str) -> Endpoint | None:
    """Read the file; None when there is none, or nothing that makes sense."""
    path = os.path.join(state_dir, NAME)
    try:
        value: object = json.loads(_patiently(lambda: _read(path)))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    address, pid = value.get("address"), value.get("pid")
    if not isinstance(address, str) or not address or "\0" in address:
        return None
    protocol = value.get("protocol")
    return Endpoint(
        address=address,
        pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else 0,
        host=str(value.get("host", "")),
        started_at=str(value.get("startedAt", "")),
        protocol=protocol if isinstance(protocol, int) and not isinstance(protocol, bool) else 0,
        version=str(value.get("version", "")),
    )


def _read(path: str) -> str:
    descriptor = open_to_read(path, follow=False)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            raise ValueError(path)
        return os.read(descriptor, _MOST_BYTES).decode("utf-8")
    finally:
        os.close(descriptor)


def remove_endpoint(state_dir: str, endpoint: Endpoint) -> bool:
    """Remove the file if it still says what we wrote; tell whether it did."""
    if read_endpoint(state_dir) != endpoint:
        return False
    try:
        os.unlink(os.path.join(state_dir, NAME))
    except OSError:
        return False
    return True
