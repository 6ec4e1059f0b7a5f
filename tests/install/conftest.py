"""A service as it might be wanted, and the files that ship."""

from pathlib import Path

import pytest

from zcsyncd.install.wanted import RUN_WORDS, Wanted

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def wanted():
    """Give a service with everything in it."""
    return Wanted(
        words=("/opt/env/bin/python", *RUN_WORDS),
        environment=(("CLAUDE_CONFIG_DIR", "/x/c"), ("ZCODE_STORAGE_DIR", "/x/with blanks")),
        error_log="/home/u/Library/Logs/zcsyncd/service.err",
        user="DESK\\u",
    )


@pytest.fixture
def shipped():
    """Give a reader of the files below `service/`."""
    return lambda *parts: ROOT.joinpath("service", *parts).read_bytes()
