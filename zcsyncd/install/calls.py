"""The programs of a service manager: called, waited for, and what they said. Door: subprocess."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcsyncd.errors import Refused

USUAL_S = 30.0
"""What only asks or writes is done in far less."""
START_S = 240.0
"""A start may wait for a first scan; the unit ends it after three minutes, and its stop takes a while."""
ABSENT = 127
"""What a shell gives for a program that is not there."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a call went."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its complaint in one line; its own words where it has any."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[0] if lines else f"exit code {self.code}"


def has(program: str, env: Mapping[str, str]) -> bool:
    """Tell whether a program is to be found."""
    return shutil.which(program, path=env.get("PATH")) is not None


def call(words: Sequence[str], env: Mapping[str, str], *, most_s: float = USUAL_S) -> Done:
    """Run a program to its end; one that is not there has failed with code 127.

    Raises: Refused, when it does not end within `most_s` seconds.
    """
    path = shutil.which(words[0], path=env.get("PATH"))
    if path is None:
        return Done(ABSENT, "", f"{words[0]} is not installed")
    # Messages are shown, and some are read: in one language.
    try:
        done = subprocess.run(  # noqa: S603 - our own words, no shell
            [path, *words[1:]],
            env={**env, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=most_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(
            f"`{' '.join(words)}` did not end within {most_s:.0f} s", hint="look at what it waits for"
        ) from error
    except OSError as error:
        return Done(ABSENT, "", f"{path}: {error.strerror or error}")
    return Done(done.returncode, done.stdout, done.stderr)


def must(words: Sequence[str], env: Mapping[str, str], *, most_s: float = USUAL_S) -> str:
    """Run a program that has to succeed; give what it printed.

    Raises: Refused, with its own complaint.
    """
    done = call(words, env, most_s=most_s)
    if done.code != 0:
        raise Refused(f"`{' '.join(words)}` failed: {done.said}")
    return done.out


def own_uid() -> int:
    """Give this user's number, by which its service manager is called; 0 where users have none."""
    if sys.platform == "win32":
        return 0
    return os.geteuid()
