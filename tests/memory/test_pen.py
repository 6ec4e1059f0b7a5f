"""The pen on a real file system: old bytes or new ones, nobody's lost, nothing followed."""

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from zcsyncd.errors import NotFound, Refused, RevisionConflict, TooLarge, Unreadable, ZcsyncdError
from zcsyncd.memory import exchange, pen
from zcsyncd.memory.folder import CheckedFolder
from zcsyncd.memory.pen import Displaced, Pen, make_directory, temp_name
from zcsyncd.memory.revision import revision

try:
    import resource
except ImportError:  # Windows has none; the tests that need it are skipped there
    resource = None

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open for writing")


def _unsupported(*_):
    raise exchange.Unsupported


def _no_links(*_, **__):
    raise OSError(errno.EPERM, "Operation not permitted")


def without_exchange(monkeypatch):
    """Take away the renames that lose nothing, as an old kernel or file system does."""
    monkeypatch.setattr(exchange, "exchange", _unsupported)
    monkeypatch.setattr(exchange, "rename_new", _unsupported)


def without_links(monkeypatch):
    """Take hard links away too, as exFAT does."""
    without_exchange(monkeypatch)
    monkeypatch.setattr(os, "link", _no_links)


def by_path(monkeypatch):
    """Work as on Windows: names are checked, then used; no open file is renamed."""
    monkeypatch.setattr(pen, "Folder", CheckedFolder)


def at_step(monkeypatch, acts):
    """Have something done just after a step: `acts` maps names of steps to what is done, each once; give the steps."""
    seen = []
    acts = dict(acts)

    def step(name):
        seen.append(name)
        if name in acts:
            acts.pop(name)()

    monkeypatch.setattr(pen, "step", step)
    return seen


def replace_by_rename(path, content):
    """Write as ZCode does: beside it, then renamed over it."""
    beside = f"{path}.other"
    with open(beside, "wb") as file:
        file.write(content)
    os.replace(beside, path)


def rewrite_in_place(path, content):
    """Write as pi does: truncated in place."""
    with open(path, "wb") as file:
        file.write(content)


@pytest.fixture(params=[pytest.param(None, id="held"), by_path])
def either(request, monkeypatch):
    """Run the test twice: with directories that are held open, and as on Windows."""
    if request.param:
        request.param(monkeypatch)


@pytest.fixture
def memory(tmp_path):
    directory = tmp_path / "memory"
    directory.mkdir()
    (directory / "a.md").write_bytes(b"old\n")
    os.chmod(directory / "a.md", 0o640)
    return directory


def write(directory, file, content, *, expected="there", **how):
    with Pen(str(directory)) as it:
        if expected == "there":
            expected = it.read(file)
            assert expected is not None
        return it.replace(file, content, expected=expected, temp=temp_name(file), **how)


def act(it, how, expected, file="a.md"):
    """Replace or remove a file that is expected to be so."""
    if how == "remove":
        return it.remove(file, expected=expected, temp=temp_name(file))
    return it.replace(file, b"ours\n", expected=expected, temp=temp_name(file))


def names(directory):
    return sorted(os.listdir(directory))


# -- the plain way


@pytest.mark.parametrize("take", [None, without_exchange, by_path])
def test_replaces_a_file(memory, monkeypatch, take):
    """New bytes under the name, the mode kept, the stat told is that of the very file, no temp left."""
    if take:
        take(monkeypatch)
    told = write(memory, "a.md", b"new\n")
    status = os.stat(memory / "a.md")
    assert (memory / "a.md").read_bytes() == b"new\n"
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert (told.inode, told.mtime_ns, told.ctime_ns, told.size) == (
        status.st_ino,
        status.st_mtime_ns,
        status.st_ctime_ns,
        4,
    )
    assert names(memory) == ["a.md"]


@pytest.mark.parametrize("take", [None, without_exchange, without_links, by_path])
@pytest.mark.parametrize(("mode", "gets"), [(None, 0o600), (0o644, 0o644), (0o4755, 0o755)])
def test_creates_a_file(memory, monkeypatch, take, mode, gets):
    """A new file is private unless a mode is asked for; of a mode only the permission bits count."""
    if take:
        take(monkeypatch)
    old_mask = os.umask(0o077)
    try:
        told = write(memory, "b.md", b"new\n", expected=None, mode=mode)
    finally:
        os.umask(old_mask)
    status = os.stat(memory / "b.md")
    assert (memory / "b.md").read_bytes() == b"new\n"
    assert (stat.S_IMODE(status.st_mode), status.st_nlink) == (gets, 1)
    assert (told.inode, told.mtime_ns, told.ctime_ns) == (
        status.st_ino,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    assert names(memory) == ["a.md", "b.md"]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("content", [b"", b"\0\xff" * 100_000, b"x" * pen.MAX_BYTES], ids=len)
def test_any_bytes(memory, content):
    """Whatever the bytes, they lie there as they were given."""
    write(memory, "a.md", content)
    assert (memory / "a.md").read_bytes() == content
    with Pen(str(memory)) as it:
        assert it.read("a.md").content == content


def test_more_than_can_be_read_is_not_written(memory):
    """Over 5 MiB is refused: nobody could read it again."""
    with pytest.raises(TooLarge):
        write(memory, "a.md", b"x" * (pen.MAX_BYTES + 1))
    assert (memory / "a.md").read_bytes() == b"old\n"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("mtime_ns", [1_600_000_000_123_456_789, 0, 1])
def test_bears_the_time_that_is_asked_for(memory, mtime_ns):
    """A restored file gets its old mtime back, to the nanosecond, whether it is there or new."""
    assert write(memory, "a.md", b"as it was\n", mtime_ns=mtime_ns).mtime_ns == mtime_ns
    assert write(memory, "b.md", b"as it was\n", expected=None, mtime_ns=mtime_ns).mtime_ns == mtime_ns
    assert os.stat(memory / "a.md").st_mtime_ns == os.stat(memory / "b.md").st_mtime_ns == mtime_ns


def test_breaks_a_hard_link(memory, tmp_path):
    """The other name keeps the old bytes, as after a write of ZCode's."""
    os.link(memory / "a.md", tmp_path / "twin")
    write(memory, "a.md", b"new\n")
    assert (tmp_path / "twin").read_bytes() == b"old\n"
    assert (memory / "a.md").read_bytes() == b"new\n"


def test_a_reader_keeps_what_it_opened(memory):
    """Who had the old file open reads the old bytes to the end."""
    with open(memory / "a.md", "rb") as reader:
        write(memory, "a.md", b"new\n")
        assert reader.read() == b"old\n"


def test_writes_through_a_linked_memory_directory(memory, tmp_path):
    """The memory directory itself may be a symlink."""
    (tmp_path / "link").symlink_to(memory)
    write(tmp_path / "link", "a.md", b"new\n")
    assert (memory / "a.md").read_bytes() == b"new\n"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.usefixtures("either")
def test_removes_a_file(memory):
    """Gone, and what it was is given."""
    with Pen(str(memory)) as it:
        before = it.read("a.md")
        assert it.remove("a.md", expected=before, temp=temp_name("a.md")) == before
        assert it.read("a.md") is None
    assert names(memory) == []


@pytest.mark.usefixtures("either")
def test_makes_folders(memory):
    """The directories of a file that comes back are made, private; a second time is no error."""
    with Pen(str(memory)) as it:
        with pytest.raises(NotFound):
            it.replace("x/y/b.md", b"new\n", expected=None, temp=temp_name("x/y/b.md"))
        assert it.read("x/y/b.md") is None
        for _ in range(2):
            it.make_folders("x/y/b.md")
        it.replace("x/y/b.md", b"new\n", expected=None, temp=temp_name("x/y/b.md"))
        assert it.read("x/y/b.md").content == b"new\n"
    assert stat.S_IMODE(os.stat(memory / "x").st_mode) == 0o700
    assert names(memory / "x" / "y") == ["b.md"]


@pytest.mark.usefixtures("either")
def test_a_missing_folder_is_a_conflict_where_a_file_was_expected(memory):
    """A file that vanished with its directory is a conflict, not a creation."""
    (memory / "sub").mkdir()
    (memory / "sub" / "b.md").write_bytes(b"x")
    with Pen(str(memory)) as it:
        before = it.read("sub/b.md")
        os.unlink(memory / "sub" / "b.md")
        os.rmdir(memory / "sub")
        for attempt in (
            lambda: it.replace("sub/b.md", b"y", expected=before, temp=temp_name("b.md")),
            lambda: it.remove("sub/b.md", expected=before, temp=temp_name("b.md")),
        ):
            with pytest.raises(RevisionConflict) as told:
                attempt()
            assert told.value.data["revision"] is None


def test_make_directory(tmp_path, memory):
    """Made with its parents, all private; there already is no error; a file or a dangling link in the way is refused."""
    wanted = tmp_path / "p" / "q" / "memory"
    for _ in range(2):
        make_directory(str(wanted))
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (wanted, wanted.parent)] == [0o700, 0o700]
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for odd in (memory / "a.md", memory / "a.md" / "x", tmp_path / "dangling", "\0"):
        with pytest.raises(Refused):
            make_directory(str(odd))


# -- names and kinds that are refused

OUTSIDE = [
    "",
    "/etc/passwd",
    "../a.md",
    "x/../../a.md",
    "./a.md",
    "x//a.md",
    "x/",
    "a\0.md",
    "..",
    ".",
    "\ud800.md",
]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("file", OUTSIDE)
def test_refuses_names_that_lead_outside(memory, file):
    """Absolute, `..`, empty parts, zero characters, half characters: refused by every way in."""
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        for attempt in (
            lambda: it.read(file),
            lambda: it.replace(file, b"", expected=None, temp="t"),
            lambda: it.replace("a.md", b"", expected=known, temp=file),
            lambda: it.remove(file, expected=known, temp="t"),
            lambda: it.remove("a.md", expected=known, temp=file),
            lambda: it.make_folders(file),
        ):
            with pytest.raises(Refused):
                attempt()
    assert names(memory) == ["a.md"]


def make_symlink(path):
    os.symlink("a.md", path)


def make_dangling(path):
    os.symlink("nowhere", path)


def make_socket(path):
    here = os.getcwd()
    os.chdir(os.path.dirname(path))  # the path may be too long for a socket's address
    try:
        with socket.socket(socket.AF_UNIX) as it:
            it.bind(os.path.basename(path))
    finally:
        os.chdir(here)


ODD = [make_symlink, make_dangling, os.mkdir, getattr(os, "mkfifo", None), make_socket]


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("make", ODD)
def test_refuses_what_is_no_regular_file(memory, make):
    """A symlink, a directory, a pipe, a socket in the place: refused at once, left as it is."""
    make(str(memory / "b.md"))
    before = os.lstat(memory / "b.md")
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        for attempt in (
            lambda: it.read("b.md"),
            lambda: it.replace("b.md", b"x", expected=None, temp=temp_name("b.md")),
            lambda: it.replace("b.md", b"x", expected=known, temp=temp_name("b.md")),
            lambda: it.remove("b.md", expected=known, temp=temp_name("b.md")),
        ):
            with pytest.raises(Refused):
                attempt()
    assert os.path.samestat(before, os.lstat(memory / "b.md"))
    assert names(memory) == ["a.md", "b.md"]
    assert (memory / "a.md").read_bytes() == b"old\n"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("way", ["link", "file"])
def test_refuses_what_is_no_directory_on_the_way(memory, tmp_path, way):
    """A symlink, or a file, in the place of a directory below: nothing is read or written through it."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "b.md").write_bytes(b"theirs\n")
    if way == "link":
        (memory / "sub").symlink_to(victim)
    else:
        (memory / "sub").write_bytes(b"")
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        for attempt in (
            lambda: it.read("sub/b.md"),
            lambda: it.replace("sub/b.md", b"x", expected=known, temp=temp_name("b.md")),
            lambda: it.replace("sub/c.md", b"x", expected=None, temp=temp_name("c.md")),
            lambda: it.remove("sub/b.md", expected=known, temp=temp_name("b.md")),
            lambda: it.make_folders("sub/x/c.md"),
        ):
            with pytest.raises(Refused):
                attempt()
    assert names(victim) == ["b.md"]
    assert (victim / "b.md").read_bytes() == b"theirs\n"


@pytest.mark.usefixtures("either")
def test_too_large_and_missing(memory, tmp_path):
    """Over 5 MiB is unreadable; no directory is not-found; a file in its place is refused."""
    with open(memory / "big.md", "wb") as file:
        file.truncate(pen.MAX_BYTES + 1)
    with Pen(str(memory)) as it, pytest.raises(Unreadable):
        it.read("big.md")
    with pytest.raises(NotFound):
        Pen(str(tmp_path / "none"))
    for odd in (str(memory / "a.md"), "\0"):
        with pytest.raises(Refused):
            Pen(odd)


@pytest.mark.usefixtures("either")
def test_a_temp_name_that_is_taken_is_refused(memory):
    """The temporary file is made exclusively: what lies under its name, a link too, stays as it is."""
    (memory / "t").symlink_to("a.md")
    with pytest.raises(Refused), Pen(str(memory)) as it:
        it.replace("b.md", b"x", expected=None, temp="t")
    with pytest.raises(Refused), Pen(str(memory)) as it:
        it.remove("a.md", expected=it.read("a.md"), temp="t")
    assert names(memory) == ["a.md", "t"]
    assert (memory / "a.md").read_bytes() == b"old\n"


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("file", ["a.md", "sub/deep/b.md", "none/b.md", "a.md/b.md"])
def test_lets_go_of_what_it_opened(memory, file):
    """No descriptor is left open, whatever came of it."""
    (memory / "sub" / "deep").mkdir(parents=True)
    with Pen(str(memory)) as it:
        known = it.read("a.md")
    before = len(os.listdir("/dev/fd"))
    with Pen(str(memory)) as it:
        for attempt in (
            lambda: it.read(file),
            lambda: it.replace(file, b"x", expected=known, temp=temp_name(file)),
            lambda: it.replace(file, b"x", expected=None, temp=temp_name(file)),
            lambda: it.remove(file, expected=it.read(file) or known, temp=temp_name(file)),
            lambda: it.make_folders(file),
        ):
            with contextlib.suppress(ZcsyncdError):
                attempt()
    assert len(os.listdir("/dev/fd")) == before


# -- swapped while it is written


def test_a_directory_swapped_for_a_symlink_leads_nobody_out(memory, tmp_path):
    """While another swaps a directory for a link to a victim, as fast as it can, the victim is never written."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "b.md").write_bytes(b"theirs\n")
    (memory / "sub").mkdir()
    (memory / "sub" / "b.md").write_bytes(b"old\n")
    (memory / "link").symlink_to(victim)
    folder = os.open(memory, os.O_RDONLY)
    over = threading.Event()

    def swap():
        while not over.is_set():
            try:
                exchange.exchange(folder, "sub", "link")
            except exchange.Unsupported:
                os.rename(memory / "sub", memory / "away")
                os.rename(memory / "link", memory / "sub")
                os.rename(memory / "sub", memory / "link")
                os.rename(memory / "away", memory / "sub")

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    try:
        until = time.monotonic() + 1.5
        round_ = 0
        while time.monotonic() < until:
            round_ += 1
            with Pen(str(memory)) as it:
                for attempt in (
                    lambda it: it.replace(
                        "sub/b.md", b"ours\n", expected=it.read("sub/b.md"), temp=temp_name("b.md")
                    ),
                    lambda it, n=round_: it.replace(
                        f"sub/{n}.md", b"ours\n", expected=None, temp=temp_name("c.md")
                    ),
                    lambda it, n=round_: it.remove(
                        f"sub/{n}.md",
                        expected=it.read(f"sub/{n}.md") or it.read("a.md"),
                        temp=temp_name("c.md"),
                    ),
                ):
                    try:
                        attempt(it)
                        outcomes.add("written")
                    except (Refused, RevisionConflict, NotFound) as error:
                        outcomes.add(type(error).__name__)
    finally:
        over.set()
        thread.join()
        os.close(folder)
    assert {"written", "Refused"} <= outcomes
    assert names(victim) == ["b.md"]
    assert (victim / "b.md").read_bytes() == b"theirs\n"


def test_a_file_swapped_for_a_symlink_leads_nobody_out(memory, tmp_path):
    """While another swaps the file itself for a link, what the link names is neither read nor written."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"theirs\n")
    (memory / "b.md").symlink_to(victim)
    folder = os.open(memory, os.O_RDONLY)
    over = threading.Event()

    def swap():
        while not over.is_set():
            with contextlib.suppress(FileNotFoundError):
                exchange.exchange(folder, "a.md", "b.md")

    try:
        exchange.exchange(folder, "a.md", "b.md")
    except exchange.Unsupported:
        os.close(folder)
        pytest.skip("no renames that swap on this system")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            with Pen(str(memory)) as it, contextlib.suppress(Refused, RevisionConflict):
                known = it.read("a.md")
                if known is None:
                    continue
                assert known.content != b"theirs\n"
                it.replace("a.md", b"ours\n", expected=known, temp=temp_name("a.md"))
    finally:
        over.set()
        thread.join()
        os.close(folder)
    assert victim.read_bytes() == b"theirs\n"
    # A link that came out of its place and could not go back is kept under a name of its own.
    assert {name.partition(".")[0] for name in names(memory)} <= {"a", "b", "kept"}
    assert not [name for name in names(memory) if ".tmp." in name]


# -- somebody else writes


def touch_only(path, content):
    del content
    os.utime(path, ns=(5, 5))


def same_size_and_time(path, content):
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.write(content[:1])
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))


CHANGES = [replace_by_rename, rewrite_in_place, touch_only, same_size_and_time]


@pytest.mark.parametrize("take", [None, without_exchange, by_path])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_a_conflict(memory, monkeypatch, change, take):
    """Any change since it was read, be it before the write or while it is written, is a conflict with today's revision."""
    if take:
        take(monkeypatch)
    path = memory / "a.md"
    with Pen(str(memory)) as it:
        for moment in (None, "temp-made", "synced"):
            path.write_bytes(b"old\n")
            known = it.read("a.md")
            if moment:
                at_step(monkeypatch, {moment: lambda: change(path, b"theirs\n")})
            else:
                change(path, b"theirs\n")
            with pytest.raises(RevisionConflict) as told:
                it.replace("a.md", b"ours\n", expected=known, temp=temp_name("a.md"))
            status = os.stat(path)
            assert told.value.data["revision"] == revision(status.st_mtime_ns, status.st_size)
            assert b"ours" not in path.read_bytes()
            assert names(memory) == ["a.md"]


@pytest.mark.parametrize("change", CHANGES)
def test_what_came_between_the_last_look_and_the_rename_is_put_back(memory, monkeypatch, change):
    """Changed after the comparison: the other's file lies in its place again, untouched, and it is a conflict."""
    _needs_exchange(memory)
    path = memory / "a.md"
    seen = at_step(monkeypatch, {"compared": lambda: change(path, b"theirs\n")})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(RevisionConflict) as told:
            it.replace("a.md", b"ours\n", expected=known, temp=temp_name("a.md"))
    assert seen[-3:] == ["exchanged", "exchanged-back", "temp-gone"]
    assert not isinstance(told.value, Displaced)
    status = os.stat(path)
    assert told.value.data["revision"] == revision(status.st_mtime_ns, status.st_size)
    assert b"ours" not in path.read_bytes()
    assert names(memory) == ["a.md"]


def _needs_exchange(memory):
    (memory / "x").write_bytes(b"")
    (memory / "y").write_bytes(b"")
    folder = os.open(memory, os.O_RDONLY)
    try:
        exchange.exchange(folder, "x", "y")
    except exchange.Unsupported:
        pytest.skip("no renames that swap on this system")
    finally:
        os.close(folder)
        os.unlink(memory / "x")
        os.unlink(memory / "y")


@pytest.mark.parametrize("how", ["replace", "remove"])
@pytest.mark.parametrize("make", ODD)
def test_what_is_no_file_is_put_back_too(memory, monkeypatch, make, how):
    """A link, a directory, a pipe that took the place after the comparison lies there again, as it was."""
    _needs_exchange(memory)
    path = str(memory / "a.md")
    made = []

    def take_place():
        os.unlink(path)
        make(path)
        made.append(os.lstat(path))

    at_step(monkeypatch, {"compared": take_place})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(RevisionConflict) as told:
            act(it, how, known)
    assert told.value.data["revision"] is None
    assert os.path.samestat(os.lstat(path), made[0])
    assert names(memory) == ["a.md"]


@pytest.mark.parametrize("second", [replace_by_rename, rewrite_in_place])
def test_two_others_in_the_window_the_newest_stays_the_other_is_handed_over(memory, monkeypatch, second):
    """One writer's file came out, and another wrote over ours meanwhile: the newest lies there, the older is in hand."""
    _needs_exchange(memory)
    path = memory / "a.md"
    at_step(
        monkeypatch,
        {
            "compared": lambda: replace_by_rename(path, b"first\n"),
            "exchanged": lambda: second(path, b"second\n"),
        },
    )
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            it.replace("a.md", b"ours\n", expected=known, temp=temp_name("a.md"))
    assert told.value.aside.content == b"first\n"
    assert path.read_bytes() == b"second\n"
    assert told.value.data["revision"] == revision(os.stat(path).st_mtime_ns, 7)
    assert names(memory) == ["a.md"]


def test_three_others_in_the_window(memory, monkeypatch):
    """Each time something newer comes out it goes back: the newest lies there, the one before is in hand."""
    _needs_exchange(memory)
    path = memory / "a.md"
    at_step(
        monkeypatch,
        {
            "compared": lambda: replace_by_rename(path, b"first\n"),
            "exchanged": lambda: replace_by_rename(path, b"second\n"),
            "exchanged-back": lambda: replace_by_rename(path, b"third\n"),
        },
    )
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            act(it, "replace", known)
    # The third was written over the first, by somebody who saw that: no loss of ours.
    assert (path.read_bytes(), told.value.aside.content) == (b"third\n", b"second\n")
    assert names(memory) == ["a.md"]


def test_a_writer_that_never_rests(memory, monkeypatch):
    """One who writes after every step of ours: it ends all the same, with nothing of ours, and two of his at hand."""
    _needs_exchange(memory)
    path = memory / "a.md"
    written = []

    def step(name):
        if name in ("compared", "exchanged", "exchanged-back"):
            written.append(b"%d\n" % len(written))
            replace_by_rename(path, written[-1])

    monkeypatch.setattr(pen, "step", step)
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            act(it, "replace", known)
    assert len(written) == pen.ROUNDS + 2
    assert {path.read_bytes(), told.value.aside.content} <= set(written[-2:])
    assert names(memory) == ["a.md"]


def test_removed_while_a_swap_is_taken_back(memory, monkeypatch):
    """The name was removed after the swap: it stays removed, and what had come out is in hand."""
    _needs_exchange(memory)
    path = memory / "a.md"
    at_step(
        monkeypatch,
        {"compared": lambda: replace_by_rename(path, b"theirs\n"), "exchanged": lambda: os.unlink(path)},
    )
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            act(it, "replace", known)
    assert told.value.aside.content == b"theirs\n"
    assert told.value.data["revision"] is None
    assert names(memory) == []


@pytest.mark.parametrize(("how", "later"), [("replace", "exchanged"), ("remove", "set-aside")])
def test_somebody_sweeps_the_temp_under_us(memory, monkeypatch, how, later):
    """The temporary name vanished while another's file lay under it: a conflict, never a write told as done."""
    _needs_exchange(memory)

    def sweep_it():
        [temp] = [name for name in names(memory) if ".tmp." in name]
        os.unlink(memory / temp)

    at_step(monkeypatch, {later: sweep_it})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(RevisionConflict):
            act(it, how, known)


def test_a_claim_is_given_up_when_the_rename_fails(memory, monkeypatch):
    """Without links: the name that was taken by an empty file is free again, and the failure is told."""
    without_links(monkeypatch)

    def failing(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    at_step(monkeypatch, {"claimed": lambda: monkeypatch.setattr(os, "rename", failing)})
    with pytest.raises(Refused) as told:
        write(memory, "b.md", b"ours\n", expected=None)
    assert told.value.data["reason"] == "EIO"
    assert names(memory) == ["a.md"]


@pytest.mark.parametrize(("how", "later"), [("replace", "exchanged"), ("remove", "set-aside")])
def test_what_cannot_go_back_nor_be_read_stays_on_the_disk(memory, monkeypatch, how, later):
    """A directory that came out while the name was taken again lies beside it, and the hint says where."""
    _needs_exchange(memory)
    path = memory / "a.md"

    def a_directory():
        os.unlink(path)
        os.mkdir(path)
        (path / "inside").write_bytes(b"theirs\n")

    at_step(monkeypatch, {"compared": a_directory, later: lambda: replace_by_rename(path, b"second\n")})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            act(it, how, known)
    assert told.value.aside is None
    [kept] = [name for name in names(memory) if name != "a.md"]
    assert kept in told.value.hint
    assert not kept.endswith(".md")
    assert (memory / kept / "inside").read_bytes() == b"theirs\n"
    assert path.read_bytes() == b"second\n"


@pytest.mark.parametrize(
    ("how", "moment", "take"),
    [
        ("replace", "synced", None),
        ("replace", "compared", None),
        ("replace", "synced", without_exchange),  # later is the window that stays open without a swap
        ("remove", "compared", None),
        ("remove", "compared", without_exchange),
        ("remove", "compared", without_links),
        ("replace", "synced", by_path),
        ("remove", "compared", by_path),
    ],
)
def test_a_file_that_vanished_is_a_conflict_not_a_creation(memory, monkeypatch, how, moment, take):
    """Removed by another under the write: it stays removed."""
    if take:
        take(monkeypatch)
    elif moment == "compared":
        _needs_exchange(memory)
    at_step(monkeypatch, {moment: lambda: os.unlink(memory / "a.md")})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(RevisionConflict) as told:
            act(it, how, known)
    assert told.value.data["revision"] is None
    assert names(memory) == []


@pytest.mark.parametrize(
    ("take", "moment"),
    [
        *(
            (take, moment)
            for take in (None, without_exchange, without_links)
            for moment in ("synced", "compared")
        ),
        (without_links, "claimed"),
    ],
)
def test_a_file_that_appears_is_not_overwritten(memory, monkeypatch, take, moment):
    """A new file whose name is taken meanwhile, up to the very rename: theirs stays, ours is a conflict."""
    if take:
        take(monkeypatch)
    path = memory / "b.md"
    at_step(monkeypatch, {moment: lambda: replace_by_rename(path, b"theirs\n")})
    with pytest.raises(RevisionConflict) as told:
        write(memory, "b.md", b"ours\n", expected=None)
    assert told.value.data["revision"] == revision(os.stat(path).st_mtime_ns, 7)
    assert path.read_bytes() == b"theirs\n"
    assert names(memory) == ["a.md", "b.md"]


def test_a_claim_that_somebody_writes_into_is_theirs(memory, monkeypatch):
    """Without links a name is taken by an empty file: who writes into that keeps what he wrote."""
    without_links(monkeypatch)
    at_step(monkeypatch, {"claimed": lambda: rewrite_in_place(memory / "b.md", b"theirs\n")})
    with pytest.raises(RevisionConflict):
        write(memory, "b.md", b"ours\n", expected=None)
    assert (memory / "b.md").read_bytes() == b"theirs\n"
    assert names(memory) == ["a.md", "b.md"]


@pytest.mark.parametrize("take", [None, without_exchange, without_links, by_path])
@pytest.mark.parametrize("change", CHANGES)
def test_a_removal_puts_back_what_it_did_not_expect(memory, monkeypatch, change, take):
    """Changed after the comparison: the file lies in its place again, and it is a conflict."""
    if take:
        take(monkeypatch)
    path = memory / "a.md"
    at_step(monkeypatch, {"compared": lambda: change(path, b"theirs\n")})
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(RevisionConflict) as told:
            it.remove("a.md", expected=known, temp=temp_name("a.md"))
    status = os.stat(path)
    assert told.value.data["revision"] == revision(status.st_mtime_ns, status.st_size)
    assert names(memory) == ["a.md"]


@pytest.mark.parametrize("take", [None, without_exchange, without_links, by_path])
def test_a_removal_never_overwrites_a_newer_file(memory, monkeypatch, take):
    """The name was taken again before it could go back: the newer stays, the one taken away is handed over."""
    if take:
        take(monkeypatch)
    path = memory / "a.md"
    at_step(
        monkeypatch,
        {
            "compared": lambda: replace_by_rename(path, b"first\n"),
            "set-aside": lambda: replace_by_rename(path, b"second\n"),
        },
    )
    with Pen(str(memory)) as it:
        known = it.read("a.md")
        with pytest.raises(Displaced) as told:
            it.remove("a.md", expected=known, temp=temp_name("a.md"))
    assert told.value.aside.content == b"first\n"
    assert path.read_bytes() == b"second\n"
    assert names(memory) == ["a.md"]


@linux
@pytest.mark.parametrize(
    ("how", "moment"),
    [
        ("replace", None),
        ("replace", "compared"),
        ("replace", "exchanged"),
        ("remove", None),
        ("remove", "compared"),
        ("remove", "set-aside"),
    ],
)
def test_a_file_that_is_being_written_is_not_taken_away(memory, monkeypatch, how, moment):
    """Somebody has it open for writing: what he writes next still goes into the file under the name."""
    _needs_exchange(memory)
    with contextlib.ExitStack() as stack:
        writers = []

        def open_it():
            # Out of its place it bears the temporary name: there it is as if it had been opened just before.
            [old] = [name for name in names(memory) if (memory / name).read_bytes() == b"old\n"]
            writers.append(stack.enter_context(open(memory / old, "ab")))

        if moment is None:
            open_it()
        else:
            at_step(monkeypatch, {moment: open_it})
        with Pen(str(memory)) as it:
            known = it.read("a.md")
            with pytest.raises(RevisionConflict):
                act(it, how, known)
        writers[0].write(b"more\n")
    assert (memory / "a.md").read_bytes() == b"old\nmore\n"
    assert names(memory) == ["a.md"]


@linux
def test_a_short_writer_is_waited_for(memory, monkeypatch):
    """A writer in the midst of truncate-and-write is given its moment: the revision told is the whole file's."""
    path = memory / "a.md"
    with contextlib.ExitStack() as stack:

        def begin():
            writer = open(path, "wb")  # noqa: SIM115 - the timer closes it
            timer = threading.Timer(0.02, lambda: (writer.write(b"whole\n"), writer.close()))
            stack.callback(timer.join)
            timer.start()

        at_step(monkeypatch, {"synced": begin})
        monkeypatch.setattr(pen, "WRITER_WAIT_S", 10.0)
        with pytest.raises(RevisionConflict) as told:
            write(memory, "a.md", b"ours\n")
    assert told.value.data["revision"] == revision(os.stat(path).st_mtime_ns, 6)


# -- many at once

COUNTING = """
import sys
from zcsyncd.errors import RevisionConflict
from zcsyncd.memory.pen import Pen, temp_name

done = lost = 0
while done < int(sys.argv[2]):
    with Pen(sys.argv[1]) as it:
        known = it.read("n")
        try:
            it.replace("n", b"%d" % (int(known.content) + 1), expected=known, temp=temp_name("n"))
            done += 1
        except RevisionConflict:  # Displaced too: then the other has counted on from ours, and ours counts for his
            lost += 1
print(lost)
"""


def test_two_processes_that_count_lose_nothing(memory):
    """Two processes add one to a number in a file, each 300 times, reading anew at a conflict: it ends at 600."""
    _needs_exchange(memory)
    (memory / "n").write_bytes(b"0")
    both = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTING, str(memory), "300"], stdout=subprocess.PIPE, cwd=os.getcwd()
        )
        for _ in range(2)
    ]
    conflicts = [int(each.communicate(timeout=50)[0]) for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert sum(conflicts) > 0, "they never met"
    assert (memory / "n").read_bytes() == b"600"
    assert names(memory) == ["a.md", "n"]


def test_of_many_who_make_one_name_exactly_one_does(memory):
    """Two hundred creations of one name by eight processes: one is the maker, all others see a conflict."""
    made = memory / "made"
    made.mkdir()
    gate_out, gate_in = os.pipe()
    children = []
    for child in range(8):
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.close(gate_in)
                os.read(gate_out, 1)  # all begin when the gate is closed
                code = 0
                for turn in range(25):
                    with Pen(str(memory)) as it:
                        try:
                            it.replace(
                                "one.md", b"%d %d" % (child, turn), expected=None, temp=temp_name("one.md")
                            )
                            code += 1
                        except RevisionConflict:
                            pass
            except BaseException:
                code = 71
            finally:
                os._exit(code)
        children.append(pid)
    os.close(gate_out)
    os.close(gate_in)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [0] * 7 + [1]
    winner = codes.index(1)
    assert (memory / "one.md").read_bytes().startswith(b"%d " % winner)
    assert names(memory) == ["a.md", "made", "one.md"]


# -- the system refuses


def test_a_full_disk_leaves_the_old_file_whole(tmp_path):
    """No space: an error that says so and names the file; the old bytes, and no temp."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        (place / "a.md").write_bytes(b"old\n")
        for file, expected in (("a.md", "there"), ("b.md", None)):
            with pytest.raises(Refused) as told:
                write(place, file, b"x" * 200_000, expected=expected)
            assert str(place / file) in told.value.message
            assert "No space left" in told.value.message
            assert told.value.data["reason"] == "ENOSPC"
            assert told.value.hint
        assert (place / "a.md").read_bytes() == b"old\n"
        assert names(place) == ["a.md"]
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.usefixtures("either")
def test_a_limit_on_file_size_leaves_the_old_file_whole(memory, as_ordinary_user):
    """The same where a file may not grow: said, the old bytes, no temp."""

    def check():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        for file, expected in (("a.md", "there"), ("b.md", None)):
            with pytest.raises(Refused) as told:
                write(memory, file, b"x" * 5000, expected=expected)
            assert told.value.data["reason"] == "EFBIG"
        assert (memory / "a.md").read_bytes() == b"old\n"
        assert names(memory) == ["a.md"]

    as_ordinary_user(check, memory)


@pytest.mark.usefixtures("either")
def test_a_directory_that_may_not_be_written(memory, as_ordinary_user):
    """Permission refused: said with the path and what to do; nothing changed."""

    def check():
        os.chmod(memory, 0o500)
        with Pen(str(memory)) as it:
            known = it.read("a.md")
            for attempt in (
                lambda: it.replace("a.md", b"x", expected=known, temp=temp_name("a.md")),
                lambda: it.replace("b.md", b"x", expected=None, temp=temp_name("b.md")),
                lambda: it.remove("a.md", expected=known, temp=temp_name("a.md")),
                lambda: it.make_folders("sub/b.md"),
                lambda: make_directory(str(memory / "sub")),
            ):
                with pytest.raises(Refused) as told:
                    attempt()
                assert told.value.data["reason"] == "EACCES"
                assert str(memory) in told.value.message
                assert told.value.hint
        assert (memory / "a.md").read_bytes() == b"old\n"
        assert names(memory) == ["a.md"]
        os.chmod(memory, 0o300)
        if pen.Folder is not CheckedFolder:  # that one opens no directory
            with pytest.raises(Unreadable):
                Pen(str(memory))
        os.chmod(memory, 0o700)
        os.chmod(memory / "a.md", 0)
        with pytest.raises(Unreadable):
            write(memory, "a.md", b"x")
        os.mkdir(memory / "sub", 0)
        with pytest.raises(Refused):
            write(memory, "sub/b.md", b"x", expected=None)
        os.chmod(memory, 0o600)  # its names may be read, what bears them may not
        with Pen(str(memory)) as it:
            for file in ("a.md", "sub/b.md", "none/b.md"):
                with pytest.raises(Refused):
                    it.read(file)
                with pytest.raises(Refused):
                    it.replace(file, b"x", expected=None, temp=temp_name(file))

    as_ordinary_user(check, memory)


@pytest.mark.usefixtures("either")
def test_a_name_that_is_too_long(memory):
    """A name that no disk holds is told as such; one that just fits can be written, its temp cut to fit."""
    with pytest.raises(Refused) as told:
        write(memory, "n" * 256, b"x", expected=None)
    assert told.value.data["reason"] == "ENAMETOOLONG"
    assert "shorter" in told.value.hint
    with Pen(str(memory)) as it:
        for file in ("n" * 256, "n" * 256 + "/a.md", "n/" * 4000 + "a.md"):
            with contextlib.suppress(Unreadable):
                assert it.read(file) is None
    for name in ("n" * 255, "é" * 127):
        assert len(temp_name(name).encode()) <= 255
        write(memory, name, b"x", expected=None)
        write(memory, name, b"y")
        assert (memory / name).read_bytes() == b"y"


@pytest.mark.usefixtures("either")
def test_a_memory_directory_that_goes_away_meanwhile(tmp_path):
    """Removed while the pen is open: not-found for a new file, a conflict for one that was expected."""
    directory = tmp_path / "memory"
    directory.mkdir()
    (directory / "a.md").write_bytes(b"old\n")
    with Pen(str(directory)) as it:
        known = it.read("a.md")
        os.unlink(directory / "a.md")
        os.rmdir(directory)
        with pytest.raises(NotFound):
            it.replace("b.md", b"x", expected=None, temp=temp_name("b.md"))
        with pytest.raises(RevisionConflict):
            it.replace("a.md", b"x", expected=known, temp=temp_name("a.md"))
        with pytest.raises(RevisionConflict):
            it.remove("a.md", expected=known, temp=temp_name("a.md"))
        with pytest.raises(NotFound):
            it.make_folders("sub/a.md")
    assert not directory.exists()


def test_a_disk_that_does_not_confirm_is_told(memory, monkeypatch):
    """The names could not be synced: the write is told as done and not confirmed, never as not done."""
    real = os.fsync

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(ZcsyncdError) as told:
        write(memory, "a.md", b"new\n")
    assert told.value.data["written"] is True
    assert (memory / "a.md").read_bytes() == b"new\n"


@pytest.mark.usefixtures("either")
def test_a_file_that_cannot_be_synced_is_not_put_in_place(memory, monkeypatch):
    """The bytes could not be brought to the disk: the old file stays, and it is said."""

    def failing(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(Refused) as told:
        write(memory, "a.md", b"new\n")
    assert told.value.data["reason"] == "EIO"
    assert (memory / "a.md").read_bytes() == b"old\n"
    assert names(memory) == ["a.md"]
