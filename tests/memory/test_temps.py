"""Temporary files: their names, and what a sweep takes."""

import os
import re
import subprocess
import sys

import pytest

from zcsyncd.memory.temps import sweep, temp_name

DEAD = subprocess.run(
    [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
)
PID = int(DEAD.stdout)
FIFO = (os.mkfifo,) if hasattr(os, "mkfifo") else ()
TEMP = f"a.md.tmp.{PID}.0123456789ab"


@pytest.mark.parametrize(
    "file", ["a.md", "sub/deep/a.md", "ä.md", "x" * 255, "é" * 127, "\udc80.md", "\ud800" * 99]
)
def test_temp_name(file):
    """ZCode's form, a bare name, never longer than a name may be, never twice the same."""
    name = temp_name(file)
    assert re.fullmatch(rf"[^/]*\.tmp\.{os.getpid()}\.[0-9a-f]{{12}}", name)
    assert name != temp_name(file)
    assert len(name.encode("utf-8", "replace")) <= 255
    if len(file) < 20:
        assert name.startswith(file.rpartition("/")[2] + ".tmp.")


def test_sweeps_what_a_dead_writer_left(tmp_path):
    """Gone, after its bytes were handed over."""
    (tmp_path / TEMP).write_bytes(b"half")
    kept = []
    assert sweep(str(tmp_path / TEMP), keep=kept.append)
    assert kept == [b"half"]
    assert os.listdir(tmp_path) == []
    assert not sweep(str(tmp_path / TEMP))


def test_sweeps_a_former_life_of_the_same_pid(tmp_path):
    """In a container every life has the same pid: what bears ours was left by a former one."""
    (tmp_path / temp_name("a.md")).write_bytes(b"half")
    assert sweep(str(next(tmp_path.iterdir())))


def test_leaves_a_living_writers_file_until_it_is_old(tmp_path):
    """Another process that lives may be writing; after a minute its pid is another's."""
    path = tmp_path / f"a.md.tmp.{os.getppid()}.0123456789ab"
    path.write_bytes(b"half")
    assert not sweep(str(path))
    assert path.exists()
    assert sweep(str(path), young_s=0)


@pytest.mark.parametrize(
    "name",
    [
        "a.md",
        "a.md.tmp",
        f"a.md.tmp.{PID}",
        f"a.md.tmp.{PID}.0123456789a",
        f"a.md.tmp.{PID}.0123456789AB",
        f"{TEMP}.md",
    ],
)
def test_leaves_other_names(tmp_path, name):
    """Only the very form of a temporary name."""
    (tmp_path / name).write_bytes(b"x")
    assert not sweep(str(tmp_path / name))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("make", [os.mkdir, *FIFO, lambda path: os.symlink("a.md", path)])
def test_leaves_what_is_no_regular_file(tmp_path, make):
    """A directory, a pipe, a link of such a name is none of ours."""
    (tmp_path / "a.md").write_bytes(b"x")
    make(str(tmp_path / TEMP))
    assert not sweep(str(tmp_path / TEMP))
    assert sorted(os.listdir(tmp_path)) == ["a.md", TEMP]


def test_leaves_what_cannot_be_kept_first(tmp_path):
    """Bytes that cannot be handed over are not removed; without anyone to hand them to they are."""
    with open(tmp_path / TEMP, "wb") as file:
        file.truncate(6 << 20)
    assert not sweep(str(tmp_path / TEMP), keep=lambda _: None)
    assert sweep(str(tmp_path / TEMP))


def test_takes_the_empty_file_that_claimed_the_name(tmp_path):
    """An empty file that bears the temporary one's time goes with it; any other empty file stays."""
    for claimed in (True, False):
        (tmp_path / TEMP).write_bytes(b"half")
        (tmp_path / "a.md").write_bytes(b"")
        os.utime(tmp_path / "a.md", ns=(10**18, 10**18))
        os.utime(tmp_path / TEMP, ns=(10**18, 10**18 if claimed else 2 * 10**18))
        assert sweep(str(tmp_path / TEMP))
        assert (tmp_path / "a.md").exists() is not claimed


def test_a_missing_directory_is_no_failure(tmp_path):
    """Nothing there, nothing done."""
    assert not sweep(str(tmp_path / "none" / TEMP))
    assert not sweep(str(tmp_path / "none\0" / TEMP))
    assert not sweep(str(tmp_path / f"\0{TEMP}"))


def test_a_directory_that_may_not_be_written(tmp_path, as_ordinary_user):
    """What cannot be removed stays, and that is told by False."""
    (tmp_path / TEMP).write_bytes(b"half")

    def check():
        os.chmod(tmp_path, 0o500)
        try:
            assert not sweep(str(tmp_path / TEMP))
        finally:
            os.chmod(tmp_path, 0o700)

    as_ordinary_user(check, tmp_path)
    assert (tmp_path / TEMP).exists()
