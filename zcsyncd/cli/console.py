"""Where the command writes: stdout with its width, its colour and its form. Door: sys."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from zcsyncd.cli.calling import as_called
from zcsyncd.cli.render import Paint, harmless, wants_colour
from zcsyncd.cli.terminal import terminal_cells, write


@dataclass(frozen=True, slots=True)
class Console:
    """One run's surroundings and its stdout."""

    env: Mapping[str, str]
    as_json: bool
    paint: Paint
    cells: int | None
    """Width of the terminal; None when stdout is none, and nothing is to be broken or cut."""

    def say(self, lines: Iterable[str]) -> None:
        """Write lines and send them off."""
        write("".join(f"{line}\n" for line in lines))

    def say_json(self, answer: object) -> None:
        """Write an answer as JSON: ASCII, so that whatever a file holds arrives escaped and whole."""
        self.say([json.dumps(answer, indent=2)])

    def say_json_line(self, answer: object) -> None:
        """Write one JSON object on one line."""
        self.say([json.dumps(answer, separators=(",", ":"))])

    def show(self, answer: object, page: Callable[[], list[str]], note: str = "") -> None:
        """Show an answer in the form that was asked for; a note goes to stderr, before it."""
        if note:
            self.remark(note)
        if self.as_json:
            self.say_json(answer)
        else:
            self.say(page())

    def remark(self, line: str) -> None:
        """Tell a person something beside the answer, on stderr; a program that reads stderr is not bothered."""
        if sys.stderr.isatty():
            print(f"zcsyncd: {harmless(as_called(line))}", file=sys.stderr, flush=True)


def agreed(question: str) -> bool:
    """Ask a person at the terminal, who has to type yes.

    Raises:
        UsageError: stdin is no terminal, so that there is nobody to ask.
    """
    from zcsyncd.errors import UsageError

    if not at_terminal():
        raise UsageError(f"{harmless(question)} Nobody can be asked here", hint="--yes says so")
    print(f"{harmless(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def at_terminal() -> bool:
    """Tell whether a person can type at stdin."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def console(env: Mapping[str, str], *, as_json: bool) -> Console:
    """Look at what stdout is."""
    is_terminal = sys.stdout.isatty()
    colour = wants_colour(is_terminal=is_terminal, no_colour=env.get("NO_COLOR"), term=env.get("TERM"))
    return Console(env, as_json, Paint(on=colour), terminal_cells(env))


def here() -> str:
    """Give the working directory.

    Raises:
        NotFound: it was removed under us.
    """
    from zcsyncd.errors import NotFound

    try:
        return os.getcwd()
    except OSError as error:
        raise NotFound("the working directory no longer exists", hint="go to one that does") from error


def clock(time_text: str) -> str:
    """Give a time of the wire as a person reads it: local, with the date unless it is today's."""
    try:
        moment = datetime.fromisoformat(time_text)
    except ValueError:
        return harmless(time_text)
    local = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone()
    day = "" if local.date() == datetime.now(tz=UTC).astimezone().date() else f"{local:%Y-%m-%d} "
    return f"{day}{local:%H:%M:%S}.{local.microsecond // 1000:03d}"
