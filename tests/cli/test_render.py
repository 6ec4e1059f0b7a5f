"""Text for eyes: nothing hidden reaches a terminal, cells align, colour is optional."""

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcsyncd.cli.render import (
    Paint,
    amount,
    bar,
    counted,
    cut,
    duration,
    fitted,
    harmless,
    harmless_lines,
    pad,
    wants_colour,
    width,
    with_program,
    wrapped,
)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault of what is tested."""
ANY_TEXT = st.text(st.characters())


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain — text", "plain — text"),
        ("记忆 메모리", "记忆 메모리"),
        ("é", "é"),
        ("two\nlines", "two\\nlines"),
        ("a\tb\r", "a\\tb\\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("abc\u202egpj.md", "abc\\u202egpj.md"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth\u200d\ufeff", "zero\\u200bwidth\\u200d\\ufeff"),
        ("soft\xadhyphen", "soft\\xadhyphen"),
        ("line\u2028para\u2029", "line\\u2028para\\u2029"),
        ("lone \ud83d", "lone \\ud83d"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("filler\u3164\u115f\uffa0", "filler\\u3164\\u115f\\uffa0"),
        ("\u034f", "\\u034f"),
        ("⚠\ufe0f care", "⚠\ufe0f care"),
        ("a\ufe0f", "a\\ufe0f"),
        ("⚠\ufe0f\ufe0f", "⚠\ufe0f\\ufe0f"),
        ("\ufe0f", "\\ufe0f"),
    ],
)
def test_what_cannot_be_seen_stands_as_its_escape(raw, shown):
    """A control, bidirectional, zero-width or smuggling character is shown as an escape, all else as it is."""
    assert harmless(raw) == shown


@UNHURRIED
@given(ANY_TEXT)
def test_no_text_keeps_a_hidden_character(raw):
    """Whatever a file holds, one line comes out, without control, format, surrogate or separator characters."""
    shown = harmless(raw)
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()


@UNHURRIED
@given(ANY_TEXT)
def test_harmless_text_stays_as_it_is(raw):
    """What was made harmless once does not change when it is made so again."""
    assert harmless(harmless(raw)) == harmless(raw)


def test_a_body_keeps_its_lines_and_tabs():
    """Line ends and tabs mean something in a body; escapes and overrides in it do not."""
    assert harmless_lines("a\r\n\tb\x1b[2J\n\n\u202ec") == ["a", "\tb\\x1b[2J", "", "\\u202ec"]
    assert harmless_lines("lone\rreturn") == ["lone\\rreturn"]


@pytest.mark.parametrize(
    ("text", "cells"),
    [("abc", 3), ("记忆", 4), ("메모리", 6), ("ａｂ", 4), ("e\u0301", 1), ("", 0), ("…", 1)],
)
def test_width_counts_cells(text, cells):
    """Wide characters take two cells, combining ones none."""
    assert width(text) == cells


@pytest.mark.parametrize(
    ("text", "cells", "keep_end", "shown"),
    [
        ("short", 5, False, "short"),
        ("longer", 5, False, "long…"),
        ("/home/u/memory", 8, True, "…/memory"),
        ("记忆目录", 5, False, "记忆…"),
        ("记忆目录", 4, False, "记…"),
        ("记忆目录", 4, True, "…录"),
        ("text", 1, False, "…"),
        ("text", 0, False, ""),
    ],
)
def test_cutting_leaves_an_ellipsis(text, cells, keep_end, shown):
    """A text that is too wide ends (or begins) with an ellipsis and never takes more cells than allowed."""
    assert cut(text, cells, keep_end=keep_end) == shown
    assert width(shown) <= max(cells, 0)


@UNHURRIED
@given(ANY_TEXT, st.integers(0, 40), st.booleans())
def test_cut_never_takes_more_cells(text, cells, keep_end):
    """Whatever the script, a cut text fits."""
    assert width(cut(harmless(text), cells, keep_end=keep_end)) <= cells


def test_padding_counts_cells():
    """Padding fills up to cells, not characters, on either side."""
    assert pad("记忆", 6) == "记忆  "
    assert pad("42", 4, right=True) == "  42"
    assert pad("toolong", 3) == "toolong"


def test_wrapping_keeps_every_word():
    """A long text is broken at blanks, and a word that is too wide is broken inside."""
    assert wrapped("one two three", None) == ["one two three"]
    assert wrapped("one two three four five", 12) == ["one two", "three four", "five"]
    assert wrapped("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


@UNHURRIED
@given(st.text(st.characters(categories=["L", "N", "P"]), max_size=60), st.integers(12, 40))
def test_wrapping_loses_nothing(text, cells):
    """The wrapped lines, put together, are the text, and each fits but for a path."""
    lines = wrapped("x" + text, cells)
    assert "".join(lines) == "x" + text
    assert all(width(line) <= cells for line in lines)


def test_paint_only_when_on():
    """Off, a text comes back as it went in; on, it is closed again."""
    assert Paint(on=False)("x", "red") == "x"
    assert Paint(on=True)("x", "red bold") == "\x1b[31;1mx\x1b[0m"
    assert Paint(on=True)("x", None) == "x"
    assert Paint(on=True)("", "red") == ""


@pytest.mark.parametrize(
    ("is_terminal", "no_colour", "term", "on"),
    [
        (True, None, "xterm", True),
        (True, None, None, True),
        (True, "", "xterm", True),
        (True, "1", "xterm", False),
        (True, None, "dumb", False),
        (False, None, "xterm", False),
    ],
)
def test_colour_is_for_terminals(is_terminal, no_colour, term, on):
    """Colour needs a terminal that can, and a NO_COLOR that is not set or empty."""
    assert wants_colour(is_terminal=is_terminal, no_colour=no_colour, term=term) is on


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (8.9, "8 s"),
        (60, "1 min"),
        (65, "1 min 5 s"),
        (3600, "1 h"),
        (90061, "1 d 1 h"),
        (-1, "0 s"),
    ],
)
def test_durations_in_two_units(seconds, shown):
    """A span is told in its two largest units."""
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (33_000_000, "31.5 MiB"), (2**50, "1024.0 TiB")],
)
def test_sizes_for_people(size, shown):
    """A size is told with the unit that fits."""
    assert amount(size) == shown


def test_counted_nouns():
    """One fact, two facts, and plurals that are not made with an s."""
    assert [counted(1, "fact"), counted(0, "fact"), counted(2, "entry", "entries")] == [
        "1 fact",
        "0 facts",
        "2 entries",
    ]


def test_a_path_is_left_whole():
    """What a person may copy has no line break inside of it."""
    path = "/a/path/wider/than/the/line"
    assert wrapped(f"kept in {path} now", 12) == ["kept in", path, "now"]
    assert wrapped(f"kept in {Paint(on=True)(path, 'bold')}", 12)[1].startswith("\x1b[1m/a")


def test_what_hangs_is_indented():
    """Lines after the first stand further in; a line's own indent is kept, and blanks between words are too."""
    assert wrapped("one two three four", 10, hang=2) == ["one two", "  three", "  four"]
    assert fitted(["  one  two three", "x"], 10, hang=1) == ["  one  two", "   three", "x"]
    assert fitted(["  one  two three"], None) == ["  one  two three"]


def test_paint_takes_no_cells():
    """A painted text is as wide as it is without paint, and is broken beside the paint, not in it."""
    paint = Paint(on=True)
    assert width(paint("red", "red bold")) == 3
    pieces = wrapped(paint("a" * 20, "red"), 10)
    assert [width(piece) for piece in pieces] == [10, 10]
    assert "".join(pieces) == paint("a" * 20, "red")


def test_commands_are_shown_as_they_are_called():
    """Only a command between backticks is rewritten."""
    text = "zcsyncd: start it with `zcsyncd run`, says zcsyncd"
    assert with_program(text, "./z") == "zcsyncd: start it with `./z run`, says zcsyncd"


def test_a_bar_fills_its_line():
    """A caption's rule ends at the same cell, whatever the script."""
    assert width(bar("记忆", 40)) == width(bar("memory", 40)) == 40
