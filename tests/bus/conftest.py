"""Fakes and a running bus for the tests of the bus."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bus.bus_thread import BusThread
from tests.bus.fake_journal import FakeJournal


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Give a temporary directory whose path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="zb-") as path:
        yield Path(path)


@pytest.fixture
def journal() -> FakeJournal:
    """Give an empty journal in memory."""
    return FakeJournal()


@pytest.fixture
def bus(short_path: Path) -> Iterator[BusThread]:
    """Give a running bus; after the test nothing of it may be left."""
    made = BusThread(short_path)
    made.start()
    try:
        yield made
    finally:
        made.release.set()
        made.stop()
