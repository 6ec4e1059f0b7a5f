"""Locks in a memory directory: which of them live."""

import os
import subprocess
import sys
import time

import pytest

from zcsyncd.memory import locks
from zcsyncd.memory.locks import lives, living_lock, pid_in

DEAD = int(
    subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    ).stdout
)
ALIVE = os.getpid()
FIFO = (os.mkfifo,) if hasattr(os, "mkfifo") else ()
OLD_S = time.time() - 2 * locks.YOUNG_S


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        ("4711", 4711),
        ("4711\n", 4711),
        ('{"pid": 4711, "createdAt": 1700000000000}', 4711),
        ('{"createdAt": 17, "pid":4711}', 4711),
        ("pid=4711 host=x1", 4711),
        ("host7 PID: 4711", 4711),
        ("1700000000000 4711", 4711),
        ("user@host.4711:1700000000", 4711),
        ("", None),
        ("no number", None),
        ("1700000000000", None),
        ("0", None),
        ("-", None),
        ("9" * 5000, None),
        ("\ufffd\0 4711", 4711),
    ],
)
def test_pid_in(text, pid):
    """The pid that a lock names, however it is written; time stamps and huge numbers are none."""
    assert pid_in(text) == pid


@pytest.mark.parametrize(
    ("name", "content", "living"),
    [
        ("x.lock", "{pid}", {ALIVE: True, DEAD: False}),
        ("x.lock", '{{"pid": {pid}}}', {ALIVE: True, DEAD: False}),
        ("MEMORY.md.{pid}.lock", "", {ALIVE: True, DEAD: False}),
        ("{pid}.lock", "nothing", {ALIVE: True, DEAD: False}),
        (".hidden.lock", "{pid}", {ALIVE: True, DEAD: False}),
        ("x.lock.md", "{pid}", {ALIVE: False, DEAD: False}),
        ("x.locked", "{pid}", {ALIVE: False, DEAD: False}),
    ],
)
def test_a_lock_lives_with_its_pid(tmp_path, name, content, living):
    """Young or old: the pid decides; only `*.lock` counts."""
    for pid, lives_on in living.items():
        path = tmp_path / name.format(pid=pid)
        path.write_text(content.format(pid=pid))
        os.utime(path, (OLD_S, OLD_S))
        assert living_lock(str(tmp_path)) == (str(path) if lives_on else None)
        os.utime(path)
        assert living_lock(str(tmp_path)) == (str(path) if lives_on else None)
        path.unlink()


def test_a_link_may_name_the_pid(tmp_path):
    """A lock made as a symlink, whose target names host and pid."""
    for pid in (ALIVE, DEAD):
        (tmp_path / "x.lock").symlink_to(f"me@host.{pid}")
        assert (living_lock(str(tmp_path)) is not None) is (pid == ALIVE)
        (tmp_path / "x.lock").unlink()


@pytest.mark.parametrize("make", [os.mkdir, *FIFO, lambda path: open(path, "wb").close()])
@pytest.mark.parametrize(
    ("age_s", "living"), [(0, True), (500, True), (700, False), (-10, True), (-700, False)]
)
def test_without_a_pid_the_age_decides(tmp_path, make, age_s, living):
    """An empty file, a directory, a pipe: held while younger than ten minutes; a far future is no sign of life."""
    path = str(tmp_path / "x.lock")
    make(path)
    stamp = time.time() - age_s
    os.utime(path, (stamp, stamp))
    assert living_lock(str(tmp_path)) == (path if living else None)


def test_depth_and_links(tmp_path):
    """Three levels down, never through a linked directory."""
    (tmp_path / "memory" / "1" / "2" / "3" / "4").mkdir(parents=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "x.lock").write_text(str(ALIVE))
    memory = tmp_path / "memory"
    (memory / "link").symlink_to(tmp_path / "else")
    (memory / "1" / "2" / "3" / "4" / "x.lock").write_text(str(ALIVE))
    assert living_lock(str(memory)) is None
    (memory / "1" / "2" / "3" / "x.lock").write_text(str(ALIVE))
    assert living_lock(str(memory)) == str(memory / "1" / "2" / "3" / "x.lock")


def test_bounded(tmp_path, monkeypatch):
    """No more locks and names are looked at than the bounds say."""
    for number in range(locks.MOST_LOCKS):
        (tmp_path / f"{number:03}.lock").write_text(str(DEAD))
    (tmp_path / "z.lock").write_text(str(ALIVE))
    assert living_lock(str(tmp_path)) is None
    (tmp_path / "000.lock").unlink()
    assert living_lock(str(tmp_path)) == str(tmp_path / "z.lock")
    monkeypatch.setattr(locks, "MOST_ENTRIES", 10)
    assert living_lock(str(tmp_path)) is None


def test_no_directory(tmp_path):
    """Nothing there holds no lock."""
    assert living_lock(str(tmp_path / "none")) is None


def test_lives(as_ordinary_user):
    """Ours does, another user's does, one that ended does not, be it that its parent has not asked after it yet."""
    assert lives(ALIVE)
    assert not lives(DEAD)
    assert not lives(1 << 40)
    assert not lives(1 << 80)
    as_ordinary_user(lambda: None if lives(1) else pytest.fail("pid 1 lives"))
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not lives(child)
    os.waitpid(child, 0)


def test_an_unreadable_lock_goes_by_its_age(tmp_path, as_ordinary_user):
    """What may not be read is held while it is young."""
    path = tmp_path / "x.lock"
    path.write_text(str(DEAD))

    def check():
        os.chmod(path, 0)
        assert living_lock(str(tmp_path)) == str(path)
        os.utime(path, (OLD_S, OLD_S))
        assert living_lock(str(tmp_path)) is None

    as_ordinary_user(check, tmp_path)
