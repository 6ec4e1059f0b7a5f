"""The service as a task that starts at log-in. Door: schtasks, files.

Rule 1: the Task Scheduler can start and kill. It cannot ask a program to leave, so a stop goes through the bus first
(zcsyncd.cli.service), and what it tells of a task is in the system's language, so only exit codes are read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence

from zcsyncd.errors import NoDaemon, Refused
from zcsyncd.install import task
from zcsyncd.install.calls import Done, call, has
from zcsyncd.install.task import NAME
from zcsyncd.install.texts import template
from zcsyncd.install.wanted import State, Wanted


class ByTasks:
    """The Task Scheduler."""

    name = "Task Scheduler"
    can_ask = False
    waits = False

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env

    def check(self) -> None:
        """Make sure that its program is there. Raises: Refused."""
        if not has("schtasks", self.env):
            raise Refused(
                "schtasks is not there, so no service can be installed",
                hint="`zcsyncd run` runs the daemon in the foreground",
            )

    def place(self) -> str:
        r"""Give the task's name: `\zcsyncd`."""
        return "\\" + NAME

    def text(self, wanted: Wanted) -> str:
        """Give the task's XML as it would be handed over."""
        return task.task(template("windows", "zcsyncd.xml"), wanted)

    def _installed_text(self) -> str | None:
        done = call(["schtasks", "/Query", "/TN", NAME, "/XML"], self.env)
        # It says UTF-16 of itself, whatever it comes as through a pipe.
        return done.out.replace("\0", "").partition("?>")[2].strip() if done.code == 0 else None

    def present(self) -> list[str] | None:
        """Give the command of the task that is installed; None when none is."""
        text = self._installed_text()
        return None if text is None else task.command_of(text)

    def is_current(self, wanted: Wanted) -> bool:
        """Tell whether the command is the one that would be; the scheduler writes the rest anew in its own order."""
        return self.present() == task.command_of(self.text(wanted))

    def write(self, wanted: Wanted, *, socket: bool | None) -> list[str]:
        """Hand the task over."""
        if socket:
            raise Refused("the Task Scheduler does not hold a socket", hint="leave --socket out")
        before = self.present()
        text = self.text(wanted)
        if before == task.command_of(text):
            return [f"unchanged: {self.place()}"]
        descriptor, path = tempfile.mkstemp(suffix=".xml", prefix="zcsyncd-")
        try:
            with open(descriptor, "wb") as file:
                file.write(task.encoded(text))
            self._must("/Create", "/TN", NAME, "/XML", path, "/F")
        finally:
            os.unlink(path)
        return [f"{'written' if before is None else 'updated'}: {self.place()}"]

    def remove(self) -> list[str]:
        """Take the task away; the daemon was asked to leave before."""
        if self._installed_text() is None:
            return []
        self._call("/End", "/TN", NAME)  # it may have ended already
        self._must("/Delete", "/TN", NAME, "/F")
        return [f"removed: {self.place()}"]

    def start(self) -> list[str]:
        """Start it; whether it came up is asked over the bus. Raises: NoDaemon."""
        done = self._call("/Run", "/TN", NAME)
        if done.code != 0:
            raise NoDaemon(f"the service did not start: {done.said}")
        return ["started"]

    def stop(self) -> list[str]:
        """Kill what did not leave by itself."""
        self._call("/End", "/TN", NAME)
        return ["stopped"]

    def restart(self) -> list[str]:
        """Kill it, if need be, and start it."""
        self.stop()
        self.start()
        return ["restarted"]

    def state(self) -> State:
        """Tell whether it is installed; whether it runs is asked over the bus."""
        return State(installed=self._installed_text() is not None)

    def remarks(self) -> list[str]:
        """Tell that it runs while the person is logged in."""
        return ["it runs while you are logged in"]

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str] | None:  # noqa: ARG002 - others have one
        """Give None: the log file is all."""
        return None

    def _call(self, *words: str) -> Done:
        return call(["schtasks", *words], self.env)

    def _must(self, *words: str) -> None:
        done = self._call(*words)
        if done.code != 0:
            raise Refused(f"`schtasks {' '.join(words)}` failed: {done.said}")
