"""How the command ends: whatever happened becomes an exit code and at most two lines on stderr. Door: sys.

Rule 1: a failure is one line that says what happened, and where there is a hint, what to do. A traceback comes only
with `--debug`.
Rule 2: an interrupt and a reader that went away (`| head`) are no failures: they end in silence.
Rule 3: commands in a message or a hint are shown as they can be typed here (zcsyncd.cli.calling).
Rule 4: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from zcsyncd.cli.calling import as_called
from zcsyncd.cli.render import harmless
from zcsyncd.cli.terminal import NotWritten, write
from zcsyncd.errors import ZcsyncdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

INTERRUPTED = 130
"""What a shell shows for a command that ended by SIGINT."""
PIPE_CLOSED = 141
"""What a shell shows for a command that ended by SIGPIPE."""
A_BUG = 70


def ended(act: Callable[[], int], *, debug: bool = False) -> int:
    """Do something and give the exit code, having said on stderr what went wrong."""
    try:
        code = act()
        write("")  # what argparse has written, too
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_CLOSED
    except ZcsyncdError as error:
        if isinstance(error, NotWritten):
            _forget_stdout()
        if debug:
            _show_traceback()
        for line in complaint(as_called(error.message), as_called(error.hint or "")):
            _say(line)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the edge of the program: a bug gets one line, too
        if debug:
            _show_traceback()
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _say(f"zcsyncd: this is a bug: {harmless(what)}")
        if not debug:
            _say("  --debug shows the traceback; please report it")
        return A_BUG
    return code


def complaint(message: str, hint: str) -> list[str]:
    """Give the lines that tell a person of a failure.

    A message of several lines (the mistakes of a configuration) stays so; each line is made harmless.
    """
    first, *more = message.split("\n")
    lines = [f"zcsyncd: {harmless(first)}", *(f"  {harmless(line)}" for line in more)]
    return [*lines, f"  {harmless(hint)}"] if hint else lines


def _say(line: str) -> None:
    with suppress(OSError):  # nobody may be left to tell
        print(line, file=sys.stderr, flush=True)


def _show_traceback() -> None:
    import traceback

    with suppress(OSError):
        traceback.print_exc()


def _forget_stdout() -> None:
    """Point stdout elsewhere: the interpreter flushes it once more at its end, and would complain then."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)


def widen_stdout() -> None:
    """Let stdout and stderr show what they cannot encode as an escape, instead of failing over it.

    One that was closed by whoever started us (`>&-`) is as one that leads nowhere.
    """
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
