"""One daemon per state directory."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from zcsyncd.daemon.lock import NAME, hold_lock
from zcsyncd.errors import AlreadyRunning, Refused

ROOT = str(Path(__file__).parents[2])

HOLD = """
import sys
sys.path.insert(0, sys.argv[2])
from zcsyncd.daemon.lock import hold_lock
lock = hold_lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def holder(state: Path) -> subprocess.Popen[bytes]:
    """Start a process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state), ROOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_held_and_let_go(tmp_path: Path) -> None:
    """A second one is refused with the holder's pid while the first holds, and let in afterwards."""
    lock = hold_lock(str(tmp_path))
    with pytest.raises(AlreadyRunning) as caught:
        hold_lock(str(tmp_path))
    assert caught.value.data == {"pid": os.getpid()}
    assert str(os.getpid()) in caught.value.message
    assert caught.value.exit_code == 4
    lock.release()
    lock.release()
    with hold_lock(str(tmp_path)):
        pass


def test_another_process(tmp_path: Path) -> None:
    """The pid that is told is the other process's; killed without a chance to clean up, it holds nothing."""
    with holder(tmp_path) as process:
        with pytest.raises(AlreadyRunning) as caught:
            hold_lock(str(tmp_path))
        assert caught.value.data == {"pid": process.pid}
        process.kill()
        process.wait(20)
    with hold_lock(str(tmp_path)):
        assert (tmp_path / NAME).read_text() == f"{os.getpid()}\n"


def test_the_file_is_private_and_stays(tmp_path: Path) -> None:
    """The file is 0600 whatever the umask or its former mode, and is empty, but there, after the release."""
    (tmp_path / NAME).write_text("4711\n")
    (tmp_path / NAME).chmod(0o666)
    former = os.umask(0)
    try:
        with hold_lock(str(tmp_path)):
            assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    finally:
        os.umask(former)
    assert (tmp_path / NAME).read_text() == ""


def test_programs_that_we_start_do_not_hold_it(tmp_path: Path) -> None:
    """A child that outlives the daemon does not keep the lock."""
    lock = hold_lock(str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    ):
        lock.release()
        with hold_lock(str(tmp_path)) as again:
            assert again.path == lock.path


def test_a_lock_file_that_was_removed(tmp_path: Path) -> None:
    """Who removes the file cannot bring a second holder in by accident: each holds the file that is there now."""
    first = hold_lock(str(tmp_path))
    os.unlink(first.path)
    with hold_lock(str(tmp_path)), pytest.raises(AlreadyRunning):
        hold_lock(str(tmp_path))
    first.release()


def test_only_one_of_many(tmp_path: Path) -> None:
    """Of twenty that try at the same moment exactly one gets it."""
    barrier = threading.Barrier(20)
    got: list[object] = []

    def attempt() -> None:
        barrier.wait()
        try:
            got.append(hold_lock(str(tmp_path)))
        except AlreadyRunning as error:
            got.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    locks = [each for each in got if not isinstance(each, AlreadyRunning)]
    assert len(locks) == 1
    locks[0].release()


@pytest.mark.parametrize("kind", ["missing", "symlink", "directory"])
def test_a_place_that_cannot_be_locked(tmp_path: Path, kind: str) -> None:
    """No directory, or something else under the file's name, is refused with the path; a symlink is not followed."""
    state = tmp_path / "state"
    if kind != "missing":
        state.mkdir()
    if kind == "symlink":
        (state / NAME).symlink_to(tmp_path / "victim")
    elif kind == "directory":
        (state / NAME).mkdir()
    with pytest.raises(Refused, match=NAME):
        hold_lock(str(state))
    assert not (tmp_path / "victim").exists()


def test_without_permission(tmp_path: Path, as_ordinary_user) -> None:
    """A state directory that may not be written to is refused with what to do."""
    closed = tmp_path / "closed"
    closed.mkdir()

    def check() -> None:
        os.chmod(closed, 0o555)
        with pytest.raises(Refused, match="cannot lock") as caught:
            hold_lock(str(closed))
        assert "ZCSYNCD_STATE_DIR" in str(caught.value.hint)

    as_ordinary_user(check, closed)
    os.chmod(closed, 0o755)
