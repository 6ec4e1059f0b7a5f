"""The socket's door: private from the first moment, stale or alive, passed by systemd, ours to remove."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from zcsyncd.bus.unix import (
    activated_socket,
    bind_socket,
    peer_uid,
    remove_socket,
    same_user,
    socket_inode,
    take_passed,
)
from zcsyncd.errors import AlreadyRunning, Refused


@pytest.fixture
def address(short_path: Path) -> str:
    """Give a place for a socket."""
    return str(short_path / "bus.sock")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_private_whatever_the_umask(address: str, umask: int) -> None:
    """The socket file is 0600, no wider and no narrower, and the umask is as it was."""
    former = os.umask(umask)
    try:
        with bind_socket(address):
            assert stat.S_IMODE(os.lstat(address).st_mode) == 0o600
            assert os.umask(umask) == umask
    finally:
        os.umask(former)


def test_never_wider(address: str) -> None:
    """Nobody who looks all the time ever sees the file with a wider mode."""
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            try:
                seen.add(stat.S_IMODE(os.lstat(address).st_mode))
            except FileNotFoundError:
                continue

    former = os.umask(0)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(200):
            bind_socket(address).close()
            os.unlink(address)
    finally:
        over.set()
        watcher.join()
        os.umask(former)
    assert seen <= {0o600}


def test_a_stale_socket_is_replaced(address: str) -> None:
    """What a killed daemon left is removed, and the new one can be connected to."""
    bind_socket(address).close()
    with bind_socket(address) as listening, socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        connected, _ = listening.accept()
        with connected:
            client.sendall(b"x")
            assert connected.recv(1) == b"x"


def test_a_living_socket_is_left_alone(address: str) -> None:
    """A daemon of another state directory keeps its address."""
    with bind_socket(address) as living:
        inode = socket_inode(address)
        with pytest.raises(AlreadyRunning, match="another state directory"):
            bind_socket(address)
        assert socket_inode(address) == inode
        living.accept()[0].close()


@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_something_else_in_the_way(address: str, kind: str) -> None:
    """A file, directory or symlink at the address is refused and left as it is."""
    if kind == "file":
        Path(address).write_text("mine")
    elif kind == "directory":
        os.mkdir(address)
    else:
        os.symlink("/nowhere", address)
    with pytest.raises(Refused, match="in the way"):
        bind_socket(address)
    assert os.path.lexists(address)


@pytest.mark.parametrize("address", ["/nowhere/at/all/bus.sock", "/tmp/" + "x" * 200, "/tmp/a\0b"])
def test_an_address_that_cannot_be(address: str) -> None:
    """A missing directory, a path too long or with a NUL is refused with a reason, without a traceback."""
    with pytest.raises(Refused) as caught:
        bind_socket(address)
    assert "cannot" in caught.value.message


def test_no_permission(short_path: Path, as_ordinary_user) -> None:
    """A directory that may not be written to is refused with what to do."""
    os.chmod(short_path, 0o755)
    inner = short_path / "closed"
    inner.mkdir()

    def check() -> None:
        with pytest.raises(Refused, match="cannot make the socket"):
            bind_socket(str(inner / "bus.sock"))

    def closed() -> None:
        os.chmod(inner, 0o555)
        check()

    as_ordinary_user(closed, short_path)


def test_the_descriptor_is_not_inherited(address: str) -> None:
    """Programs that the daemon starts do not keep the socket open."""
    with bind_socket(address) as listening:
        assert not listening.get_inheritable()
        assert not listening.getblocking()


def test_remove_only_our_own(address: str) -> None:
    """Our socket is removed; what another daemon has put there since is not."""
    with bind_socket(address):
        inode = socket_inode(address)
        os.rename(address, address + ".old")
        with bind_socket(address):
            assert not remove_socket(address, inode)
            assert os.path.exists(address)
            assert remove_socket(address, socket_inode(address))
            assert not os.path.exists(address)
    assert not remove_socket(address, inode)
    assert not remove_socket(address, None)
    os.unlink(address + ".old")


def test_peer_uid() -> None:
    """The other end of a socket pair is this user's."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_uid(one) == os.getuid()
        assert same_user(one)


def test_a_peer_that_cannot_be_told_is_not_ours() -> None:
    """A socket that has no Unix peer is nobody's we know."""
    with socket.socket(socket.AF_INET) as alien:
        assert not same_user(alien)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "x", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "-1", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_no_activation(variables: dict[str, str]) -> None:
    """Without sockets meant for this very process there is nothing to take, and the variables are gone afterwards."""
    environ = {**variables, "OTHER": "x"}
    assert activated_socket(environ) is None
    assert environ == {"OTHER": "x"}


ACTIVATED = """
import os, sys
sys.path.insert(0, sys.argv[2])
os.dup2(int(sys.argv[3]), 3, inheritable=True)  # where the system would put it
from zcsyncd.bus.unix import activated_socket
os.environ["LISTEN_PID"] = str(os.getpid())
taken = activated_socket(os.environ)
assert "LISTEN_FDS" not in os.environ
assert taken.getsockname() == sys.argv[1], taken
assert not taken.get_inheritable()
print(taken.fileno(), flush=True)
taken.setblocking(True)
connected, _ = taken.accept()
connected.sendall(b"hello")
connected.close(); taken.close()
"""


def test_activation(address: str) -> None:
    """A listening socket that the system passes as descriptor 3 is the one that is used."""
    with bind_socket(address) as listening:
        source = listening.fileno()
        root = str(Path(__file__).parents[2])
        process = subprocess.Popen(
            [sys.executable, "-c", ACTIVATED, address, root, str(source)],
            env={**os.environ, "LISTEN_FDS": "1"},
            pass_fds=[source],
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"3\n"
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(20)
                client.connect(address)
                assert client.recv(10) == b"hello"
        assert process.returncode == 0


def test_passed_but_not_listening() -> None:
    """Descriptors without a listening Unix socket among them are refused, and left open for whoever owns them."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        with pytest.raises(Refused, match="none is a listening"):
            take_passed(range(one.fileno(), one.fileno() + 1))
        one.sendall(b"x")
        assert other.recv(1) == b"x"
