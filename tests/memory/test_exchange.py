"""The renames that lose nothing, on the real system."""

import errno
import os

import pytest

from zcsyncd.memory import exchange
from zcsyncd.memory.exchange import Unsupported, rename_new


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        exchange.exchange(descriptor, "a", "a")
        yield descriptor
    except Unsupported:
        pytest.skip("no such renames on this system")
    finally:
        os.close(descriptor)


def test_exchange(tmp_path, folder):
    """Two names change what lies under them, whatever it is."""
    exchange.exchange(folder, "a", "b")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"b", b"a")
    (tmp_path / "ü").symlink_to("nowhere")
    exchange.exchange(folder, "ü", "a")
    assert os.readlink(tmp_path / "a") == "nowhere"
    assert (tmp_path / "ü").read_bytes() == b"b"


@pytest.mark.parametrize(("one", "other"), [("a", "none"), ("none", "a")])
def test_exchange_needs_both(tmp_path, folder, one, other):
    """With one of them missing nothing happens."""
    with pytest.raises(FileNotFoundError):
        exchange.exchange(folder, one, other)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_rename_new(tmp_path, folder):
    """Only to a name that is free: a file, a dangling link, a directory stay as they are."""
    rename_new(folder, "a", "c")
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "directory").mkdir()
    for taken in ("b", "link", "directory"):
        with pytest.raises(FileExistsError) as told:
            rename_new(folder, "c", taken)
        assert told.value.filename2 == taken
    assert (tmp_path / "b").read_bytes() == b"b"
    assert (tmp_path / "c").read_bytes() == b"a"


def test_what_the_system_says_otherwise(folder):
    """Any other refusal is the system's own error."""
    with pytest.raises(OSError) as told:
        rename_new(folder, "a", "n" * 300)
    assert told.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM])
def test_unsupported(monkeypatch, code):
    """No call, or one that does not know the flag here: told apart from a failure."""
    for call in (None, lambda *_: code):
        monkeypatch.setattr(exchange, "_system_call", lambda call=call: call)
        with pytest.raises(Unsupported):
            exchange.exchange(0, "a", "b")
        with pytest.raises(Unsupported):
            rename_new(0, "a", "b")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32", "freebsd14"])
def test_a_library_without_the_call(monkeypatch, platform):
    """Where the C library has no such function there is none, and nothing breaks."""
    import ctypes

    def library(*_, **__):
        return object()

    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(exchange.sys, "platform", platform)
    assert exchange._system_call.__wrapped__() is None
