"""Two texts to a diff that patch takes, and a diff to lines that hide nothing."""

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcsyncd.cli.diffs import diff_lines, diff_of
from zcsyncd.cli.render import Paint

PLAIN = Paint(on=False)


def test_a_diff_of_two_texts():
    """Lines that differ stand with their surroundings; equal texts give nothing."""
    assert (
        diff_of("a\nb\nc\n", "a\nB\nc\n", "old", "new")
        == "--- old\n+++ new\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )
    assert diff_of("same", "same", "old", "new") == ""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a", "a\n", ["-a", "\\ No newline at end of file", "+a"]),
        ("a\n", "a", ["-a", "+a", "\\ No newline at end of file"]),
        ("", "a", ["+a", "\\ No newline at end of file"]),
        ("a\n", "", ["-a"]),
        ("a\u2028b\x0cc\n", "a\n", ["-a\\u2028b\\x0cc", "+a"]),
    ],
)
def test_ends_of_files(before, after, told):
    """A missing last line feed is told; only a line feed ends a line."""
    assert diff_lines(diff_of(before, after, "x", "y"), PLAIN)[3:] == told


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("ab\n-+ @\\", max_size=30), st.text("ab\n-+ @\\", max_size=30))
def test_patch_takes_a_diff(tmp_path, before, after):
    """What is shown as a difference is the difference: `patch` makes the one text of the other."""
    file = tmp_path / "file"
    file.write_text(before)
    diff = diff_of(before, after, "file", "file")
    if diff:
        subprocess.run(["patch", "-s", "-N", str(file)], input=diff, text=True, check=True, timeout=20)
    assert (file.read_text() if file.exists() else "") == after
    file.unlink(missing_ok=True)


def test_a_removed_line_that_looks_like_a_head_is_content():
    """`--- a` inside a hunk is a line that was taken out, and is painted so."""
    diff = diff_of("-- a\nb\n", "b\n", "x", "y")
    lines = diff_lines(diff, Paint(on=True))
    assert lines[0].startswith("\x1b[1m")
    assert lines[2].startswith("\x1b[36m")
    assert lines[3] == "\x1b[31m--- a\x1b[0m"


def test_nothing_hidden_reaches_the_terminal():
    """Control and bidirectional characters stand as escapes; tabs stay."""
    diff = diff_of("a\n", "a\n+\t\x1b[2J\u202e\u200b\r!\n", "x\x1b", "y")
    text = "\n".join(diff_lines(diff, PLAIN))
    assert "\x1b" not in text
    assert "++\t\\x1b[2J\\u202e\\u200b\\r!" in text
    assert "--- x\\x1b" in text


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("a\r\nb\r\n", "a\r\nb\n", [" a\\r", "-b\\r", "+b"]),
    ],
)
def test_line_ends_are_shown_where_they_differ(before, after, told):
    """In a file of CRLF lines nobody wants to see them; where line ends are the difference, they are."""
    assert diff_lines(diff_of(before, after, "x", "y"), PLAIN)[3:] == told


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_shown_as_a_diff(text):
    """Whatever a daemon sends as a diff, it is shown, and nothing hidden with it."""
    for line in diff_lines(text, PLAIN):
        assert "\x1b" not in line
        assert "\n" not in line
