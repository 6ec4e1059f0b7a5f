"""Files that are put outside of us: written in one step, only when they differ; taken away again. Door: files."""

from __future__ import annotations

import contextlib
import os
import tempfile

from zcsyncd.errors import Refused


def read(path: str) -> bytes | None:
    """Give a file's bytes; None when there is no such file.

    Raises: Refused, when it is there and cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", hint="make it readable for you") from error


def put(path: str, content: bytes, mode: int = 0o644) -> str:
    """Make a file what it is to be, with its directory; give what was done: `written`, `updated` or `unchanged`.

    A symlink at its place is replaced, not followed: it may lead into somebody's dotfiles.

    Raises: Refused.
    """
    is_link = os.path.islink(path)
    before = None if is_link else read(path)
    if before == content:
        return "unchanged"
    try:
        directory = os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".zcsyncd-")
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror}", hint="make its directory writable for you"
        ) from error
    return "written" if before is None and not is_link else "updated"


def take(path: str) -> bool:
    """Remove a file; tell whether there was one.

    Raises: Refused.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(f"{path} cannot be removed: {error.strerror}", hint="remove it yourself") from error
    return True


def drop_empty(*directories: str) -> None:
    """Remove directories in which nothing is left, in this order; others stay."""
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def size_of(path: str) -> int | None:
    """Give how many bytes the files at a path have, all together; None when nothing is there. Links count as links."""
    if not os.path.lexists(path):
        return None
    if not os.path.isdir(path) or os.path.islink(path):
        return os.lstat(path).st_size
    total = 0
    for place, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total
