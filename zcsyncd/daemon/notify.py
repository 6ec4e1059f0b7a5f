"""What a service manager is told, in the words of sd_notify(3). Door: socket.

Without `NOTIFY_SOCKET` (no systemd, or a person at a terminal) nothing is told. A manager that does not listen stops
nothing here: no call raises, none waits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import MutableMapping

WATCHDOG_SHARE = 3
"""A sign of life is due this many times in the time after which the manager takes us for dead."""


class Notifier:
    """Tells the manager that started this process."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Take the variables out of `environ`: no child may believe that they are meant for it."""
        address = environ.pop("NOTIFY_SOCKET", "")
        usec = environ.pop("WATCHDOG_USEC", "")
        meant_for = environ.pop("WATCHDOG_PID", "") or str(os.getpid())
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_ours = bool(self._address) and meant_for == str(os.getpid())
        self.watchdog_s = int(usec) / 1e6 if is_ours and usec.isdecimal() and int(usec) else None
        """The time after which the manager takes us for dead, in seconds; None: it does not watch over us."""
        self._status = ""

    @property
    def is_managed(self) -> bool:
        """Whether a manager wants to be told."""
        return bool(self._address)

    def ready(self) -> None:
        """Say that the start, or a reload, is over."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Say that the configuration is being read again; `ready` is to follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that we are leaving."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Give a sign of life."""
        self._send("WATCHDOG=1")

    def needs(self, seconds: float) -> None:
        """Ask for so much more time to start, from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        """Say in one line how it goes; the same again is not said."""
        line = " ".join(text.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def _send(self, text: str) -> None:
        if not self._address or sys.platform == "win32":
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode("utf-8", "replace"), self._address)
