"""The one pen of a memory directory: files that are wholly old or wholly new, and nobody's lost. Door: os.

Rule 1: a file is written beside its place, synced, compared once more with what the caller had read, and put into
its place in one step; then the directory is synced. Whoever is stopped in between (a full disk, kill -9) leaves the
old file or the new one, and at most a temporary file, which `sweep` takes away.
Rule 2: nothing below the memory directory is followed: a symlink, in the last place or on the way, is refused.
Rule 3: bytes of another writer are never destroyed unseen. Where the system can swap two names, what lay there is
looked at *after* it came out of its place: if it is not what was expected it is put back, and should somebody have
written yet again, what cannot go back is handed to the caller (`Displaced`). Where it cannot swap, a few
microseconds between the last look and the rename stay open.
Rule 4: a file that somebody has open for writing is not replaced (Linux tells): the rest of what he writes would
go to a file without a name.

Decided: a hard link is broken by a write, as ZCode breaks it; a read-only file is replaced and stays read-only, as
with ZCode; owner and extended attributes are those of a new file; `fsync` is plain on macOS too, as ZCode's: it
guards against a crash of ours and of the system, not against a disk that lies about its cache.
Source: docs/format.md ("Writing"). All of this blocks: it belongs into a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat as stat_bits
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

from zcsyncd.errors import NotFound, Refused, RevisionConflict, TooLarge, ZcsyncdError
from zcsyncd.memory.disk import MAX_BYTES
from zcsyncd.memory.exchange import Unsupported
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.folder import (
    Existing,
    Folder,
    make_directory,
    no_zero,
    not_written,
    stat_of,
    unmake_directory,
)
from zcsyncd.memory.locks import living_lock
from zcsyncd.memory.revision import revision
from zcsyncd.memory.temps import sweep, temp_name

__all__ = [
    "STEPS",
    "Displaced",
    "Existing",
    "Pen",
    "Prepared",
    "living_lock",
    "make_directory",
    "step",
    "sweep",
    "temp_name",
    "unmake_directory",
]

STEPS = (
    "temp-made",  # an empty file under the temporary name
    "written",  # the bytes, the mode and the time are in it
    "synced",  # and on the disk
    "compared",  # what lies in the place is still what was expected
    "renamed",  # in place: a free name, or where no swap is possible
    "linked",  # in place and still under the temporary name: no such rename here
    "claimed",  # an empty file in the place: no links here either
    "exchanged",  # in place; what lay there is under the temporary name
    "checked",  # and it is what was expected
    "exchanged-back",  # it was not: it is back in its place
    "set-aside",  # a removal: the file is under the temporary name
    "put-back",  # it was not what was expected: it is back in its place
    "temp-gone",  # no temporary file any more
    "directory-synced",  # the names are on the disk
)
"""What `step` is called with, each time just after it was done. Not every way takes all of them."""

ROUNDS = 8
"""How often a file is put back under a writer that never rests."""
WRITER_WAIT_S = 0.1
"""How long a writer that has the file open is waited for: to truncate and write takes less than a millisecond."""
_WRITER_PAUSE_S = 0.001
_NO_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES, errno.EINVAL}
)


class Displaced(RevisionConflict):
    """A conflict in which a file of another writer came out of its place and could not go back: a newer one lay there.

    `aside` is that file: it exists nowhere else any more. None: it could not be read, or somebody was still writing
    into it; it lies on under the path that the hint names.
    """

    def __init__(self, message: str, *, aside: Existing | None, hint: str | None, **data: object) -> None:
        super().__init__(message, hint=hint, **data)
        self.aside = aside


def step(name: str) -> None:
    """Do nothing: the place where tests stop a write. `name` is one of STEPS."""


class Pen:
    """What writes in one memory directory, which is held open from here to `close` (or the end of the `with`).

    `file` is relative to the directory, with `/`; `temp` a bare file name, from `temp_name`, beside it.

    Raises: NotFound when the directory is not there; Refused when it is no directory; Unreadable when it cannot be
    opened.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._root = Folder.open(no_zero(directory))

    def close(self) -> None:
        """Let go of the directory. Twice is harmless."""
        self._root.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, file: str) -> Existing | None:
        """Read a file as it lies there; None: it is not there.

        Raises:
            Refused: outside; a symlink, in the last place or on the way; no regular file.
            Unreadable: it cannot be opened, or is larger than 5 MiB.
        """
        with self._at(file) as (folder, name):
            reading = folder.read(name) if folder else None
            return reading.existing if reading else None

    def replace(
        self,
        file: str,
        content: bytes,
        *,
        expected: Existing | None,
        temp: str,
        mtime_ns: int | None = None,
        mode: int | None = None,
        sync: bool = True,
    ) -> FileStat:
        """Write a file in one step, if it still is what was expected (None: not there).

        `sync` False: the file's bytes are on the disk, its name is after `sync`, which the caller owes.

        Permission bits: those of `expected`, else `mode`, else 0600. `mtime_ns`: the time that the file is to bear,
        as far as the file system can. Gives the stat of the file that was written, as it lies in its place.

        Raises:
            RevisionConflict: something else lies there; `data["revision"]` is today's, None when nothing does.
            Displaced: the same, and files of others came out of place.
            NotFound: a new file, and the directory that is to hold it is not there (`make_folders`).
            Refused: as `read`; or the system refuses (no space, read-only, …): what was there is unchanged.
            Unreadable: what lies there cannot be read.
            TooLarge: more than 5 MiB.
            ZcsyncdError: it was written, but the disk did not confirm it; `data["written"]` is True.
        """
        with self.prepare(
            file, content, expected=expected, temp=temp, mtime_ns=mtime_ns, mode=mode
        ) as prepared:
            prepared.sync()
            stat = prepared.put()
        if sync:
            self.sync(file)
        return stat

    def prepare(
        self,
        file: str,
        content: bytes,
        *,
        expected: Existing | None,
        temp: str,
        mtime_ns: int | None = None,
        mode: int | None = None,
    ) -> Prepared:
        """Write a file under its temporary name: the half of `replace` that waits for nobody.

        Several may be prepared before the first is synced: the disk then takes the others along.

        Raises: as `replace`.
        """
        folder, name = self._open(file)
        if folder is None:
            path = self._path(file)
            raise _conflict(path, None) if expected is not None else _no_folder(path)
        try:
            draft = _drafted(
                folder, name, content, expected=expected, temp=temp, mtime_ns=mtime_ns, mode=mode
            )
        except BaseException:
            self._let_go(folder)
            raise
        return Prepared(self, folder, name, expected, draft)

    def sync(self, file: str) -> None:
        """Have the names of the folder that holds a file on the disk.

        Raises: ZcsyncdError: the disk did not confirm it; `data["written"]` is True.
        """
        with self._at(file) as (folder, name):
            if folder is not None:
                _sync(folder, folder.named(name))

    def remove(self, file: str, *, expected: Existing, temp: str, sync: bool = True) -> Existing:
        """Remove a file, if it still is what was expected; give what it was.

        Raises: as `replace`.
        """
        with self._at(file) as (folder, name):
            if folder is None:
                raise _conflict(self._path(file), None)
            path = folder.named(name)
            with _told(path, _conflict(path, None)):
                _must_be(folder, name, expected)
                step("compared")
                _move(folder, name, _temp(temp))
                step("set-aside")
                came = _look(folder, temp)
                if came is None or not came.is_still(expected):
                    _put_back(folder, name, temp, came)
                step("checked")
                folder.remove(temp)
                step("temp-gone")
            if sync:
                _sync(folder, path)
            return expected

    def make_folders(self, file: str) -> None:
        """Make the directories between the memory directory and a file, 0700, as far as they are missing.

        Raises: Refused when a symlink or a file is in the way, or the system refuses.
        """
        parts = _parts(file, self.directory)
        folder = self._root
        try:
            for part in parts[:-1]:
                below = folder.below(part)
                if below is None:
                    with _told(folder.named(part), _no_folder(folder.named(part))):
                        with contextlib.suppress(FileExistsError):
                            folder.make_folder(part)
                        folder.sync()
                    below = folder.below(part)
                if below is None:
                    raise Refused(
                        f"{folder.named(part)} was removed as soon as it was made", hint="try again"
                    )
                if folder is not self._root:
                    folder.close()
                folder = below
        finally:
            if folder is not self._root:
                folder.close()

    def _path(self, file: str) -> str:
        return os.path.join(self.directory, *file.split("/"))

    @contextlib.contextmanager
    def _at(self, file: str) -> Iterator[tuple[Folder | None, str]]:
        """Open the directory that holds a file (None: not there), and give the file's name in it."""
        folder, name = self._open(file)
        try:
            yield folder, name
        finally:
            self._let_go(folder)

    def _let_go(self, folder: Folder | None) -> None:
        if folder is not None and folder is not self._root:
            folder.close()

    def _open(self, file: str) -> tuple[Folder | None, str]:
        """Open the directory that holds a file (None: not there), and give the file's name in it.

        `_let_go` closes it.
        """
        *parts, name = _parts(file, self.directory)
        folder = self._root
        for part in parts:
            try:
                below = folder.below(part)
            finally:
                self._let_go(folder)
            if below is None:
                return None, name
            folder = below
        return folder, name


class Prepared:
    """A file that is written under its temporary name, as a context manager: unless put, it is removed."""

    def __init__(self, pen: Pen, folder: Folder, name: str, expected: Existing | None, draft: _Draft) -> None:
        self._pen = pen
        self._folder = folder
        self._name = name
        self._expected = expected
        self._draft = draft

    def sync(self) -> None:
        """Have the file's bytes on the disk; `put` is to follow.

        Raises: as `Pen.replace`.
        """
        path = self._folder.named(self._name)
        with _told(path, _conflict(path, None)):
            self._draft.sync()

    def put(self) -> FileStat:
        """Put the synced file in its place in one step, if that still is what was expected; `Pen.sync` is to follow.

        Raises: as `Pen.replace`.
        """
        folder, name, expected = self._folder, self._name, self._expected
        path = folder.named(name)
        with _told(path, _conflict(path, None) if expected else _no_folder(path)):
            if expected is None:
                if folder.read(name) is not None:
                    raise _conflict_now(folder, name)
                step("compared")
                self._draft.place_new(name)
            else:
                _must_be(folder, name, expected)
                step("compared")
                self._draft.place_over(name, expected)
            return self._draft.stat(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draft.drop()
        self._pen._let_go(self._folder)


class _Draft:
    """A file under its temporary name, on its way to its place."""

    def __init__(self, folder: Folder, temp: str) -> None:
        self._folder = folder
        self._temp = temp
        self._descriptor = folder.make_file(temp)
        self._content = b""
        self._ours = True
        """The temporary name is there, and what lies under it is nobody else's."""
        self._known: Existing | None = None
        self._status: os.stat_result | None = None

    def fill(self, content: bytes, mode: int | None, mtime_ns: int | None) -> None:
        """Write and dress it."""
        self._content = content
        step("temp-made")
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._folder.dress(self._descriptor, self._temp, mode, mtime_ns)
        step("written")

    def sync(self) -> None:
        """Have its bytes on the disk."""
        os.fsync(self._descriptor)
        step("synced")
        status = os.fstat(self._descriptor)
        self._known = Existing(self._content, stat_of(status), stat_bits.S_IMODE(status.st_mode) & 0o777)
        if not self._folder.KEEPS_OPEN:
            self.close()

    def place_new(self, name: str) -> None:
        """Put it under a name that is free, by the best means that there is."""
        folder = self._folder
        try:
            folder.rename_new(self._temp, name)
            self._ours = False
            step("renamed")
        except FileExistsError as error:
            raise _conflict_now(folder, name) from error
        except Unsupported:
            self._link(name)

    def _link(self, name: str) -> None:
        try:
            self._folder.link(self._temp, name)
        except FileExistsError as error:
            raise _conflict_now(self._folder, name) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._claim(name)
        else:
            step("linked")
            self._remove_temp()

    def _claim(self, name: str) -> None:
        """Take the name by an empty file, then rename over that: for file systems with nothing better.

        The empty file bears the time of the temporary one, by which `sweep` knows whose it was.
        """
        folder = self._folder
        try:
            descriptor = folder.make_file(name)
        except FileExistsError as error:
            raise _conflict_now(folder, name) from error
        try:
            assert self._known is not None
            folder.dress(descriptor, name, None, self._known.stat.mtime_ns)
            claimed = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        step("claimed")
        try:
            if not _is_empty_still(folder, name, claimed):
                raise _conflict_now(folder, name)
            folder.rename(self._temp, name)
            self._ours = False
        except OSError:
            if _is_empty_still(folder, name, claimed):
                folder.remove(name)
            raise
        step("renamed")

    def place_over(self, name: str, expected: Existing) -> None:
        """Put it in the place of what was expected there."""
        folder = self._folder
        try:
            folder.exchange(self._temp, name)
        except Unsupported:
            folder.rename(self._temp, name)
            self._ours = False
            step("renamed")
            return
        except FileNotFoundError as error:
            raise _conflict_now(folder, name) from error
        self._ours = False
        step("exchanged")
        came = _look(folder, self._temp)
        if came is None or not came.is_still(expected):
            self.close()  # else it would be ourselves who have it open for writing
            assert self._known is not None
            _exchange_back(folder, name, self._temp, came, self._known)
        step("checked")
        # A swap leaves "moved away" as the last that watchers hear of the name. Closed only now, our descriptor
        # lets "closed after writing" follow.
        self._status = os.fstat(self._descriptor)
        self.close()
        self._remove_temp()

    def stat(self, name: str) -> FileStat:
        """Give the stat of the file that was written."""
        if self._status is None and self._descriptor >= 0:
            self._status = os.fstat(self._descriptor)
        status = self._status or self._folder.look(name)
        assert self._known is not None
        return stat_of(status) if status else self._known.stat

    def _remove_temp(self) -> None:
        # The file is in its place: a rest that cannot be removed is no failure (the audit tells of it).
        self._ours = False
        with contextlib.suppress(OSError):
            self._folder.remove(self._temp)
        step("temp-gone")

    def close(self) -> None:
        """Close the file. Twice is harmless."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def drop(self) -> None:
        """Close it, and remove it if it did not come to its place."""
        self.close()
        if self._ours:
            with contextlib.suppress(OSError):
                self._folder.remove(self._temp)


def _drafted(
    folder: Folder,
    name: str,
    content: bytes,
    *,
    expected: Existing | None,
    temp: str,
    mtime_ns: int | None,
    mode: int | None,
) -> _Draft:
    """Write a file under its temporary name; nothing is left of it when that fails."""
    path = folder.named(name)
    if len(content) > MAX_BYTES:
        raise TooLarge(f"{path} would be larger than 5 MiB", hint="no host reads a memory file of this size")
    with _told(path, _conflict(path, None) if expected else _no_folder(path)):
        draft = _Draft(folder, _temp(temp))
        try:
            draft.fill(content, expected.mode if expected else mode, mtime_ns)
        except BaseException:
            draft.drop()
            raise
        return draft


@dataclass(frozen=True, slots=True)
class _Lying:
    """What lies under a name, whatever it is."""

    stat: FileStat
    mode: int
    content: bytes | None
    """None: no regular file, or it cannot be read."""
    being_written: bool

    def is_still(self, known: Existing) -> bool:
        """Tell whether it is that very file, unchanged and in nobody's hands; a rename changes ctime, no more."""
        return (
            self.stat.inode == known.stat.inode
            and self.stat.mtime_ns == known.stat.mtime_ns
            and self.mode == known.mode
            and self.content == known.content
            and not self.being_written
        )


def _look(folder: Folder, name: str) -> _Lying | None:
    """Look at what lies under a name without ever failing; None: nothing."""
    with contextlib.suppress(ZcsyncdError, OSError):
        reading = folder.read(name, ask_writers=True)
        if reading is None:
            return None
        found = reading.existing
        return _Lying(found.stat, found.mode, found.content, reading.being_written)
    with contextlib.suppress(OSError):
        status = folder.look(name)
        if status is not None:
            return _Lying(stat_of(status), stat_bits.S_IMODE(status.st_mode) & 0o777, None, False)
    return None


def _must_be(folder: Folder, name: str, expected: Existing) -> None:
    """See to it that a file is what was expected; one that is being written is waited for a moment.

    Raises: RevisionConflict; Refused and Unreadable as `Pen.read`.
    """
    until = time.monotonic() + WRITER_WAIT_S
    while True:
        reading = folder.read(name, ask_writers=True)
        if reading is not None and reading.being_written:
            if time.monotonic() < until:
                time.sleep(_WRITER_PAUSE_S)
                continue
            raise _conflict(
                folder.named(name),
                reading.existing.stat,
                "another program has it open for writing",
                "try again once that program has closed it",
            )
        if reading is None or reading.existing != expected:
            raise _conflict(folder.named(name), reading.existing.stat if reading else None)
        return


def _exchange_back(folder: Folder, name: str, temp: str, came: _Lying | None, ours: Existing) -> NoReturn:
    """Undo a swap that brought out another file than was expected; nobody's bytes may be lost by it.

    Each swap may in turn bring out something newer than what was put there before: then that goes back, until what
    comes out is what went in.

    Raises: RevisionConflict, always; Displaced when a file of others is left over.
    """
    placed: _Lying | None = None  # what was put under the name last; None: our own
    held = came
    for _ in range(ROUNDS):
        if held is None:
            raise _conflict_now(folder, name)  # somebody removed even the temporary name
        try:
            folder.exchange(temp, name)
        except (OSError, Unsupported):
            break  # the name was removed meanwhile: that stands
        step("exchanged-back")
        out = _look(folder, temp)
        if placed is None:
            if out is not None and out.is_still(ours):
                folder.remove(temp)
                step("temp-gone")
                raise _conflict_now(folder, name)
        elif out is not None and out.stat.inode == placed.stat.inode:
            held = out
            break
        placed, held = held, out
    _give_aside(folder, name, temp, held)


def _put_back(folder: Folder, name: str, temp: str, came: _Lying | None) -> NoReturn:
    """Undo a removal that took another file than was expected.

    Raises: RevisionConflict, always; Displaced when the name was taken again meanwhile.
    """
    try:
        _move(folder, temp, name)
    except FileExistsError:
        _give_aside(folder, name, temp, came)
    step("put-back")
    raise _conflict_now(folder, name)


def _give_aside(folder: Folder, name: str, temp: str, held: _Lying | None) -> NoReturn:
    """Hand a file of others that cannot go back to the caller; what is not wholly in hand stays on the disk."""
    now = _conflict_now(folder, name)
    aside: Existing | None = None
    hint = now.hint
    if held is not None and held.content is not None and not held.being_written:
        aside = Existing(held.content, held.stat, held.mode)
        with contextlib.suppress(OSError):
            folder.remove(temp)
        step("temp-gone")
    elif held is not None:
        kept = f"kept.{secrets.token_hex(6)}"  # no temporary name: a sweep would take it
        with contextlib.suppress(OSError):
            folder.rename(temp, kept)
            temp = kept
        hint = f"what another program had written there lies in {folder.named(temp)}"
    raise Displaced(now.message, aside=aside, hint=hint, **now.data)


def _move(folder: Folder, source: str, target: str) -> None:
    """Rename to a name that is free, by the best means that there is.

    Raises: FileExistsError, OSError.
    """
    with contextlib.suppress(Unsupported):
        return folder.rename_new(source, target)
    try:
        folder.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        return folder.remove(source)
    if folder.look(target) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    return folder.rename(source, target)


def _is_empty_still(folder: Folder, name: str, claimed: os.stat_result) -> bool:
    status = folder.look(name)
    return status is not None and status.st_ino == claimed.st_ino and status.st_size == 0


def _conflict_now(folder: Folder, name: str) -> RevisionConflict:
    status = None
    with contextlib.suppress(OSError):
        status = folder.look(name)
    regular = status is not None and stat_bits.S_ISREG(status.st_mode)
    return _conflict(folder.named(name), stat_of(status) if status is not None and regular else None)


def _conflict(
    path: str,
    now: FileStat | None,
    why: str | None = None,
    hint: str = "read it again, then decide anew",
) -> RevisionConflict:
    why = why or ("it changed meanwhile" if now else "it is no longer there")
    today = revision(now.mtime_ns, now.size) if now else None
    return RevisionConflict(f"{path}: {why}; nothing was written", hint=hint, revision=today)


def _no_folder(path: str) -> NotFound:
    return NotFound(f"{os.path.dirname(path)} does not exist", hint="make the directory, then try again")


@contextlib.contextmanager
def _told(path: str, gone: ZcsyncdError) -> Iterator[None]:
    """Turn what the system says into an error of ours; `gone`: what it means when something is not there."""
    try:
        yield
    except FileNotFoundError as error:
        raise gone from error
    except OSError as error:
        raise not_written(error, path) from error


def _sync(folder: Folder, path: str) -> None:
    try:
        folder.sync()
    except OSError as error:
        raise ZcsyncdError(
            f"{path} was changed, but the disk did not confirm it: {error.strerror or error}",
            hint="look into the system's log: the disk or its connection is failing",
            written=True,
        ) from error
    step("directory-synced")


def _parts(file: str, directory: str) -> list[str]:
    """Split a relative path. Raises: Refused when it leads outside, or is no plain path."""
    parts = file.split("/")
    separators = {os.sep, os.altsep or "/", "/"} - {"/"}
    foreign = "\0" in file or any(mark in file for mark in separators)
    if foreign or os.path.isabs(file) or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"{file!r} is no path inside {directory}", hint="give a relative path without `..`")
    try:
        os.fsencode(file)
    except UnicodeEncodeError as error:
        raise Refused(f"{file!r} is no file name on this system", hint="take half characters out") from error
    if os.path.splitdrive(file)[0] or (os.name == "nt" and ":" in file):
        raise Refused(f"{file!r} is no path inside {directory}", hint="leave out drives and streams")
    return parts


def _temp(temp: str) -> str:
    if _parts(temp, "the directory") != [temp]:
        raise Refused(f"{temp!r} is no bare file name", hint="take one from `temp_name`")
    return temp
