"""The log of the service: what the journal has of it, else the log file. Door: files, the journal.

Rule 1: a log file is followed over its rotation, and a line is shown when it is whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from zcsyncd.cli.console import Console
from zcsyncd.cli.render import harmless
from zcsyncd.errors import NotFound, Refused
from zcsyncd.install.manager import manager
from zcsyncd.places import log_dir

LOOK_S = 0.1
LOG_NAME = "zcsyncd.log"
_OF_A_JOURNAL = (
    "a journal that is kept in memory only is closed to you: "
    "`sudo journalctl --user-unit=zcsyncd.service` reads it"
)


def cmd_service_logs(words: Namespace, console: Console) -> int:
    """Show the log's last lines; with `--follow` those that come, until interrupted."""
    command = _journal(words, console.env)
    if command is not None:
        lines = _printed(command, console.env)
    else:
        lines = file_lines(os.path.join(log_dir(console.env), LOG_NAME), words.lines, follow=words.follow)
    if console.as_json and not words.follow:
        console.say_json({"lines": list(lines)})
        return 0
    for line in lines:
        if console.as_json:
            console.say_json_line({"line": line})
        else:
            console.say([harmless(line)])
    return 0


def _journal(words: Namespace, env: Mapping[str, str]) -> list[str] | None:
    try:
        command = manager(env).log_command(words.lines, follow=words.follow)
    except Refused:  # a system without a service may have a log all the same
        return None
    return list(command) if command is not None else None


def _printed(command: list[str], env: Mapping[str, str]) -> Iterator[str]:
    with subprocess.Popen(  # noqa: S603 - our own words, no shell
        command, env=dict(env), stdout=subprocess.PIPE, encoding="utf-8", errors="backslashreplace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
        finally:
            process.terminate()


def file_lines(path: str, most: int, *, follow: bool) -> Iterator[str]:
    """Give a file's last lines, at most so many; then, to `follow` it, each line as it comes, without end.

    Raises: NotFound; Refused, when it cannot be read.
    """
    with _opened(path) as file:
        whole = deque(file, most)
        rest = whole.pop() if follow and whole and not whole[-1].endswith(b"\n") else b""
        yield from map(_text, whole)
        if not follow:
            return
        yield from _following(file, rest)
    while True:
        # It was rotated away: what is at its place now is new from its beginning.
        with _opened(path) as file:
            yield from _following(file, b"")


def _following(file: BinaryIO, rest: bytes) -> Iterator[str]:
    """Give the lines that come until another file lies at the place, and all lines of this one were read."""
    while True:
        was_moved = _was_moved(file)
        came = file.read()
        *lines, rest = (rest + came).split(b"\n")
        yield from map(_text, lines)
        if was_moved and not came:
            return
        if not came:
            time.sleep(LOOK_S)


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise NotFound(
            f"there is no log to read: the journal shows nothing of the service, and there is no {path}",
            hint=_OF_A_JOURNAL if sys.platform == "linux" else None,
        ) from None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", hint="make it readable for you") from error


def _was_moved(file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(os.stat(file.name), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False  # a new one comes in a moment


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace").rstrip("\r\n")
