"""The short name of a socket whose path is too long."""

from __future__ import annotations

import hashlib
import re

import pytest

from zcsyncd.bus.address import SUN_PATH_BYTES, fit_address, is_pipe_name


@pytest.mark.parametrize(
    ("path", "limit", "fits"),
    [
        ("/run/user/1000/zcsyncd/bus.sock", 107, True),
        ("/" + "a" * 106, 107, True),
        ("/" + "a" * 107, 107, False),
        ("/" + "a" * 102, 103, True),
        ("/" + "a" * 103, 103, False),
        ("/" + "é" * 53, 107, True),
        ("/" + "é" * 54, 107, False),
        ("/" + "\udcff" * 106, 107, True),
        ("/" + "\udcff" * 107, 107, False),
    ],
)
def test_fit_address(path: str, limit: int, fits: bool) -> None:
    """A path that fits stays; one that does not, counted in bytes, becomes a short one that always fits."""
    given = fit_address(path, 1000, limit)
    if fits:
        assert given == path
    else:
        assert re.fullmatch(r"/tmp/zcsyncd-1000-[0-9a-f]{12}/bus\.sock", given)
        assert len(given.encode()) <= 103


def test_the_short_name_is_what_the_documentation_says() -> None:
    """The name is made of the user and the first 12 hex digits of the path's SHA-256, so other languages can make it."""
    path = "/home/" + "x" * 200 + "/bus.sock"
    assert fit_address(path, 7) == f"/tmp/zcsyncd-7-{hashlib.sha256(path.encode()).hexdigest()[:12]}/bus.sock"


def test_different_paths_and_users_have_different_names() -> None:
    """Two daemons do not meet by chance."""
    long = "/" + "x" * SUN_PATH_BYTES
    assert len({fit_address(long + "a", 1), fit_address(long + "b", 1), fit_address(long + "a", 2)}) == 3


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        (r"\\.\pipe\zcsyncd-S-1-5-21-7", True),
        (r"\\.\PIPE\z", True),
        ("\\\\.\\pipe\\", False),
        (r"\\.\pipe\a\b", False),
        (r"\\.\pipe\a/b", False),
        (r"\\server\pipe\z", False),
        (r"\\.\pipe\z" + "z" * 250, False),
        ("\\\\.\\pipe\\z\0", False),
        ("/run/user/7/bus.sock", False),
        ("", False),
    ],
)
def test_names_of_pipes(address: str, is_one: bool) -> None:
    """A pipe of this machine, in any case, with one name and no further backslash."""
    assert is_pipe_name(address) is is_one
