"""The service as an agent of launchd. Door: launchctl, files.

Rule 1: `bootstrap` and `bootout` in the person's own domain: that of the desktop, or without one that of the user.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from zcsyncd.errors import NoDaemon, Refused
from zcsyncd.install import launchd
from zcsyncd.install.calls import call, has, must, own_uid
from zcsyncd.install.files import put, read, take
from zcsyncd.install.launchd import FILE, LABEL
from zcsyncd.install.texts import template
from zcsyncd.install.wanted import State, Wanted
from zcsyncd.places import home, private_directory

GONE_S = 10.0
"""How long `bootout` may take until the agent is really gone; a `bootstrap` before that fails."""


class ByLaunchd:
    """launchd, in the person's own domain."""

    name = "launchd"
    can_ask = True
    waits = False

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self._home = home(env)
        self._domain: str | None = None

    def check(self) -> None:
        """Make sure that launchctl is there and knows a domain of this person. Raises: Refused."""
        instead = "`zcsyncd run` runs the daemon in the foreground"
        if not has("launchctl", self.env):
            raise Refused("launchctl is not there, so no service can be installed", hint=instead)
        if call(["launchctl", "print", self._own_domain()], self.env).code != 0:
            raise Refused("launchd has no domain for this user", hint=f"log in at the machine; or {instead}")

    def _own_domain(self) -> str:
        if self._domain is None:
            uid = own_uid()
            desktop = f"gui/{uid}"
            has_desktop = call(["launchctl", "print", desktop], self.env).code == 0
            self._domain = desktop if has_desktop else f"user/{uid}"
        return self._domain

    def _target(self) -> str:
        return f"{self._own_domain()}/{LABEL}"

    def place(self) -> str:
        """Give where the property list lies, or would lie."""
        return os.path.join(self._home, "Library", "LaunchAgents", FILE)

    def text(self, wanted: Wanted) -> str:
        """Give the property list as it would be written."""
        return launchd.agent(template("launchd", FILE), wanted).decode()

    def present(self) -> list[str] | None:
        """Give the command of what is installed; None when nothing is."""
        content = read(self.place())
        return None if content is None else launchd.command_of(content)

    def is_current(self, wanted: Wanted) -> bool:
        """Tell whether what is installed is what would be."""
        return read(self.place()) == self.text(wanted).encode()

    def write(self, wanted: Wanted, *, socket: bool | None) -> list[str]:
        """Write the property list; launchd reads it at log-in and at a start."""
        if socket:
            raise Refused("launchd does not hold a socket for the daemon", hint="leave --socket out")
        if wanted.error_log is not None:
            private_directory(os.path.dirname(wanted.error_log))
        act = put(self.place(), self.text(wanted).encode(), 0o644)
        said = [f"{act}: {self.place()}"]
        must(["launchctl", "enable", self._target()], self.env)
        if act != "unchanged" and self._is_loaded():
            self._boot_out()
            said += self.start()
        return said

    def remove(self) -> list[str]:
        """End the agent and take the property list away."""
        said = []
        if has("launchctl", self.env) and self._is_loaded():
            self._boot_out()
            said.append("stopped")
        if take(self.place()):
            said.append(f"removed: {self.place()}")
        return said

    def start(self) -> list[str]:
        """Start it: make launchd read it, which starts it, or kick what it has read. Raises: NoDaemon."""
        if not self._is_loaded():
            done = call(["launchctl", "bootstrap", self._own_domain(), self.place()], self.env)
        elif self.state().running:
            return []
        else:
            done = call(["launchctl", "kickstart", self._target()], self.env)
        if done.code != 0:
            raise NoDaemon(
                f"the service did not come up: {done.said}", hint="`zcsyncd service logs` shows what it said"
            )
        return ["started"]

    def stop(self) -> list[str]:
        """End it; launchd lets a daemon that left in order rest."""
        if not self.state().running:
            return []
        must(["launchctl", "kill", "SIGTERM", self._target()], self.env)
        return ["stopped"]

    def restart(self) -> list[str]:
        """End it and start it."""
        if not self._is_loaded():
            return self.start()
        must(["launchctl", "kickstart", "-k", self._target()], self.env)
        return ["restarted"]

    def state(self) -> State:
        """Tell how it is."""
        installed = os.path.lexists(self.place())
        done = call(["launchctl", "print", self._target()], self.env)
        if done.code != 0:
            return State(installed=installed, running=False, state="not loaded" if installed else "")
        shown = launchd.printed(done.out)
        pid, status = shown.get("pid", ""), shown.get("last exit code", "")
        running = pid.isdecimal()
        failed = not running and status.partition(":")[0].isdecimal() and status.partition(":")[0] != "0"
        return State(
            installed=installed,
            enabled=True,
            running=running,
            state=shown.get("state", ""),
            pid=int(pid) if running else None,
            failure=f"the daemon ended with exit code {status}" if failed else None,
        )

    def remarks(self) -> list[str]:
        """Tell that it runs while the person is logged in."""
        return ["it runs while you are logged in"]

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str] | None:  # noqa: ARG002 - others have one
        """Give None: the log file is all."""
        return None

    def _is_loaded(self) -> bool:
        return call(["launchctl", "print", self._target()], self.env).code == 0

    def _boot_out(self) -> None:
        call(["launchctl", "bootout", self._target()], self.env)  # it may say that it is still about it
        until = time.monotonic() + GONE_S
        while self._is_loaded():
            if time.monotonic() > until:
                raise Refused(f"launchd does not let go of {LABEL}", hint="log out and in, then try again")
            time.sleep(0.05)
