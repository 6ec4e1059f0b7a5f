"""Files that are put outside of us, and our own that stay: written once, taken whole, nothing of others touched."""

import os

import pytest

from zcsyncd.errors import Refused
from zcsyncd.install.files import drop_empty, put, read, size_of, take
from zcsyncd.install.remains import places, purge


def test_put_tells_what_it_did(tmp_path):
    """Written, unchanged, updated; an unchanged file is not touched; nothing else lies beside it afterwards."""
    path = tmp_path / "a/b/unit"
    assert put(str(path), b"1") == "written"
    before = path.stat()
    assert put(str(path), b"1") == "unchanged"
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert put(str(path), b"2") == "updated"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"2", 0o644)
    assert os.listdir(path.parent) == ["unit"]


def test_put_replaces_a_symlink(tmp_path):
    """A link is replaced, and what it leads to stays as it was."""
    (tmp_path / "dotfile").write_bytes(b"theirs")
    (tmp_path / "unit").symlink_to(tmp_path / "dotfile")
    assert put(str(tmp_path / "unit"), b"ours") == "updated"
    assert (tmp_path / "dotfile").read_bytes() == b"theirs"
    assert not (tmp_path / "unit").is_symlink()


def test_what_cannot_be_written_is_refused(tmp_path):
    """A file where the directory should be is named, and nothing is left behind."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(Refused, match="cannot be"):
        put(str(tmp_path / "a/unit"), b"1")
    with pytest.raises(Refused, match="cannot be read"):
        read(str(tmp_path))


def test_take_and_drop(tmp_path):
    """What is there is removed, what is not is no failure; only empty directories go."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    assert take(str(tmp_path / "full/x")) is True
    assert take(str(tmp_path / "full/x")) is False
    with pytest.raises(Refused, match="cannot be removed"):
        take(str(tmp_path / "full"))
    (tmp_path / "full/y").write_bytes(b"")
    drop_empty(*(str(tmp_path / name) for name in ("full", "empty", "missing")))
    assert os.listdir(tmp_path) == ["full"]


def test_sizes(tmp_path):
    """A directory counts all its files, a link only itself, nothing is None."""
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/x").write_bytes(b"123")
    (tmp_path / "d/y").write_bytes(b"12")
    assert size_of(str(tmp_path / "d")) == 5
    assert size_of(str(tmp_path / "d/y")) == 2
    assert size_of(str(tmp_path / "no")) is None


@pytest.fixture
def env(tmp_path):
    """Give an environment with everything of ours in one place."""
    return {
        "HOME": str(tmp_path),
        "ZCSYNCD_STATE_DIR": str(tmp_path / "state"),
        "ZCSYNCD_RUNTIME_DIR": str(tmp_path / "run"),
        "ZCSYNCD_CONFIG": str(tmp_path / "conf/config.yaml"),
    }


OURS = (
    "state/state.db",
    "state/state.db-wal",
    "state/state.db-shm",
    "state/state.db.broken-0a1b2c3d",
    "state/daemon.lock",
    "state/endpoint.json",
    "state/canary/x-1",
    "state/log/zcsyncd.log",
    "state/log/zcsyncd.log.1",
    "run/bus.sock",
    "conf/config.yaml",
)


def make(tmp_path, *names):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")


def test_a_purge_leaves_nothing_of_ours(env, tmp_path):
    """Everything that we name ourselves is listed with its size, and gone afterwards."""
    assert places(env) == []
    make(tmp_path, *OURS)
    found = {place.what: place.size_bytes for place in places(env)}
    assert found == {"configuration": 5, "state": 45, "runtime": 5}
    assert all(line.startswith("removed: ") for line in purge(env))
    assert sorted(os.listdir(tmp_path)) == ["conf"]
    assert purge(env) == []


def test_a_purge_touches_nothing_of_others(env, tmp_path):
    """A state directory that was put into somebody's documents keeps the documents, and that is told."""
    theirs = ("state/letter.txt", "state/sub/state.db", "state/log/own.log", "run/other.sock")
    make(tmp_path, *OURS, *theirs)
    said = purge(env)
    assert all((tmp_path / name).exists() for name in theirs)
    assert not any((tmp_path / name).exists() for name in OURS)
    assert len([line for line in said if line.startswith("left: ")]) == 2


def test_a_purge_does_not_follow_links(env, tmp_path):
    """What a link in the state directory leads to stays."""
    make(tmp_path, "elsewhere/state.db", "state/daemon.lock")
    (tmp_path / "state/canary").symlink_to(tmp_path / "elsewhere")
    purge(env)
    assert (tmp_path / "elsewhere/state.db").exists()
