"""An open directory in or below a memory directory, as the pen uses it; no name in it is followed. Door: os, fcntl.

Rule 1: a directory is opened once, and every name is taken relative to what was opened: whoever puts a symlink in
a directory's place meanwhile leads nobody out. The memory directory itself may be a symlink, nothing below it.
Rule 2: only regular files are read, opened without waiting, and never more than `disk.MAX_BYTES`.
Rule 3: Windows has no such opening. There a file is opened without following it in one step, but names of directories
are checked one after the other and then used, which a swap in between can defeat; and a file that another program has
open is tried again, for about 2 s, and then it is said which program it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_bits
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zcsyncd.errors import NotFound, Refused, Unreadable
from zcsyncd.memory import exchange as renames
from zcsyncd.memory.disk import MAX_BYTES
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.holders import holders
from zcsyncd.opening import is_link, open_to_read, system_path

if sys.platform == "linux":
    import fcntl
    import signal

PAUSES_S = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.3, 0.3, 0.4, 0.4)
"""Between tries at a file that another program has open on Windows: 2 s in all, as long as a scanner takes."""
_READ_TRIES = 3
"""Readings of a file that changes while it is read."""
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF})
"""Said by file systems that know no fsync of a directory."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Existing:
    """A file as it lies there."""

    content: bytes
    stat: FileStat
    mode: int
    """Permission bits only."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as it lies there, and whether somebody has it open for writing (False: nobody, or it cannot be known)."""

    existing: Existing
    being_written: bool = False


def stat_of(status: os.stat_result) -> FileStat:
    """Give the key of what stat said."""
    return FileStat(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def patiently(call: Callable[[], _T], pauses_s: Iterable[float] = PAUSES_S) -> _T:
    """Call; where permission is refused, as Windows does while another program has the file open, try again.

    Raises: PermissionError when it still is after the last pause.
    """
    for pause_s in pauses_s:
        with contextlib.suppress(PermissionError):
            return call()
        time.sleep(pause_s)
    return call()


def is_being_written(descriptor: int) -> bool:
    """Tell whether anybody has a file open for writing (or mapped so); False also where the system does not tell.

    Linux grants a read lease only on a file that nobody may write to. It is let go at once. Were somebody to open
    the file for writing in between, he waits for that, and the signal that we are sent is one that does nothing.
    """
    if sys.platform == "linux":
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN  # anything else: not our file, or no leases here
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _read_descriptor(descriptor: int, path: str, ask_writers: bool) -> Reading:
    """Read a whole regular file, once more when it changes meanwhile."""
    for _ in range(_READ_TRIES):
        before = _regular(os.fstat(descriptor), path)
        os.lseek(descriptor, 0, os.SEEK_SET)
        content = _read_all(descriptor, before.st_size, path)
        after = os.fstat(descriptor)
        if stat_of(before) == stat_of(after) and len(content) == after.st_size:
            break
    existing = Existing(content, stat_of(after), stat_bits.S_IMODE(after.st_mode) & 0o777)
    return Reading(existing, ask_writers and is_being_written(descriptor))


def _read_all(descriptor: int, size: int, path: str) -> bytes:
    parts = []
    total = 0
    # One byte more than stat promised: the usual file needs one call to read and none to see its end.
    while part := os.read(descriptor, max(size + 1 - total, 1 << 16)):
        parts.append(part)
        total += len(part)
        if total > MAX_BYTES:
            raise _too_large(path)
    return b"".join(parts)


def _a_file_link(path: str) -> Refused:
    return Refused(f"{path} is a symlink: it is not followed", hint="put a regular file in its place")


def _regular(status: os.stat_result, path: str) -> os.stat_result:
    if is_link(status):
        raise _a_file_link(path)
    if not stat_bits.S_ISREG(status.st_mode):
        raise Refused(f"{path} is not a regular file", hint="put a regular file in its place")
    if status.st_size > MAX_BYTES:
        raise _too_large(path)
    return status


def _too_large(path: str) -> Unreadable:
    return Unreadable(f"{path} is larger than 5 MiB", hint="no host reads a memory file of this size")


def _unopened(error: OSError, path: str) -> Unreadable:
    hint = "check its permissions"
    if os.name == "nt" and isinstance(error, PermissionError):
        hint = _held_hint(path)
    elif error.errno not in (errno.EACCES, errno.EPERM):
        hint = _HINTS.get(error.errno or 0, "look into what the system says, then try again")
    return Unreadable(f"{path} cannot be opened: {error.strerror or error}", hint=hint, reason=_name(error))


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "unknown")


_HINTS = {
    errno.ENOSPC: "the disk is full: free space on it",
    errno.EDQUOT: "your share of the disk is used up: free space, or have the quota raised",
    errno.EFBIG: "a limit on the size of files was met (`ulimit -f`, or the file system's)",
    errno.EIO: "the disk or its connection is failing: look into the system's log",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "the directory must be writable for the user that zcsyncd runs as",
    errno.EPERM: "the system forbids it (an immutable file, a foreign owner, a sandbox)",
    errno.ENAMETOOLONG: "take a shorter name",
    errno.EMFILE: "too many files are open: try again, or raise the limit (`ulimit -n`)",
    errno.ENFILE: "too many files are open on this machine: try again",
}


def not_written(error: OSError, path: str) -> Refused:
    """Give the error for a person when a write did not come about; the file is as it was."""
    hint = _HINTS.get(error.errno or 0, "look into what the system says, then try again")
    if isinstance(error, PermissionError) and os.name == "nt":
        hint = _held_hint(path)
    return Refused(
        f"{path} was not changed: {error.strerror or error}",
        hint=hint,
        reason=_name(error),
    )


def _held_hint(path: str) -> str:
    """Say which program has a file open, as far as Windows tells."""
    names = holders(path)
    if names:
        return f"{' and '.join(names)} has it open: close it there, then try again"
    return (
        "another program has it open (an editor, a virus scanner, a program that syncs or backs up), it is read-only, "
        "or you may not write here: close it there, or make it writable, then try again"
    )


def _no_such_directory(directory: str) -> NotFound:
    return NotFound(f"{directory} does not exist", hint="check the path")


def _no_directory(path: str) -> Refused:
    return Refused(f"{path} is not a directory", hint="put a directory in its place")


def _a_link(path: str) -> Refused:
    return Refused(
        f"{path} is a symlink: nothing is read or written through one below a memory directory",
        hint="put a directory in its place",
    )


_PLAIN_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_NONBLOCK", 0)


class CheckedFolder:
    """A directory by its path, each name checked and then used: for systems without Rule 1, that is Windows."""

    KEEPS_OPEN = False
    """An open file cannot be renamed here."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def open(cls, directory: str) -> CheckedFolder:
        """Open a memory directory.

        Raises: NotFound; Refused when it is no directory; Unreadable when it cannot be opened.
        """
        try:
            status = os.stat(system_path(directory))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_such_directory(directory) from error
        except OSError as error:
            raise _unopened(error, directory) from error
        if not stat_bits.S_ISDIR(status.st_mode):
            raise _no_directory(directory)
        return cls(directory)

    def below(self, part: str) -> CheckedFolder | None:
        """Open a directory in it; None: not there. Raises: Refused when it is a link or no directory."""
        try:
            status = self.look(part)
        except OSError as error:
            raise _unopened(error, self.named(part)) from error
        if status is None:
            return None
        if is_link(status):
            raise _a_link(self.named(part))
        if not stat_bits.S_ISDIR(status.st_mode):
            raise _no_directory(self.named(part))
        return CheckedFolder(self.named(part))

    def close(self) -> None:
        """Nothing is held."""

    def named(self, name: str) -> str:
        """Give the path of a name in it, for messages."""
        return os.path.join(self.path, name)

    def _at(self, name: str) -> str:
        """Give the path of a name in it, for the system: however long."""
        return system_path(self.named(name))

    def look(self, name: str) -> os.stat_result | None:
        """Give what lies under a name, not followed; None: nothing."""
        try:
            return os.lstat(self._at(name))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, name: str, *, ask_writers: bool = False) -> Reading | None:
        """Read a file, and tell whether it is open for writing if asked; None: not there.

        Raises: Refused, Unreadable.
        """
        path = self.named(name)
        try:
            status = self.look(name)
            if status is None:
                return None
            _regular(status, path)
            descriptor = patiently(lambda: open_to_read(path, follow=False))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _a_file_link(path) from error
            raise _unopened(error, path) from error
        try:
            return _read_descriptor(descriptor, path, ask_writers)
        except OSError as error:
            raise _unopened(error, path) from error
        finally:
            os.close(descriptor)

    def make_file(self, name: str) -> int:
        """Make a file that was not there, and open it for writing. Raises: OSError."""
        return os.open(self._at(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN_FLAGS, 0o600)

    def dress(self, descriptor: int, name: str, mode: int | None, mtime_ns: int | None) -> None:
        """Set permission bits (on Windows they say no more than read-only) and time; None leaves them."""
        del descriptor
        if mode is not None:
            os.chmod(self._at(name), mode & 0o777)
        if mtime_ns is not None:
            os.utime(self._at(name), ns=(mtime_ns, mtime_ns))

    def make_folder(self, name: str) -> None:
        """Make a directory. Raises: FileExistsError, OSError."""
        os.mkdir(self._at(name), 0o700)

    def exchange(self, one: str, other: str) -> None:
        """Swap two names: not here."""
        del one, other
        raise renames.Unsupported

    def rename_new(self, source: str, target: str) -> None:
        """Rename to a free name; on Windows the plain rename does just that.

        Raises: FileExistsError, OSError.
        """
        if self.look(target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)
        patiently(lambda: os.rename(self._at(source), self._at(target)))

    def rename(self, source: str, target: str) -> None:
        """Rename over whatever file lies there."""
        patiently(lambda: os.replace(self._at(source), self._at(target)))

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, if that is free."""
        os.link(self._at(source), self._at(target))

    def remove(self, name: str) -> None:
        """Remove a file."""
        patiently(lambda: os.unlink(self._at(name)))

    def sync(self) -> None:
        """Directories are not synced here."""


if sys.platform == "win32":
    Folder = CheckedFolder
else:
    _FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
    _FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

    class Folder:
        """A directory that is held open."""

        KEEPS_OPEN = True
        """An open file can be renamed here."""

        def __init__(self, path: str, descriptor: int) -> None:
            self.path = path
            self._descriptor = descriptor

        @classmethod
        def open(cls, directory: str) -> Folder:
            """Open a memory directory, which may itself be a symlink.

            Raises: NotFound; Refused when it is no directory; Unreadable when it cannot be opened.
            """
            try:
                return cls(directory, os.open(directory, _FOLDER_FLAGS))
            except FileNotFoundError as error:
                raise _no_such_directory(directory) from error
            except NotADirectoryError as error:
                raise _no_directory(directory) from error
            except OSError as error:
                raise _unopened(error, directory) from error

        def below(self, part: str) -> Folder | None:
            """Open a directory in it; None: not there. Raises: Refused when it is a link or no directory."""
            path = self.named(part)
            try:
                descriptor = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self._descriptor)
            except FileNotFoundError:
                return None
            except OSError as error:
                # Systems differ in what they say of a link that is not to be followed.
                if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                    status = self.look(part)
                    if status is not None and is_link(status):
                        raise _a_link(path) from error
                    raise _no_directory(path) from error
                raise _unopened(error, path) from error
            return Folder(path, descriptor)

        def close(self) -> None:
            """Let go. Twice is harmless."""
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

        def named(self, name: str) -> str:
            """Give the path of a name in it, for messages."""
            return os.path.join(self.path, name)

        def look(self, name: str) -> os.stat_result | None:
            """Give what lies under a name, not followed; None: nothing."""
            try:
                return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
            except FileNotFoundError:
                return None

        def read(self, name: str, *, ask_writers: bool = False) -> Reading | None:
            """Read a file, and tell whether it is open for writing if asked; None: not there.

            Raises: Refused, Unreadable.
            """
            path = self.named(name)
            try:
                status = self.look(name)
                if status is None:
                    return None
                _regular(status, path)  # before it is opened: a pipe's writer is not to be woken
                flags = os.O_RDONLY | os.O_NONBLOCK | _FLAGS
                descriptor = os.open(name, flags, dir_fd=self._descriptor)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EMLINK):
                    raise Refused(f"{path} is a symlink: it is not followed") from error
                raise _unopened(error, path) from error
            try:
                return _read_descriptor(descriptor, path, ask_writers)
            except OSError as error:
                raise _unopened(error, path) from error
            finally:
                os.close(descriptor)

        def make_file(self, name: str) -> int:
            """Make a file that was not there, and open it for writing. Raises: OSError."""
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=self._descriptor)

        def dress(self, descriptor: int, name: str, mode: int | None, mtime_ns: int | None) -> None:
            """Set permission bits and time of an open file; None leaves them."""
            del name
            if mode is not None:
                try:
                    os.fchmod(descriptor, mode & 0o777)
                except OSError as error:
                    # A file system without permission bits: the mount says them. It stays as private as it was made.
                    if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                        raise
            if mtime_ns is not None:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))

        def make_folder(self, name: str) -> None:
            """Make a directory. Raises: FileExistsError, OSError."""
            os.mkdir(name, 0o700, dir_fd=self._descriptor)

        def exchange(self, one: str, other: str) -> None:
            """Swap what lies under two names. Raises: renames.Unsupported, FileNotFoundError, OSError."""
            renames.exchange(self._descriptor, one, other)

        def rename_new(self, source: str, target: str) -> None:
            """Rename to a free name. Raises: renames.Unsupported, FileExistsError, OSError."""
            renames.rename_new(self._descriptor, source, target)

        def rename(self, source: str, target: str) -> None:
            """Rename over whatever file lies there. Raises: OSError."""
            os.rename(source, target, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

        def link(self, source: str, target: str) -> None:
            """Give a file a second name, if that is free. Raises: FileExistsError, OSError."""
            os.link(
                source,
                target,
                src_dir_fd=self._descriptor,
                dst_dir_fd=self._descriptor,
                follow_symlinks=False,
            )

        def remove(self, name: str) -> None:
            """Remove a file. Raises: OSError."""
            os.unlink(name, dir_fd=self._descriptor)

        def sync(self) -> None:
            """Have the names in it on the disk. Raises: OSError when the disk refuses."""
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                if error.errno not in _NO_SYNC:
                    raise


def no_zero(path: str) -> str:
    """Give a path back. Raises: Refused when it holds a zero character, which no system takes."""
    if "\0" in path:
        raise Refused(f"{path!r} is no path", hint="take the zero character out")
    return path


def make_directory(directory: str) -> list[str]:
    """Make a directory and its missing parents, 0700, and have them on the disk. Being there already is no error.

    Gives what was made, the outermost first; see `unmake_directory`.

    Raises: Refused when a file is in the way, or the system refuses; nothing that was made stays then.
    """
    made: list[str] = []
    try:
        _make_missing(directory, made)
    except BaseException:
        unmake_directory(made)
        raise
    return made


def unmake_directory(made: Sequence[str]) -> None:
    """Take directories away that `make_directory` made, as far as they are empty."""
    for each in reversed(made):
        try:
            os.rmdir(each)
        except OSError:
            return  # somebody put something into it: it is theirs now
        _sync_directory(os.path.dirname(each))


def _make_missing(directory: str, made: list[str]) -> None:
    missing = []
    place = os.path.abspath(no_zero(directory))
    while not os.path.isdir(place):
        missing.append(place)
        above = os.path.dirname(place)
        if above == place:
            break
        place = above
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError as error:
            if not os.path.isdir(each):
                raise Refused(
                    f"{each} is in the way: it is no directory", hint="remove it, or choose another place"
                ) from error
        except OSError as error:
            raise not_written(error, each) from error
        else:
            made.append(each)
        _sync_directory(os.path.dirname(each))


def _sync_directory(directory: str) -> None:
    try:
        folder = Folder.open(directory)
    except Unreadable:
        return  # one that may be entered and written but not listed cannot be synced
    try:
        folder.sync()
    except OSError as error:
        raise not_written(error, directory) from error
    finally:
        folder.close()
