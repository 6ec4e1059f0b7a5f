"""What stdout is: a terminal and its width, and how something is written there. Door: sys.

Rule 1: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

import os
import sys

from zcsyncd.errors import ZcsyncdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class NotWritten(ZcsyncdError):
    """Stdout takes no more: a full disk, a terminal that is gone."""

    exit_code = 7


def terminal_cells(env: Mapping[str, str]) -> int | None:
    """Give the width of the terminal; None when stdout is none, and nothing is to be broken or cut.

    `COLUMNS` goes before what the terminal says, as in other programs.
    """
    if not sys.stdout.isatty():
        return None
    named = env.get("COLUMNS", "")
    if named.isascii() and named.isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def tilde(env: Mapping[str, str]) -> str:
    """Give what a shell makes of `~`; empty when it makes nothing of it."""
    return env.get("USERPROFILE" if sys.platform == "win32" else "HOME", "")


def write(text: str) -> None:
    """Write a text to stdout and send it off.

    Raises:
        NotWritten: it could not be written.
        BrokenPipeError: its reader went away.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotWritten(f"the answer could not be written to stdout: {error.strerror}") from error
