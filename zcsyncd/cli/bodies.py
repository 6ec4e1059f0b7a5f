"""Where the body of a fact comes from: a file, standard input, or an editor. Door: files, processes.

Rule 1: bytes are taken as they are, and have to be UTF-8. An empty body is a slip (a command that failed before a
pipe, an editor left in haste), so nothing is written.
Rule 2: what a person has typed into an editor is removed once it is written, and kept when it could not be.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zcsyncd.bus.requests import BODY_BYTES
from zcsyncd.errors import Refused, TooLarge, Unreadable, UsageError, ZcsyncdError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

EDITORS = ("VISUAL", "EDITOR")
"""Variables that name an editor, the first one that is set counts."""
NOTHING = "the body is empty: nothing was written"


@contextmanager
def body_from(source: str | None, start: str, name: str, env: Mapping[str, str]) -> Iterator[str]:
    """Give the body: of the file `source` (`-` is stdin), else of stdin, else what a person makes of `start`.

    `name` is the fact's name, by which an editor shows the text.

    Raises:
        UsageError: the body is empty, or there is no editor.
        Unreadable: the file or stdin cannot be read, or is not UTF-8.
        TooLarge: it is larger than a body may be.
        Refused: the editor failed.
    """
    if source is None and takes_editor(source):
        with _edited(start, name, env) as text:
            yield text
        return
    yield _checked(*_read(source))


def takes_editor(source: str | None) -> bool:
    """Tell whether the body will come from an editor: nothing else is named, and a person sits at stdin."""
    from zcsyncd.cli.console import at_terminal

    return source is None and at_terminal()


def _read(source: str | None) -> tuple[bytes, str]:
    """Give bytes, at most one more than a body may have, and what they were read from."""
    if source not in (None, "-"):
        try:
            with open(source or "", "rb") as file:
                return _upto(file), str(source)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise Unreadable(f"{source} cannot be read: {why}", hint="--body-file names a file") from error
    where = "standard input"
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError(f"{where} is closed", hint="--body-file FILE takes the body from a file")
    try:
        return _upto(sys.stdin.buffer), where
    except OSError as error:
        raise Unreadable(f"{where} cannot be read: {error.strerror}") from error


def _upto(file: BinaryIO) -> bytes:
    """Read no more than is needed to see that it is too much: the other end may never stop."""
    return file.read(BODY_BYTES + 1)


def _checked(content: bytes, where: str) -> str:
    if len(content) > BODY_BYTES:
        raise TooLarge(f"{where} holds more than {BODY_BYTES:,} bytes", hint="make several facts of it")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"{where} is not UTF-8 (byte {error.start + 1})",
            hint="a fact is written in UTF-8: convert it first",
        ) from error
    if not text.strip():
        raise UsageError(NOTHING, hint=f"{where} held nothing but blanks")
    return text


# -- an editor -------------------------------------------------------------------------------------------------------


@contextmanager
def _edited(start: str, name: str, env: Mapping[str, str]) -> Iterator[str]:
    command = _editor(env)
    place = tempfile.mkdtemp(prefix="zcsyncd-")  # nobody else may enter it
    path = os.path.join(place, _file_name(name))
    is_kept = False
    try:
        text = _typed(command, path, start, env)
        try:
            yield text
        except ZcsyncdError as error:
            is_kept = True
            kept = f"your text is kept in {path}"
            error.hint = f"{error.hint}; {kept}" if error.hint else kept
            raise
    finally:
        if not is_kept:
            shutil.rmtree(place, ignore_errors=True)


def _typed(command: list[str], path: str, start: str, env: Mapping[str, str]) -> str:
    """Let a person edit a text; give what came of it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(start.encode("utf-8", "replace"))
        _run([*command, path], env)
        with open(path, "rb") as file:
            return _checked(_upto(file), "what was left in the editor")
    except OSError as error:
        raise Unreadable(f"{path} could not be written or read: {error.strerror}") from error


def _editor(env: Mapping[str, str]) -> list[str]:
    for variable in EDITORS:
        words = env.get(variable, "").strip()
        if not words:
            continue
        try:
            return shlex.split(words, posix=os.name != "nt")
        except ValueError as error:
            raise UsageError(f"{variable} is no command: {words}", hint="a quote is not closed") from error
    raise UsageError(
        "there is no body: standard input is a terminal, and neither VISUAL nor EDITOR names an editor",
        hint="--body-file FILE takes it from a file",
    )


def _file_name(name: str) -> str:
    """Give a name by which an editor knows Markdown; of the fact's own name only what is safe in any file's."""
    stem = re.sub(r"[^\w-]+", "_", os.path.basename(name).removesuffix(".md"))[:40].strip("_-")
    return f"{stem or 'fact'}.md"


def _run(command: list[str], env: Mapping[str, str]) -> None:
    """Run the editor to its end. Ctrl-C is the editor's while it runs; a handler of our own is not inherited."""
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    # An answer that goes into a pipe shall not have the editor's screen in it.
    screen = None if sys.stdout.isatty() else sys.stderr
    try:
        code = subprocess.run(  # noqa: S603 - the command is the person's own choice
            command, env=dict(env), stdout=screen, check=False
        ).returncode
    except OSError as error:
        raise UsageError(
            f"the editor {command[0]} cannot be run: {error.strerror}", hint="VISUAL and EDITOR name one"
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if code != 0:
        raise Refused(f"the editor {command[0]} ended with {code}: nothing was written")
