"""A bed for the river, below the test's own directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.bed import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    """A river in a bed of its own; `play` runs a story in it."""
    return Bed(tmp_path)
