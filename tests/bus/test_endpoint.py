"""endpoint.json: whole, private, ours."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from zcsyncd.bus.endpoint import NAME, Endpoint, read_endpoint, remove_endpoint, write_endpoint
from zcsyncd.errors import Refused


def endpoint(pid: int = 99, address: str = "/run/user/1000/zcsyncd/bus.sock") -> Endpoint:
    """Give a record."""
    return Endpoint(
        address, pid=pid, host="box", started_at="2026-11-30T16:21:00.123Z", protocol=1, version="0.1.0"
    )


def test_write_and_read(tmp_path: Path) -> None:
    """What was written is read; the file is 0600, has the documented members, and nothing else lies there."""
    former = os.umask(0)
    try:
        write_endpoint(str(tmp_path), endpoint())
    finally:
        os.umask(former)
    assert read_endpoint(str(tmp_path)) == endpoint()
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    assert json.loads((tmp_path / NAME).read_text()) == {
        "address": "/run/user/1000/zcsyncd/bus.sock",
        "pid": 99,
        "host": "box",
        "startedAt": "2026-11-30T16:21:00.123Z",
        "protocol": 1,
        "version": "0.1.0",
    }
    assert os.listdir(tmp_path) == [NAME]


def test_an_address_that_is_not_utf8(tmp_path: Path) -> None:
    """An address with undecodable bytes survives."""
    write_endpoint(str(tmp_path), endpoint(address="/run/caf\udce9"))
    found = read_endpoint(str(tmp_path))
    assert found is not None
    assert found.address == "/run/caf\udce9"


def test_left_over_temporary_is_replaced(tmp_path: Path) -> None:
    """What a killed daemon left half-written, or a symlink planted there, is replaced and not written through."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / (NAME + ".tmp")).symlink_to(victim)
    write_endpoint(str(tmp_path), endpoint())
    assert victim.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == [NAME, "victim"]


READER_PAUSE_S = 0.005 if sys.platform == "win32" else 0.0
"""A file that is open is not replaced there: who reads without pause keeps the writer out."""


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """While it is replaced again and again, every reading gives a whole endpoint."""
    state = str(tmp_path)
    write_endpoint(state, endpoint(0))
    written: list[int] = []

    def write() -> None:
        for pid in range(300):
            write_endpoint(state, endpoint(pid))
            written.append(pid)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert read_endpoint(state) is not None
        time.sleep(READER_PAUSE_S)
    writer.join()
    assert len(written) == 300


GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"pid":1}',
    b'{"address":7}',
    b'{"address":""}',
    b'{"address":"a\\u0000b"}',
    b"[" * 5000,
    b" " * 100_000,
]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_nothing(tmp_path: Path, content: bytes) -> None:
    """A file that makes no sense is as good as none."""
    (tmp_path / NAME).write_bytes(content)
    assert read_endpoint(str(tmp_path)) is None


def test_odd_members_are_tolerated(tmp_path: Path) -> None:
    """An address is enough to be found; members of another kind are taken for unknown."""
    (tmp_path / NAME).write_text('{"address":"/x","pid":"many","protocol":true,"later":1}')
    found = read_endpoint(str(tmp_path))
    assert found is not None
    assert (found.address, found.pid, found.protocol, found.host) == ("/x", 0, 0, "")


@pytest.mark.parametrize("kind", ["nothing", "directory", "fifo", "symlink"])
def test_what_is_no_file_is_nothing(tmp_path: Path, kind: str) -> None:
    """A missing file, a directory, a FIFO or a symlink gives None, at once."""
    path = tmp_path / NAME
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "symlink":
        (tmp_path / "other").write_text(json.dumps(endpoint().members()))
        path.symlink_to("other")
    assert read_endpoint(str(tmp_path)) is None


def test_remove_only_our_own(tmp_path: Path) -> None:
    """A daemon that leaves late does not take its successor's file with it."""
    state = str(tmp_path)
    write_endpoint(state, endpoint(1))
    write_endpoint(state, endpoint(2))
    assert not remove_endpoint(state, endpoint(1))
    assert read_endpoint(state) == endpoint(2)
    assert remove_endpoint(state, endpoint(2))
    assert not remove_endpoint(state, endpoint(2))
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A directory in the way is refused with the file's name, and no temporary file stays."""
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "x").write_text("")
    with pytest.raises(Refused, match=NAME):
        write_endpoint(str(tmp_path), endpoint())
    assert os.listdir(tmp_path) == [NAME]
    with pytest.raises(Refused):
        write_endpoint(str(tmp_path / "missing"), endpoint())
