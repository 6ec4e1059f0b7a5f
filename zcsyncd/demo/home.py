"""A home that is thrown away: a made-up project with its memory, and the real daemon on it. Door: os, subprocess.

Rule 1: nothing of the user's is touched. Every place that the daemon and its clients take from the environment is
inside a new temporary directory, and every variable that could lead out of it is left behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Self

import zcsyncd
from zcsyncd.errors import NoDaemon, NotReady, ZcsyncdError
from zcsyncd.layouts.zcode import ZCODE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

PROJECT = "tidepool"
START_S = 20.0
"""How long the daemon may take until it is ready, also on a slow machine."""
STOP_S = 5.0
CONFIG = """\
# A short grace, so that what takes two writes is told within the demo.
audit:
  grace_s: 2
"""

_LEAVES = ("ZC", "XDG_", "PI_", "OMP_", "CLAUDE_", "DSH_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
"""Variables with these beginnings lead out of the demo's home."""


class DemoHome:
    """A temporary home with a project's memory and a running daemon; both are gone when the `with` is left."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="zcsyncd-demo-"))
        self.home = os.path.join(self.place, "home")
        self.cwd = os.path.join(self.home, "code", PROJECT)
        self.memory = ZCODE.directory(os.path.join(self.home, ".zcode", "cli"), self.cwd)
        self.env = self._env(env)
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Lay out the files and start the daemon.

        Raises:
            NoDaemon: it did not come up; the message holds the end of what it said.
        """
        try:
            self._lay_out()
            self._start()
            self._wait()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the daemon and remove everything."""
        self._clean_up()

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in env.items() if not name.upper().startswith(_LEAVES)}
        above = os.path.dirname(os.path.dirname(os.path.abspath(zcsyncd.__file__)))
        return {
            **kept,
            "HOME": self.home,
            "USERPROFILE": self.home,
            "APPDATA": os.path.join(self.home, "AppData", "Roaming"),
            "LOCALAPPDATA": os.path.join(self.home, "AppData", "Local"),
            "ZCSYNCD_STATE_DIR": os.path.join(self.place, "state"),
            "ZCSYNCD_RUNTIME_DIR": os.path.join(self.place, "run"),
            "ZCSYNCD_CONFIG": os.path.join(self.place, "config.yaml"),
            # The daemon is the one that runs this demo, installed or not.
            "PYTHONPATH": os.pathsep.join(part for part in (above, env.get("PYTHONPATH", "")) if part),
        }

    def _lay_out(self) -> None:
        os.makedirs(self.cwd)
        os.makedirs(self.memory)
        with open(self.env["ZCSYNCD_CONFIG"], "w", encoding="utf-8") as file:
            file.write(CONFIG)
        for sample in files("zcsyncd.demo").joinpath("memory").iterdir():
            with open(os.path.join(self.memory, sample.name), "wb") as file:
                file.write(sample.read_bytes())

    def _start(self) -> None:
        with open(self._log, "wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "zcsyncd", "run"],
                cwd=self.home,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # An interrupt at the terminal is ours to handle: we stop the daemon in order then.
                start_new_session=True,
            )

    @property
    def _log(self) -> str:
        return os.path.join(self.place, "daemon.log")

    def _wait(self) -> None:
        """Wait until the daemon has had its first look at everything."""
        from zcsyncd.cli.asking import Daemon

        assert self._daemon is not None
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._daemon.poll() is not None:
                raise NoDaemon(f"the demo's daemon ended at once: {self._said()}")
            with suppress(NoDaemon, NotReady):
                status = Daemon(self.env).ask("status")
                daemon = status.get("daemon")
                if isinstance(daemon, dict) and daemon.get("ready") is True:
                    return
            time.sleep(0.05)
        raise NoDaemon(f"the demo's daemon was not ready within {START_S:g} s: {self._said()}")

    def _said(self) -> str:
        try:
            with open(self._log, "rb") as file:
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return "nothing"
        return next((line for line in reversed(lines) if line.strip()), "nothing")

    def _clean_up(self) -> None:
        try:
            if self._daemon is not None:
                self._stop(self._daemon)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    def _stop(self, daemon: subprocess.Popen[bytes]) -> None:
        from zcsyncd.cli.asking import Daemon

        try:
            if daemon.poll() is None:
                with suppress(ZcsyncdError):
                    Daemon(self.env).stop(wait_for_exit=False)
            daemon.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
