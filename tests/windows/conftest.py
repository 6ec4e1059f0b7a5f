"""Tests of what only Windows does: collected there alone. How they are run elsewhere: docs/windows.md."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform != "win32":
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count()


@pytest.fixture
def address() -> str:
    """Give the name of a pipe that nobody else has."""
    return rf"\\.\pipe\zcsyncd-test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def bus(address: str) -> Iterator[object]:
    """Give a running bus on a pipe; after the test nothing of it may be left."""
    from tests.bus.bus_thread import BusThread

    made = BusThread(Path(address.rpartition("\\")[2]))
    made.start()
    try:
        yield made
    finally:
        made.release.set()
        made.stop()
