"""How this command was called: what a person has to type to call it again. Door: sys, os.

Rule 1: the commonest way, `zcsyncd` on the path, is what all hints are written with; `as_called` turns them into
what works here. A hint that cannot be typed is none.
Rule 2: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

import os
import sys

from zcsyncd.cli.render import with_program

PROGRAM = "zcsyncd"


def as_called(text: str) -> str:
    """Give a text in which each command between backticks begins with what calls this program."""
    return with_program(text, called())


def called() -> str:
    """Give what calls this program: its plain name if that leads here, else its path, else the interpreter's."""
    script = sys.argv[0] if sys.argv else ""
    if os.path.basename(script) == "__main__.py":  # python -m zcsyncd
        return f"{_quoted(sys.executable or 'python3')} -m {PROGRAM}"
    if os.path.basename(script) != PROGRAM or os.sep not in script or _is_on_path(script):
        return PROGRAM
    return _quoted(script)


def _is_on_path(script: str) -> bool:
    """Tell whether the plain name leads to this very script."""
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = os.path.join(place, PROGRAM)
        if os.access(found, os.X_OK) and os.path.isfile(found):
            try:
                return os.path.samefile(found, script)
            except OSError:
                return False
    return False


def _quoted(path: str) -> str:
    if all(character.isalnum() or character in "/._-+@~" for character in path):
        return path
    from shlex import quote

    return quote(path)
