"""What the service manager hears: real datagrams on a real socket."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from zcsyncd.daemon.notify import Notifier

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="systemd's socket is a Unix one")


@pytest.fixture
def manager(tmp_path):
    """A manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(10)
        yield heard


def heard_by(manager):
    return manager.recv(4096).decode()


def test_every_word_as_sd_notify_has_it(manager, tmp_path):
    """Ready, reloading with its time, status in one line and once, sign of life, more time, stopping."""
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "OTHER": "stays"}
    notifier = Notifier(environ)
    assert environ == {"OTHER": "stays"}
    assert notifier.is_managed
    notifier.ready()
    assert heard_by(manager) == "READY=1"
    notifier.reloading()
    first, second = heard_by(manager).split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert int(second.partition("=")[2]) > 0
    notifier.status("two\nlines  of it")
    notifier.status("two lines of it")
    notifier.alive()
    assert [heard_by(manager), heard_by(manager)] == ["STATUS=two lines of it", "WATCHDOG=1"]
    notifier.needs(1.5)
    assert heard_by(manager) == "EXTEND_TIMEOUT_USEC=1500000"
    notifier.stopping()
    assert heard_by(manager) == "STOPPING=1"


def test_an_abstract_socket():
    """A manager may have its socket in no file system at all (Linux)."""
    if sys.platform != "linux":
        pytest.skip("abstract sockets are Linux's")
    name = f"zcsyncd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name)
        heard.settimeout(10)
        Notifier({"NOTIFY_SOCKET": "@" + name}).ready()
        assert heard_by(heard) == "READY=1"


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000"}, 3.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "own"}, 3.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "0"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_whose_watchdog_it_is(environ, seconds):
    """Only a watchdog that is set, with a socket to tell, and meant for this very process counts."""
    environ = {name: str(os.getpid()) if value == "own" else value for name, value in environ.items()}
    assert Notifier(environ).watchdog_s == seconds


def test_a_manager_that_is_gone_harms_nobody(manager, tmp_path):
    """No socket, a socket that nobody reads and that is full: every call returns, none raises."""
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "none")}).ready()
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for _ in range(3_000):  # more than any queue of datagrams holds
        notifier.alive()
