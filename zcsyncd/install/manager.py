"""What every service manager can do for us, and which one this system has. Door: sys."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from zcsyncd.errors import Refused
from zcsyncd.install.wanted import State, Wanted


class Manager(Protocol):
    """One service manager. What changes something gives lines that tell what was done; nothing to do gives none."""

    name: str
    can_ask: bool
    """Whether it can ask a program to leave; where not, that goes through the bus first."""
    waits: bool
    """Whether a start returns only when the daemon is ready."""

    def check(self) -> None:
        """Make sure that it is there and takes services of this person.

        Raises: Refused, with what to do instead.
        """

    def place(self) -> str:
        """Give where the unit lies, or would lie."""

    def text(self, wanted: Wanted) -> str:
        """Give the unit as it would be written."""

    def present(self) -> list[str] | None:
        """Give the command of the unit that is installed; None when none is."""

    def is_current(self, wanted: Wanted) -> bool:
        """Tell whether what is installed is what would be."""

    def write(self, wanted: Wanted, *, socket: bool | None) -> list[str]:
        """Put the unit in place and make it start at log-in; `socket` None leaves the socket's unit as it is."""

    def remove(self) -> list[str]:
        """End the service and take the unit away."""

    def start(self) -> list[str]:
        """Start it; return once it is ready, where the manager can tell.

        Raises: NoDaemon, when it does not come up.
        """

    def stop(self) -> list[str]:
        """End it."""

    def restart(self) -> list[str]:
        """End it and start it."""

    def state(self) -> State:
        """Tell how it is."""

    def remarks(self) -> list[str]:
        """Tell what a person should know of the manager itself."""

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str] | None:
        """Give the program that shows the log; None where there is none, and the log file is all."""


def manager(env: Mapping[str, str], platform: str = sys.platform) -> Manager:
    """Give this system's service manager; whether it works is asked by `check`.

    Raises: Refused, for a system that none of ours fits.
    """
    if platform == "darwin":
        from zcsyncd.install.by_launchd import ByLaunchd

        return ByLaunchd(env)
    if platform == "win32":
        from zcsyncd.install.by_tasks import ByTasks

        return ByTasks(env)
    if platform == "linux":
        from zcsyncd.install.by_systemd import BySystemd

        return BySystemd(env)
    raise Refused(
        f"there is no service for {platform}", hint="`zcsyncd run` runs the daemon in the foreground"
    )
