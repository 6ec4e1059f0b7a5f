"""What the pen's directories do that the pen's own tests do not reach."""

import os
import sys

import pytest

from zcsyncd.memory import folder
from zcsyncd.memory.folder import Folder, is_being_written, patiently


def test_patiently_tries_again():
    """Permission refused a few times, as while a scanner has the file open: in the end it is done."""
    refusals = [PermissionError(), PermissionError()]

    def call():
        if refusals:
            raise refusals.pop()
        return "done"

    assert patiently(call, (0, 0, 0)) == "done"


def test_patiently_gives_up():
    """Refused for good: the refusal is told after the last pause; any other failure at once."""
    calls = []

    def call():
        calls.append(1)
        raise PermissionError

    with pytest.raises(PermissionError):
        patiently(call, (0, 0))
    assert len(calls) == 3
    with pytest.raises(FileNotFoundError):
        patiently(lambda: os.unlink("/nowhere/at/all"), (0, 0))
    assert 1.9 <= sum(folder.PAUSES_S) <= 2.1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open for writing")
def test_is_being_written(tmp_path):
    """Open for writing: yes; for reading only: no; ours no longer once closed; a reader is not kept out."""
    path = tmp_path / "a"
    path.write_bytes(b"x")
    reader = os.open(path, os.O_RDONLY)
    try:
        assert not is_being_written(reader)
        with open(path, "ab"):
            assert is_being_written(reader)
        with open(path, "rb"):
            assert not is_being_written(reader)
        assert not is_being_written(reader)
        with open(path, "ab") as writer:  # would wait for ever were the lease still held
            writer.write(b"y")
    finally:
        os.close(reader)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open for writing")
def test_whose_file_it_is_not_cannot_tell(tmp_path, as_ordinary_user):
    """Another user's file may not be asked about: that counts as nobody writing."""
    path = tmp_path / "a"
    path.write_bytes(b"x")
    os.chmod(path, 0o644)
    if os.geteuid():
        pytest.skip("only root has a file of another user at hand")
    reader = os.open(path, os.O_RDONLY)
    writer = os.open(path, os.O_WRONLY)
    try:
        as_ordinary_user(lambda: None if not is_being_written(reader) else pytest.fail("told"))
    finally:
        os.close(reader)
        os.close(writer)


def test_the_names_of_a_directory(tmp_path):
    """A directory that is held open stays the one that was opened, whatever lies under its path."""
    (tmp_path / "a").mkdir()
    held = Folder.open(str(tmp_path / "a"))
    os.rename(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").mkdir()
    os.close(held.make_file("x"))
    assert os.listdir(tmp_path / "b") == ["x"]
    assert os.listdir(tmp_path / "a") == []
    held.close()
    held.close()
