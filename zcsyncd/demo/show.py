"""The demo's script: scenes that write as agents write, and what the daemon tells and mends of it. Door: stdout.

Rule 1: what is shown is real: the daemon is the one that `zcsyncd run` starts, the events come over its socket, and
a command is this program, started anew, that writes to the same terminal.
Rule 2: a scene waits for its events, never for a time; a pause is only there for the reader's eyes.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zcsyncd.cli.answer import Answer, object_of, rows_of
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.calling import as_called, called
from zcsyncd.cli.console import clock
from zcsyncd.cli.render import bar, fitted
from zcsyncd.cli.telling import event_lines
from zcsyncd.demo.home import PROJECT, DemoHome
from zcsyncd.demo.saving import save_as_pi, save_as_zcode, text_of
from zcsyncd.errors import NoDaemon, NotReady

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zcsyncd.cli.console import Console

PACE_VARIABLE = "ZCSYNCD_DEMO_PACE"
"""How long pauses last, as a factor: 1 by default, 0 for none."""
WAIT_S = 10.0
"""How long an event may take before the demo says that it is missing."""
CELLS = 78
"""Width of a caption."""
MARGIN = "   "
"""What events and remarks stand behind."""
MISSING = 1
"""Exit code: an event that was to come did not come."""

BERTHS = """\
---
name: berth-numbers
description: Berth 0 is never shown
metadata:
  node_type: memory
  type: project
---

Berths are numbered from the sea inward. Berth 0 belongs to the pilot boat: it is in the database and must never be
on a page.
"""
UNITS = """\
---
name: units
description: Heights are metres, never feet
metadata:
  node_type: memory
  type: feedback
---

Heights are metres above chart datum, one decimal. Feet were on the page once, and a yacht touched ground.
"""
OFFICE = """\
---
name: harbour-office
description: Who answers when tides are late
metadata:
  node_type: memory
  type: reference
---

The duty officer answers until 22:00, after that the lock keeper. Both want the file's date first.
"""
BERTHS_ENTRY = "- [Berth numbers](project_berth_numbers.md) — Berth 0 is the pilot's"
UNITS_ENTRY = "- [Units](feedback_units.md) — Heights are metres, never feet"
OFFICE_ENTRY = "- [Harbour office](reference_harbour_office.md) — Who answers when tides are late"
LOST = ("project_berth_numbers.md", "feedback_units.md")
"""The facts whose entries the third scene loses."""


def run_demo(console: Console) -> int:
    """Run the demo; give 0 when every event came that was to come, else 1."""
    with _orderly_end():
        console.say(_caption("A throw-away home: your own files are not touched", console))
        with DemoHome(console.env) as home:
            return _Show(console, home).run()


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Have every polite way to end the demo, a terminal that is closed too, be an interrupt: the home is removed.

    A terminal that is closed may say so twice: from the first word on, none disturbs the removal.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32":
        numbers.append(signal.SIGHUP)

    def interrupt(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    # What is ignored already (nohup) stays so.
    before = {number: now for number in numbers if (now := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _caption(text: str, console: Console) -> list[str]:
    return ["", console.paint(bar(text, CELLS), "bold")]


@dataclass(slots=True)
class _Show:
    """One showing: the scenes, and the events that have arrived so far."""

    console: Console
    home: DemoHome
    arrived: queue.SimpleQueue[Answer | None] = field(default_factory=queue.SimpleQueue)
    missing: list[str] = field(default_factory=list)
    trouble: str = ""
    """Why the listener could not listen."""
    stale: str = ""
    """The index as it was at the beginning: what a session that read it then still holds."""
    whole: str = ""
    """The index before lines were lost."""

    def run(self) -> int:
        self.stale = text_of(self._index)
        self._say(
            f"{PROJECT}, a made-up project, with seven facts and their index in",
            f"  {self.home.memory}",
            "The daemon runs, and a subscriber listens at its socket. Events are shown as they arrive.",
        )
        listener = threading.Thread(target=self._listen, args=(subscribed := threading.Event(),), daemon=True)
        listener.start()
        if not subscribed.wait(2 * WAIT_S):
            raise NoDaemon(f"the demo's daemon took no subscription: {self.trouble}")
        self._pause(2)
        for scene in (
            self._zcode_saves,
            self._pi_saves,
            self._a_stale_session_overwrites,
            self._a_repair_is_shown,
            self._it_is_applied,
        ):
            scene()
        return self._end()

    # -- scenes

    def _zcode_saves(self) -> None:
        self._caption("1. ZCode saves a fact: a temporary file, renamed into place")
        save_as_zcode(self._path("project_berth_numbers.md"), BERTHS)
        self._await("the new fact", _changed("added", "project_berth_numbers.md"))
        self._pause(1)
        self._say("   and its line in the index, the same way")
        save_as_zcode(self._index, self._with(BERTHS_ENTRY))
        self._await("the new entry", _entries("added", "project_berth_numbers.md"))
        self._pause(1.5)

    def _pi_saves(self) -> None:
        self._caption("2. pi saves: the file is truncated and written in place")
        save_as_pi(self._path("feedback_units.md"), UNITS)
        self._await("the new fact", _changed("added", "feedback_units.md"))
        save_as_pi(self._index, self._with(UNITS_ENTRY))
        self._await("the new entry", _entries("added", "feedback_units.md"))
        self._pause(1.5)

    def _a_stale_session_overwrites(self) -> None:
        self._caption("3. A session with an old index adds its line and writes all of it back")
        save_as_zcode(self._path("reference_harbour_office.md"), OFFICE)
        self._await("the third fact", _changed("added", "reference_harbour_office.md"))
        self.whole = text_of(self._index)
        begun = time.monotonic()
        save_as_zcode(self._index, f"{self.stale}{OFFICE_ENTRY}\n")
        if self._await("the alarm", _findings("appeared", "entry-lost", *LOST)):
            self._say(
                f"   two lines are lost: the alarm came {time.monotonic() - begun:.2f} s after the write"
            )
        self._pause(3)

    def _a_repair_is_shown(self) -> None:
        self._caption("4. What would mend it")
        self._command("repair")
        self._pause(4)

    def _it_is_applied(self) -> None:
        self._caption("5. It is mended")
        self._command("repair", "--apply")
        self._await("the alarm's end", _findings("cleared", "entry-lost", *LOST))
        now = text_of(self._index)
        without = now.replace(f"{OFFICE_ENTRY}\n", "")
        if OFFICE_ENTRY in now and without == self.whole:
            self._say("   byte for byte what it was, and the line that came since is still there")
        else:
            self.missing.append("the index as it was, with the line that came since")
        self._pause(1)

    def _end(self) -> int:
        self._caption("That is all" if not self.missing else "Something is missing")
        if self.missing:
            self._say(*(f"did not arrive within {WAIT_S:g} s: {what}" for what in self.missing))
            return MISSING
        self._say("Now for your own memory: `zcsyncd run`, and `zcsyncd events` in another terminal.")
        return 0

    # -- how

    @property
    def _index(self) -> str:
        return self._path("MEMORY.md")

    def _path(self, file: str) -> str:
        return os.path.join(self.home.memory, file)

    def _with(self, entry: str) -> str:
        return f"{text_of(self._index)}{entry}\n"

    def _listen(self, subscribed: threading.Event) -> None:
        """Put every event into the queue; None when there are no more."""
        until = time.monotonic() + WAIT_S
        asked = {"topics": ["memory/*", "bus/*"]}
        while not subscribed.is_set():
            try:
                for event in Daemon(self.home.env).follow(asked, begun=lambda _cursor: subscribed.set()):
                    self.arrived.put(event)
            except (NoDaemon, NotReady) as error:
                # On a machine with much else to do a first question may take longer than two seconds.
                self.trouble = error.message
                if time.monotonic() > until:
                    break
        self.arrived.put(None)

    def _command(self, *words: str) -> None:
        """Run one of our own commands as a person does in the project; what it writes goes where ours goes."""
        self.console.say([self.console.paint(f"$ {' '.join((called(), *words))}", "bold")])
        # The new process is told how this one was called, so that its hints can be typed.
        begin = "import sys; from zcsyncd.__main__ import main; del sys.argv[0]; sys.exit(main())"
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, and words of ours
                [sys.executable, "-c", begin, sys.argv[0] if sys.argv else "", *words],
                cwd=self.home.cwd,
                env=self.home.env,
                stdin=subprocess.DEVNULL,
                timeout=2 * WAIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.missing.append(f"the end of `zcsyncd {' '.join(words)}`")
            return
        if done.returncode:
            self.missing.append(f"what `zcsyncd {' '.join(words)}` does (it ended with {done.returncode})")

    def _await(self, what: str, fits: Callable[[Answer], bool]) -> bool:
        """Show events as they arrive until one fits; note it as missing, and give False, when none does in time."""
        until = time.monotonic() + WAIT_S
        while (left := until - time.monotonic()) > 0:
            event = self._next(left)
            if event is None:
                break
            if fits(event):
                return True
        self.missing.append(what)
        return False

    def _pause(self, seconds: float) -> None:
        """Leave time to read; what arrives meanwhile is shown."""
        until = time.monotonic() + seconds * _pace(self.console.env)
        while (left := until - time.monotonic()) > 0:
            if self._next(left) is None:
                return

    def _next(self, timeout_s: float) -> Answer | None:
        """Show the next event and give it; None when none came, or none will come any more."""
        try:
            event = self.arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if event is None:
            self.arrived.put(None)
            return None
        lines = event_lines(
            event,
            label="",
            clock=clock(str(event.get("time"))),
            cells=None if self.console.cells is None else self.console.cells - len(MARGIN),
            paint=self.console.paint,
        )
        self.console.say(MARGIN + line for line in lines)
        return event

    def _caption(self, text: str) -> None:
        self.console.say(_caption(text, self.console))
        self._pause(1)

    def _say(self, *lines: str) -> None:
        self.console.say(fitted(map(as_called, lines), self.console.cells, hang=0))


def _pace(env: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(env.get(PACE_VARIABLE, "1")))
    except ValueError:
        return 1.0


def _changed(kind: str, file: str) -> Callable[[Answer], bool]:
    def fits(event: Answer) -> bool:
        changes = rows_of(object_of(event, "data"), "changes")
        return any(change.get("kind") == kind and change.get("file") == file for change in changes)

    return fits


def _entries(member: str, *targets: str) -> Callable[[Answer], bool]:
    def fits(event: Answer) -> bool:
        entries = rows_of(object_of(event, "data"), member)
        return event.get("topic") == "memory/index" and {*targets} <= {
            entry.get("target") for entry in entries
        }

    return fits


def _findings(member: str, code: str, *targets: str) -> Callable[[Answer], bool]:
    """Fit once the finding has been told of each target, in one event or in several."""
    waiting = {*targets}

    def fits(event: Answer) -> bool:
        if event.get("topic") == "memory/audit":
            told = rows_of(object_of(event, "data"), member)
            waiting.difference_update(
                str(finding.get("target")) for finding in told if finding.get("code") == code
            )
        return not waiting

    return fits
