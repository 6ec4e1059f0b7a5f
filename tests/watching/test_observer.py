"""watchdog as we use it: the names that are not promised, and the quirks that are mended."""

from __future__ import annotations

import os
import select
import shutil
import struct
import sys
from importlib.metadata import version

import pytest

from zcsyncd.watching import linux
from zcsyncd.watching.observer import Kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Listener:
    """Notes what the kernel reader says."""

    def __init__(self):
        self.events = []
        self.deleted = []
        self.overflows = 0

    def on_event(self, event):
        self.events.append((event.wd, event.mask, event.name))

    def on_entry(self, wd, mask, cookie, name):
        self.events.append((wd, mask, name))

    def on_watch_deleted(self, wd):
        self.deleted.append(wd)

    def on_queue_overflow(self):
        self.overflows += 1


@pytest.fixture
def kernel():
    """Give a kernel reader and who listens to it."""
    listener = Listener()
    it = Kernel(listener)
    yield it, listener
    it.close()


def _drained(kernel):
    while select.select([kernel], [], [], 0)[0]:
        kernel.drain()


def test_watchdog_still_has_the_private_names_that_are_used():
    """A new watchdog that renames them fails here, by name, and not in the field."""
    from watchdog.observers.inotify_c import InotifyFD

    reader = InotifyFD()
    said = f"watchdog {version('watchdog')} changed InotifyFD: see Kernel.__init__ in zcsyncd/watching/observer.py"
    assert isinstance(getattr(reader, "_inotify_fd", None), int), said
    assert getattr(reader, "_is_reading", None) is True, said
    assert list(reader._parse_event_buffer(struct.pack("iIII", 7, 8, 9, 16) + b"name".ljust(16, b"\0"))) == [
        (7, 8, 9, b"name")
    ], said
    reader._is_reading = False
    descriptor = reader._inotify_fd
    reader.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_closing_gives_back_every_descriptor(tmp_path):
    """Whether something was read or not, nothing stays open."""
    before = len(os.listdir("/proc/self/fd"))
    for read in (False, True):
        kernel = Kernel(Listener())
        kernel.add(str(tmp_path), linux.INSIDE)
        if read:
            (tmp_path / "x").touch()
            _drained(kernel)
        assert len(os.listdir("/proc/self/fd")) > before
        kernel.close()
        assert len(os.listdir("/proc/self/fd")) == before


def test_the_descriptor_is_not_inherited(kernel):
    """A child process does not keep our instance alive."""
    assert not os.get_inheritable(kernel[0].fileno())


def test_a_directory_watched_twice_gives_one_number_and_each_event_once(kernel, tmp_path):
    """Adding anew is harmless: so a rescan can do it, without a warning of watchdog's."""
    it, listener = kernel
    first = it.add(str(tmp_path), linux.INSIDE)
    assert it.add(str(tmp_path), linux.ABOVE) == first
    (tmp_path / "x").touch()
    _drained(it)
    assert [event for event in listener.events if event[1] == linux.CREATE] == [(first, linux.CREATE, b"x")]
    it.drop(first)
    it.drop(first)
    listener.events.clear()
    (tmp_path / "y").touch()
    _drained(it)
    assert listener.events == []


def test_a_directory_made_again_gives_another_number(kernel, tmp_path):
    """The number tells whether a path still leads to the same directory, also where the inode is used again."""
    it, listener = kernel
    place = tmp_path / "d"
    place.mkdir()
    first = it.add(str(place), linux.INSIDE)
    shutil.rmtree(place)
    place.mkdir()
    assert it.add(str(place), linux.INSIDE) != first
    _drained(it)
    assert listener.deleted == [first]


@pytest.mark.parametrize("what", ["missing", "file", "link"])
def test_what_is_no_directory_cannot_be_watched(what, kernel, tmp_path):
    """Missing, a file, or a link where none is followed: an error of the system's, told as such."""
    path = tmp_path / what
    if what == "file":
        path.touch()
    elif what == "link":
        path.symlink_to(tmp_path)
    with pytest.raises(OSError):
        kernel[0].add(str(path), linux.INSIDE | linux.DONT_FOLLOW)


def test_a_refused_permission_is_raised(as_ordinary_user, tmp_path):
    """A permission that watchdog passes over in silence is an error here."""
    place = tmp_path / "closed"
    place.mkdir()
    place.chmod(0)
    kernel = Kernel(Listener())

    def check():
        with pytest.raises(PermissionError):
            kernel.add(str(place), linux.INSIDE)

    as_ordinary_user(check, place)
    kernel.close()
    place.chmod(0o700)


def test_a_burst_is_taken_in_slices(kernel, tmp_path, monkeypatch):
    """One call hands on what fits into its slice of time, and the rest stays in the kernel."""
    it, listener = kernel
    monkeypatch.setattr("zcsyncd.watching.observer.SLICE_S", 0.0)
    it.add(str(tmp_path), linux.INSIDE)
    with (tmp_path / "a").open("wb", 0) as one, (tmp_path / "b").open("wb", 0) as other:
        for _ in range(2000):
            one.write(b"x")
            other.write(b"x")
    it.drain()
    assert 0 < len(listener.events) < 1000
    _drained(it)
    assert len(listener.events) >= 4000
