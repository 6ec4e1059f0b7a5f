"""Cursors, times, globs."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.bus.events import CURSOR_PATTERN, cursor, parse_cursor, rfc3339, topic_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9f2c:1812", ("9f2c", 1812)),
        ("a-b_c:0", ("a-b_c", 0)),
        ("", None),
        ("9f2c", None),
        (":1", None),
        ("a:", None),
        ("a:b", None),
        ("a:-1", None),
        ("a:1:2", None),
        ("a:1\n", None),
        ("a b:1", None),
        ("a:" + "9" * 19, None),
        ("a:١", None),
    ],
)
def test_parse_cursor(text: str, expected: tuple[str, int] | None) -> None:
    """A cursor is a journal id, a colon and a number; anything else is none, also for the schema's pattern."""
    assert parse_cursor(text) == expected
    if not text.endswith("\n"):
        assert (re.search(CURSOR_PATTERN, text, re.ASCII) is not None) == (expected is not None)


@given(st.integers(0, 10**18 - 1))
def test_cursor_round_trip(sequence: int) -> None:
    """A cursor that was made is read as what it was made of."""
    assert parse_cursor(cursor("9f2c", sequence)) == ("9f2c", sequence)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_796_055_660_123, "2026-11-30T16:21:00.123Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    ],
)
def test_rfc3339(time_ms: int, expected: str) -> None:
    """Times are UTC with exactly three digits of milliseconds."""
    assert rfc3339(time_ms) == expected


@pytest.mark.parametrize(
    ("globs", "topic", "expected"),
    [
        (["*"], "memory/changed", True),
        (["memory/*"], "memory/changed", True),
        (["memory/*"], "daemon/started", False),
        (["*/changed"], "memory/changed", True),
        (["m*d"], "memory/changed", True),
        (["memory/changed"], "memory/changed", True),
        (["memory/change"], "memory/changed", False),
        (["emory/changed"], "memory/changed", False),
        (["memory/?hanged"], "memory/changed", False),
        (["memory/[c]hanged"], "memory/changed", False),
        (["memory.changed"], "memory/changed", False),
        (["a", "memory/*"], "memory/changed", True),
        (["*a*a*a"], "aa", False),
        (["*a*a*a"], "aaa", True),
        (["*ab*"], "aab", True),
        (["a*a"], "a", False),
        (["*c*cd"], "cd", False),
        (["*c*cd"], "ccd", True),
        (["**"], "x", True),
        ([""], "x", False),
        ([], "x", False),
    ],
)
def test_topic_filter(globs: list[str], topic: str, expected: bool) -> None:
    """`*` stands for anything, `/` too; all else stands for itself; any glob is enough."""
    assert topic_filter(globs)(topic) is expected


def plain(glob: str, text: str) -> bool:
    """Spell out what a glob means."""
    if not glob:
        return not text
    if glob[0] == "*":
        return any(plain(glob[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and text[0] == glob[0] and plain(glob[1:], text[1:])


@given(st.text("ab/*", max_size=7), st.text("ab/", max_size=8))
def test_topic_filter_means_what_it_says(glob: str, topic: str) -> None:
    """The expression agrees with the plain meaning on whatever is tried."""
    assert topic_filter([glob])(topic) is plain(glob, topic)


def test_a_malicious_glob_takes_no_time() -> None:
    """Sixty stars against a long topic that does not fit: no exponential search."""
    began = time.process_time()
    assert topic_filter(["*a" * 60 + "b"])("a" * 2000) is False
    assert time.process_time() - began < 2
