"""The disk's door of stage 2: a memory directory's files to a Snapshot. Door: os.

Rule 1: the disk is the truth. A path that an event named is read whatever its stat says; in a scan, a file is read
only when its stat differs from the one it was last read under, or when it was too young then for its time to tell.
Rule 2: a read error is never "empty". What cannot be listed keeps what was known of it; what cannot be opened is a
fact with a remark.
Rule 3: nothing here blocks: only regular files are read, opened without waiting, and never more than `MAX_BYTES`.
Rule 4: a long look is cut into slices, so that the loop answers meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zcsyncd.errors import NotFound, Refused, Unreadable
from zcsyncd.layouts.layout import Layout, Tree
from zcsyncd.memory.fact import Fact, FileStat, parse_fact, unreadable_fact
from zcsyncd.memory.index import Index, parse_index, unreadable_index
from zcsyncd.memory.snapshot import Snapshot, Stray
from zcsyncd.opening import entry_is_link, entry_stat, is_link, open_to_read, system_path

MAX_BYTES = 5 * 1024 * 1024
"""A larger file is unreadable: no host would take it, and it would stop the loop."""
YOUNG_NS = 2_000_000_000
"""A file that was written less than 2 s before it was read may change again under the same time stamp."""
SLICE_S = 0.004
"""How long a look may hold the loop at a time."""
KEPT_BYTES = 8 * 1024 * 1024
"""What one look brings along of the bytes it read; the rest is read again by whoever wants it."""
MAX_DEPTH = 64
"""Directories below a memory directory: more is a mistake, or an attack."""
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
_TEMP_MARK = ".tmp."


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at a directory brought."""

    snapshot: Snapshot
    held: tuple[str, ...] = ()
    """Absolute paths that are not believed yet; what the snapshot says of them is what was known before."""
    read: int = 0
    """Files whose bytes were read."""
    files: frozenset[str] | None = None
    """The only files that may differ from the snapshot before; None: any may."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The bytes that were read, by file, as far as `KEPT_BYTES` goes."""


def read_snapshot(
    directory: str, layout: Layout, before: Snapshot | None = None, named: frozenset[str] | None = None
) -> Snapshot | None:
    """Read a directory in one go and believe everything; None when there is no such directory.

    Raises:
        Unreadable: the directory is there but cannot be listed.
    """
    slices = look(directory, layout, before, named=named, settled_ns=0)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            reading: Reading | None = done.value
            return reading.snapshot if reading else None


def look(
    directory: str,
    layout: Layout,
    before: Snapshot | None,
    *,
    named: frozenset[str] | None = None,
    settled_ns: int = 0,
    believe_empty: Callable[[str, int], bool] = lambda _path, _mtime_ns: True,
    ignored: Callable[[str], bool] = lambda _file: False,
) -> Generator[None, None, Reading | None]:
    """Look at a directory in slices (each `yield` is a chance for others); return a Reading, None when it is gone.

    `named`: absolute paths to read anew, everything else is taken from `before`; None looks at everything.
    `settled_ns`: in a look at everything, a file that changed less than this ago is held back.
    `believe_empty`: asked, with path and mtime, about an index of size 0 that was not so before.
    `ignored`: whether a file (relative, with `/`) is none of ours.

    Raises:
        Unreadable: the directory itself is there but cannot be listed.
        OSError: the system is short of something (descriptors, memory); look again later.
    """
    if named is not None and before is not None:
        reading = yield from _look_at(before, layout, named, believe_empty, ignored)
        if reading is not None:
            return reading
    eye = _Eye(directory, layout, before, settled_ns, believe_empty, ignored)
    found = yield from eye.take_all()
    return Reading(eye.snapshot(), tuple(eye.held), eye.read, contents=eye.contents) if found else None


def look_at_named(
    before: Snapshot,
    layout: Layout,
    named: Iterable[str],
    *,
    believe_empty: Callable[[str, int], bool],
    ignored: Callable[[str], bool],
) -> Reading | None:
    """Read a few paths (absolute) anew, in one go; None when only a look at everything can tell.

    Raises:
        OSError: the system is short of something; look again later.
    """
    slices = _look_at(before, layout, named, believe_empty, ignored)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            reading: Reading | None = done.value
            return reading


def _look_at(
    before: Snapshot,
    layout: Layout,
    named: Iterable[str],
    believe_empty: Callable[[str, int], bool],
    ignored: Callable[[str], bool],
) -> Generator[None, None, Reading | None]:
    """Read paths anew and take the rest from `before`."""
    eye = _Eye(before.directory, layout, before, 0, believe_empty, ignored)
    eye.index, eye.facts, eye.strays = before.index, dict(before.facts), dict(before.strays)
    files: list[str] = []
    until = time.monotonic() + SLICE_S
    for path in named:
        file = eye.take_named(path)
        if file is None:
            return None
        files.append(file)
        if time.monotonic() > until:
            yield
            until = time.monotonic() + SLICE_S
    return Reading(eye.snapshot(), tuple(eye.held), eye.read, frozenset(files), eye.contents)


def shows_changes(snapshot: Snapshot, layout: Layout, ignored: Callable[[str], bool]) -> bool:
    """Tell whether any fact came, went or has another stat than a snapshot says. Nothing is read; for few facts.

    What cannot be listed or asked after counts as a change: a look tells.
    """
    known = dict(snapshot.facts)
    places = [("", snapshot.directory)]
    try:
        while places:
            prefix, place = places.pop()
            with os.scandir(system_path(place)) as entries:
                for entry in entries:
                    file = prefix + entry.name
                    if ignored(file):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if entry_is_link(entry):
                            continue  # a junction
                        places.append((file + "/", entry.path))
                    elif entry.name.endswith(layout.ending) and entry.name != layout.index_name:
                        fact = known.pop(file, None)
                        if fact is None or fact.stat != _stat_of(entry_stat(entry, follow=True)):
                            return True
    except OSError:
        return True
    return bool(known)


def discover(tree: Tree) -> Iterator[str]:
    """List the memory directories of a tree that exist now.

    Raises:
        Unreadable: a level is there but cannot be listed, so that what is missing is not known to be gone.
    """
    if not tree.levels:
        if os.path.isdir(system_path(tree.base)):
            yield tree.base
        return
    places = [tree.base]
    for test in tree.levels:
        places = [os.path.join(place, name) for place in places for name in _names(place) if test(name)]
    for place in places:
        if os.path.isdir(system_path(place)):
            yield place


def _names(place: str) -> Sequence[str]:
    try:
        return sorted(os.listdir(system_path(place)))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise Unreadable(
            f"{place} cannot be listed: {error.strerror}", hint="check its permissions"
        ) from error


def read_file(directory: str, file: str) -> tuple[bytes, FileStat]:
    """Read one file of a memory directory now.

    Raises:
        NotFound: it is not there.
        Refused: it lies outside, or below a symlinked directory.
        Unreadable: it cannot be opened, is no regular file, or is larger than 5 MiB.
    """
    if file in _NO_FILES or "/" in file or "\\" in file or "\0" in file or os.name == "nt":
        _check_inside(directory, file)
    path = os.path.join(directory, *file.split("/"))
    try:
        return _read(path)
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist") from error
    except _NoRegularFile as error:
        raise Unreadable(f"{path} is not a regular file", hint="put a regular file in its place") from error
    except _TooLarge as error:
        raise Unreadable(
            f"{path} is larger than 5 MiB", hint="no host reads a memory file of this size"
        ) from error
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error


_NO_FILES = frozenset({"", ".", ".."})


def _check_inside(directory: str, file: str) -> None:
    if not file or os.path.isabs(file) or ".." in file.replace(os.sep, "/").split("/") or "\0" in file:
        raise Refused(f"{file!r} is no path inside {directory}")
    if os.name == "nt" and ":" in file:
        raise Refused(f"{file!r} names a drive or a stream, no file inside {directory}")
    place = directory
    for part in file.split("/")[:-1]:
        place = os.path.join(place, part)
        if _is_link_at(place):
            raise Refused(f"{place} is a symlink: a memory directory is not read through one")


def _is_link_at(place: str) -> bool:
    try:
        return is_link(os.lstat(system_path(place)))
    except OSError:
        return False


def is_there(directory: str, file: str) -> bool:
    """Tell whether a memory directory has a file of this name now."""
    return os.path.lexists(system_path(os.path.join(directory, *file.split("/"))))


def is_unchanged(directory: str, kept: Fact | Index) -> bool:
    """Tell by stat alone whether a file is surely the one that was read; False: it must be read to know."""
    try:
        return _still(kept, os.stat(system_path(os.path.join(directory, *kept.file.split("/")))))
    except OSError:
        return False


class _NoRegularFile(OSError):
    pass


class _TooLarge(OSError):
    pass


def _stat_of(status: os.stat_result) -> FileStat:
    return FileStat(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _read(path: str) -> tuple[bytes, FileStat]:
    descriptor = open_to_read(path)
    try:
        status = os.fstat(descriptor)
        if not stat_bits.S_ISREG(status.st_mode):
            raise _NoRegularFile(errno.EINVAL, "not a regular file")
        if status.st_size > MAX_BYTES:
            raise _TooLarge(errno.EFBIG, "larger than 5 MiB")
        # One byte more than stat promised: the usual file needs one call to read and none to see its end.
        content = os.read(descriptor, status.st_size + 1)
        if len(content) != status.st_size:
            content = _read_on(descriptor, content)
            status = os.fstat(descriptor)
        return content, _stat_of(status)
    finally:
        os.close(descriptor)


def _read_on(descriptor: int, content: bytes) -> bytes:
    parts = [content]
    total = len(content)
    while part := os.read(descriptor, 1 << 20):
        total += len(part)
        if total > MAX_BYTES:
            raise _TooLarge(errno.EFBIG, "larger than 5 MiB")
        parts.append(part)
    return b"".join(parts)


@dataclass(slots=True)
class _Eye:
    """One look: gathers index, facts and strays, sharing with the snapshot before what has not changed."""

    directory: str
    layout: Layout
    before: Snapshot | None
    settled_ns: int
    believe_empty: Callable[[str, int], bool]
    ignored: Callable[[str], bool]
    index: Index | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    strays: dict[str, Stray] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    read: int = 0
    contents: dict[str, bytes] = field(default_factory=dict)
    room: int = KEPT_BYTES

    def snapshot(self) -> Snapshot:
        before = self.before
        folds = before.folds_case if before else _folds_case(self.directory)
        return Snapshot(self.directory, self.layout.name, self.index, self.facts, self.strays, folds)

    # -- what an event named

    def take_named(self, path: str) -> str | None:
        """Read one path anew and give its file; None when only a look at everything can tell."""
        file = self._relative(path)
        if file is None or self.ignored(file):
            return file
        try:
            status = os.lstat(system_path(path))
        except (FileNotFoundError, NotADirectoryError):
            if not os.path.isdir(system_path(self.directory)):
                return None
            self._forget(file)
            return file
        except OSError as error:
            if error.errno in _SCARCE:
                raise
            return None
        if not stat_bits.S_ISREG(status.st_mode) and os.path.isdir(system_path(path)):
            return None  # a directory, or a link to one
        if "/" in file and self._inside_link(file):
            self._forget(file)
            return file
        if not self._held_back(path, file, status, named=True):
            self._forget(file)
            self._take_file(path, file, status, None, named=True)
        return file

    def _inside_link(self, file: str) -> bool:
        """Tell whether a directory between the memory directory and the file is a symlink: not entered."""
        place = self.directory
        for part in file.split("/")[:-1]:
            place = os.path.join(place, part)
            if _is_link_at(place):
                return True
        return False

    def _relative(self, path: str) -> str | None:
        prefix = self.directory if self.directory.endswith(os.sep) else self.directory + os.sep
        if not path.startswith(prefix) or len(path) == len(prefix):
            return None
        return path[len(prefix) :].replace(os.sep, "/")

    def _forget(self, file: str) -> None:
        if file == self.layout.index_name:
            self.index = None
        self.facts.pop(file, None)
        self.strays.pop(file, None)

    # -- everything

    def take_all(self) -> Generator[None, None, bool]:
        """List and read in slices; False when the directory is gone."""
        until = time.monotonic() + SLICE_S
        places = [("", self.directory, 0)]
        while places:
            prefix, place, depth = places.pop()
            listed = self._list(prefix, place)
            if listed is None:
                return False
            for entry in listed:
                file = prefix + entry.name
                if self.ignored(file):
                    self.strays[file] = Stray(file, "other-file")  # there, but none of ours
                    continue
                below = self._take_entry(entry, file)
                if below and depth < MAX_DEPTH:
                    places.append((file + "/", entry.path, depth + 1))
                if time.monotonic() > until:
                    yield
                    until = time.monotonic() + SLICE_S
        return True

    def _list(self, prefix: str, place: str) -> list[os.DirEntry[str]] | None:
        """List one directory; None when it is the memory directory itself and gone."""
        try:
            with os.scandir(system_path(place)) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return None if not prefix else []
        except OSError as error:
            if error.errno in _SCARCE:
                raise
            if not prefix and os.path.isfile(system_path(place)):
                return None  # Windows does not always say so by NotADirectoryError
            if not prefix:
                raise Unreadable(
                    f"{place} cannot be listed: {error.strerror}", hint="check its permissions"
                ) from error
            self._keep_unlisted(prefix)
            return []

    def _keep_unlisted(self, prefix: str) -> None:
        """Keep what was known below a directory that cannot be listed: unreadable is not gone."""
        self.strays[prefix[:-1]] = Stray(prefix[:-1], "unreadable-directory")
        if self.before:
            self.facts.update(
                {file: fact for file, fact in self.before.facts.items() if file.startswith(prefix)}
            )

    def _take_entry(self, entry: os.DirEntry[str], file: str) -> bool:
        """Take one directory entry; True when it is a directory to look into."""
        try:
            if entry.is_dir(follow_symlinks=False) and not (os.name == "nt" and entry_is_link(entry)):
                special = entry.name.endswith(self.layout.ending)
                self.strays[file] = Stray(file, "special" if special else "directory")
                return True
            if entry_is_link(entry) and os.path.isdir(system_path(entry.path)):
                self.strays[file] = Stray(file, "symlinked-directory")
                return False
            status = entry_stat(entry)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in _SCARCE:
                raise
            self._unsearchable(file)
            return False
        before = self.before
        kept: Fact | Index | None = None
        if before is not None:
            kept = before.index if file == self.layout.index_name else before.facts.get(file)
        # On Windows what was listed may bear the long form, which is the system's business alone.
        path = entry.path if os.name != "nt" else os.path.join(self.directory, *file.split("/"))
        if not self._held_back(path, file, status, named=False):
            self._take_file(path, file, status, kept, named=False)
        return False

    def _unsearchable(self, file: str) -> None:
        """Keep what was known of a file in a directory that can be listed but not entered."""
        folder = file.rpartition("/")[0]
        self.strays[folder] = Stray(folder, "unreadable-directory")
        self._restore(file)

    # -- one file

    def _held_back(self, path: str, file: str, status: os.stat_result, *, named: bool) -> bool:
        """Hold back what is not believed yet, and put what was known before in its place."""
        before = self.before
        is_index = file == self.layout.index_name
        if is_index and status.st_size == 0 and stat_bits.S_ISREG(status.st_mode):
            known_empty = before is not None and before.index is not None and before.index.stat.size == 0
            if not known_empty and not self.believe_empty(path, status.st_mtime_ns):
                self.index = before.index if before else None
                self.held.append(path)
                return True
        elif not named and self.settled_ns and file.endswith(self.layout.ending):
            age = time.time_ns() - status.st_mtime_ns
            if 0 <= age < self.settled_ns and not self._unchanged(file, status):
                self._restore(file)
                self.held.append(path)
                return True
        return False

    def _unchanged(self, file: str, status: os.stat_result) -> bool:
        if self.before is None:
            return False
        kept = self.before.index if file == self.layout.index_name else self.before.facts.get(file)
        return kept is not None and kept.stat == _stat_of(status)

    def _restore(self, file: str) -> None:
        if self.before is None:
            return
        if file == self.layout.index_name:
            self.index = self.before.index
        elif file in self.before.facts:
            self.facts[file] = self.before.facts[file]

    def _take_file(
        self, path: str, file: str, status: os.stat_result, kept: Fact | Index | None, *, named: bool
    ) -> None:
        name = file.rpartition("/")[2]
        if not name.endswith(self.layout.ending):
            self._take_stray(file, name, status)
            return
        if name == self.layout.index_name and file != name:
            self.strays[file] = Stray(file, "other-file", status.st_mtime_ns)  # neither index nor fact
            return
        symlink = stat_bits.S_ISLNK(status.st_mode)
        if symlink:
            try:
                status = os.stat(system_path(path))
            except OSError:
                self.strays[file] = Stray(file, "broken-link", status.st_mtime_ns)
                return
        if not stat_bits.S_ISREG(status.st_mode):
            self.strays[file] = Stray(file, "special", status.st_mtime_ns)
            return
        if not named and kept is not None and _still(kept, status):
            self._put(file, kept)
            return
        self._put(file, self._parse(path, file, status, symlink))

    def _take_stray(self, file: str, name: str, status: os.stat_result) -> None:
        if _TEMP_MARK in name:
            kind = "temp"
        elif name.endswith(".lock"):
            kind = "lock"
        else:
            kind = "other-file"
        self.strays[file] = Stray(file, kind, status.st_mtime_ns)

    def _put(self, file: str, taken: Fact | Index | None) -> None:
        if isinstance(taken, Fact):
            self.facts[file] = taken
        elif isinstance(taken, Index):
            self.index = taken

    def _parse(self, path: str, file: str, status: os.stat_result, symlink: bool) -> Fact | Index | None:
        is_index = file == self.layout.index_name
        now_ns = time.time_ns()
        try:
            content, stat = _read(path)
        except FileNotFoundError:
            return None
        except _NoRegularFile:
            self.strays[file] = Stray(file, "special", status.st_mtime_ns)
            return None
        except OSError as error:
            if error.errno in _SCARCE:
                raise
            reason = error.strerror or type(error).__name__
            if is_index:
                return unreadable_index(file, _stat_of(status), reason, read_at_ns=now_ns)
            return unreadable_fact(file, _stat_of(status), reason, read_at_ns=now_ns, symlink=symlink)
        self.read += 1
        if len(content) <= self.room:
            self.room -= len(content)
            self.contents[file] = content
        if is_index:
            return parse_index(file, content, stat, read_at_ns=now_ns, caps=self.layout.caps)
        return parse_fact(file, content, stat, read_at_ns=now_ns, symlink=symlink)


def _still(kept: Fact | Index, status: os.stat_result) -> bool:
    """Tell whether a file need not be read: same stat, and old enough then for the stat to tell."""
    was = kept.stat
    return (
        was.mtime_ns == status.st_mtime_ns
        and was.ctime_ns == status.st_ctime_ns
        and was.size == status.st_size
        and was.inode == status.st_ino
        and kept.read_at_ns - max(was.mtime_ns, was.ctime_ns) >= YOUNG_NS
    )


def _folds_case(directory: str) -> bool:
    """Tell whether the file system takes a name in other case for the same; asks by stat, writes nothing."""
    head, tail = os.path.split(directory.rstrip(os.sep))
    swapped = tail.swapcase()
    if swapped == tail:
        return False
    try:
        return os.path.samestat(os.stat(directory), os.stat(os.path.join(head, swapped)))
    except OSError:
        return False
