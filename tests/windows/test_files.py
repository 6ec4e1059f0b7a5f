"""Files on Windows: reading is in nobody's way, writing waits for others a while, long paths and odd names work."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from zcsyncd.bus.endpoint import Endpoint, read_endpoint, write_endpoint
from zcsyncd.daemon.lock import NAME, hold_lock
from zcsyncd.errors import AlreadyRunning, Refused, Unreadable
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory import folder
from zcsyncd.memory.disk import read_file, read_snapshot, shows_changes
from zcsyncd.memory.folder import CheckedFolder, not_written
from zcsyncd.memory.holders import holders
from zcsyncd.memory.locks import lives, living_lock
from zcsyncd.memory.pen import Pen, make_directory, temp_name
from zcsyncd.opening import LONG_FROM, long_form, open_to_read

FACT = "---\nname: {0}\ndescription: about {0}\ntype: project\n---\n\nbody\n"


def put(path, text):
    """Write a file as it is, without the system's line ends."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


# --- reading -------------------------------------------------------------------------------------------------------


def test_an_open_file_can_be_renamed_and_deleted(tmp_path):
    """While we read, other programs do with the file what they like."""
    put(tmp_path / "a.md", "one")
    descriptor = open_to_read(str(tmp_path / "a.md"))
    os.rename(tmp_path / "a.md", tmp_path / "b.md")
    os.unlink(tmp_path / "b.md")
    assert os.read(descriptor, 10) == b"one"
    os.close(descriptor)


def test_bytes_come_as_they_are(tmp_path):
    """No line end is changed, and a Ctrl-Z does not end the file."""
    content = b"a\r\nb\n\x1ac\r\n"
    (tmp_path / "a.md").write_bytes(content)
    assert read_file(str(tmp_path), "a.md")[0] == content


def test_no_descriptor_is_left(tmp_path):
    """A thousand readings, and the file can still be opened for oneself alone."""
    put(tmp_path / "a.md", "x")
    for _ in range(1000):
        os.close(open_to_read(str(tmp_path / "a.md"), follow=False))
    with pytest.raises(FileNotFoundError):
        open_to_read(str(tmp_path / "none.md"))
    os.unlink(tmp_path / "a.md")


def test_a_scan_of_what_has_not_changed_reads_nothing(tmp_path):
    """Listed stats are those of the opened files: an unchanged directory shows no change."""
    put(tmp_path / "a.md", FACT.format("a"))
    put(tmp_path / "MEMORY.md", "- [a](a.md) — about a\n")
    before = read_snapshot(str(tmp_path), ZCODE)
    assert not shows_changes(before, ZCODE, lambda _: False)
    put(tmp_path / "a.md", FACT.format("ab"))
    assert shows_changes(before, ZCODE, lambda _: False)


def test_a_locked_file_is_a_fact_with_a_remark(tmp_path):
    """A file that another program keeps for itself is unreadable, and neither gone nor empty."""
    import _winapi

    put(tmp_path / "a.md", FACT.format("a"))
    alone = _winapi.CreateFile(str(tmp_path / "a.md"), 0xC0000000, 0, 0, 3, 0, 0)
    try:
        snapshot = read_snapshot(str(tmp_path), ZCODE)
        assert snapshot.facts["a.md"].malformed
        with pytest.raises(Unreadable):
            read_file(str(tmp_path), "a.md")
    finally:
        _winapi.CloseHandle(alone)
    assert read_snapshot(str(tmp_path), ZCODE).facts["a.md"].description == "about a"


@pytest.mark.parametrize(
    "file", ["C:\\Windows\\win.ini", "..\\a.md", "\\a.md", "C:a.md", "a.md:stream", "sub\\..\\..\\a.md"]
)
def test_paths_that_lead_out_are_refused(tmp_path, file):
    """Drives, streams, backslashes and steps up: nothing outside is read or written."""
    place = tmp_path / "m"
    place.mkdir()
    put(tmp_path / "a.md", "outside")
    with pytest.raises(Refused):
        read_file(str(place), file)
    with pytest.raises(Refused), Pen(str(place)) as pen:
        pen.replace(file, b"x", expected=None, temp=temp_name("a.md"))
    assert (tmp_path / "a.md").read_text() == "outside"
    assert os.listdir(place) == []


# --- long paths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("C:\\a\\b", "C:\\a\\b"),
        ("C:\\" + "a" * 250, "\\\\?\\C:\\" + "a" * 250),
        ("c:/" + "a/" * 130, "\\\\?\\c:\\" + "a\\" * 130),
        ("\\\\server\\share\\" + "a" * 250, "\\\\?\\UNC\\server\\share\\" + "a" * 250),
        ("\\\\?\\C:\\" + "a" * 250, "\\\\?\\C:\\" + "a" * 250),
        ("\\\\.\\pipe\\" + "a" * 250, "\\\\.\\pipe\\" + "a" * 250),
        ("a" * 300, "a" * 300),
    ],
)
def test_the_long_form(path, form):
    """Absolute paths from 248 characters on, and those of shares."""
    assert long_form(path) == form


@pytest.fixture
def deep(tmp_path):
    """Give a memory directory whose path is longer than Windows usually takes."""
    place = tmp_path
    while len(str(place)) < LONG_FROM + 40:
        place /= "a-directory-of-a-deep-project"
    make_directory(str(place))
    yield str(place)
    shutil.rmtree("\\\\?\\" + str(tmp_path / "a-directory-of-a-deep-project"))


def test_a_deep_directory_is_read_and_written(deep):
    """Index, facts and sub-directories beyond 260 characters; paths are told in their usual form."""
    with Pen(deep) as pen:
        for file, content in (("a.md", FACT.format("a").encode()), ("MEMORY.md", b"- [a](a.md)\n")):
            pen.replace(file, content, expected=None, temp=temp_name(file))
    snapshot = read_snapshot(deep, ZCODE)
    assert list(snapshot.facts) == ["a.md"]
    assert snapshot.directory == deep
    assert [entry.target for entry in snapshot.index.entries] == ["a.md"]
    assert read_file(deep, "a.md")[0] == FACT.format("a").encode()
    assert not shows_changes(snapshot, ZCODE, lambda _: False)


# --- writing -------------------------------------------------------------------------------------------------------


def pen_write(place, content):
    """Replace what lies there by the pen."""
    with Pen(str(place)) as pen:
        pen.replace("a.md", content, expected=pen.read("a.md"), temp=temp_name("a.md"))


def test_readers_see_whole_versions_only(tmp_path):
    """While the pen replaces a file again and again, each reading gives one of its versions, never a part."""
    versions = [bytes([65 + number]) * 5_000 for number in range(20)]
    pen_write(tmp_path, versions[0])
    seen, over = set(), threading.Event()

    def read():
        while not over.is_set():
            try:
                seen.add(read_file(str(tmp_path), "a.md")[0])
            except Exception as error:
                seen.add(repr(error).encode())
            time.sleep(0.002)

    reader = threading.Thread(target=read)
    reader.start()
    for version in versions[1:]:
        pen_write(tmp_path, version)
    over.set()
    reader.join()
    odd = {each for each in seen if each not in versions and b"NotFound" not in each}
    assert odd == set()
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_file_that_is_open_elsewhere_for_a_moment_is_waited_for(tmp_path):
    """A scanner that lets go after a third of a second keeps nobody from writing."""
    pen_write(tmp_path, b"one")
    held = open(tmp_path / "a.md", "rb")  # noqa: SIM115 - closed by the timer
    threading.Timer(0.3, held.close).start()
    pen_write(tmp_path, b"two")
    assert (tmp_path / "a.md").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_file_that_stays_open_elsewhere_is_left_as_it_is(tmp_path):
    """After two seconds it is said what to do; the file has its bytes, and nothing lies beside it."""
    pen_write(tmp_path, b"one")
    began = time.monotonic()
    with open(tmp_path / "a.md", "rb"):
        with pytest.raises(Refused) as refused:
            pen_write(tmp_path, b"two")
    assert 1 < time.monotonic() - began < 15
    assert "has it open" in refused.value.hint
    assert (tmp_path / "a.md").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.md"]


def test_who_has_it_open_is_named_where_windows_tells(tmp_path, monkeypatch):
    """The hint names programs, or says what kind of program it may be."""
    put(tmp_path / "a.md", "x")
    assert isinstance(holders(str(tmp_path / "a.md")), list)
    error = PermissionError(13, "Access is denied")
    monkeypatch.setattr(folder, "holders", lambda _: ["Notepad (pid 7)"])
    assert "Notepad (pid 7) has it open" in not_written(error, "C:\\m\\a.md").hint
    monkeypatch.setattr(folder, "holders", lambda _: [])
    assert "virus scanner" in not_written(error, "C:\\m\\a.md").hint


def test_a_case_change_of_a_name_is_no_second_file(tmp_path):
    """The file system takes `A.md` for `a.md`; the pen sees what lies there."""
    put(tmp_path / "A.md", "x")
    with contextlib.closing(CheckedFolder.open(str(tmp_path))) as place:
        assert place.read("a.md").existing.content == b"x"
    assert read_snapshot(str(tmp_path), ZCODE).folds_case


# --- locks ---------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from zcsyncd.daemon.lock import hold_lock
lock = hold_lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_one_daemon_per_state_directory(tmp_path):
    """Another process is kept out and told whose pid it is; when the holder is killed the lock is free."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline().strip() == b"held"
        with pytest.raises(AlreadyRunning) as told:
            hold_lock(str(tmp_path))
        assert told.value.data["pid"] == child.pid
    finally:
        child.kill()
        child.communicate()
    with hold_lock(str(tmp_path)):
        assert (tmp_path / NAME).read_text().strip() == str(os.getpid())


def test_within_one_process_too(tmp_path):
    """The same process gets it once."""
    with hold_lock(str(tmp_path)), pytest.raises(AlreadyRunning):
        hold_lock(str(tmp_path))
    hold_lock(str(tmp_path)).release()


def test_processes_live_or_not(tmp_path):
    """A lock with the pid of a process that has ended holds nothing up."""
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    assert lives(ended.pid)
    ended.wait()
    assert lives(os.getpid())
    put(tmp_path / "MEMORY.md.lock", str(os.getpid()))
    assert living_lock(str(tmp_path)) == str(tmp_path / "MEMORY.md.lock")
    os.unlink(tmp_path / "MEMORY.md.lock")


# --- the endpoint file ---------------------------------------------------------------------------------------------


def test_the_endpoint_file_holds_the_pipe(tmp_path):
    """Written whole, read back, as clients in other languages do."""
    made = Endpoint(
        r"\\.\pipe\zcsyncd-S-1-5-21-7",
        pid=7,
        host="h",
        started_at="2026-01-01T00:00:00Z",
        protocol=1,
        version="1",
    )
    write_endpoint(str(tmp_path), made)
    assert read_endpoint(str(tmp_path)) == made
    assert b"\r" not in (tmp_path / "endpoint.json").read_bytes()
    assert os.listdir(tmp_path) == ["endpoint.json"]
