"""Top-level comments are found as marked finds them, and markdown-it-py is loaded only for them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory.comments import MAX_LINES, comment_spans

LINES = [
    "- [A](a.md) — hook", "1. one", "  - nested", "    code", "```", "~~~", "> quote", "# head", "plain text", "",
    "<!-- c -->", "<!-- open", "--> tail", "<!-- a --> rest", "  <!-- two -->", "text <!-- in --> line", "---", "<div>",
    "</details>", "<!---->", "<!-->", "[r]: x.md", "<?php", "- ",
]  # fmt: skip


def without(text):
    """Take the spans out of a text."""
    left, start = "", 0
    for first, after in comment_spans(text):
        left += text[start:first]
        start = after
    return left + text[start:]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- a -->\n- x\n", "- x\n"),
        ("<!-- a -->\n\n\n- x\n", "- x\n"),
        ("- x\n\n<!-- a\nb\n\nc -->\n\n- y\n", "- x\n\n- y\n"),
        ("<!-- a --> b <!-- c -->\n\nd", " b \n\nd"),
        ("<!-- a -->\r- x\r", "- x\r"),
        ("<!-- a -->\r\r\n- x", "- x"),
        ("   <!-- a -->\nx", "x"),
        ("- x\n <!-- a -->\n- y", "- x\n- y"),
        ("text\n<!-- a -->\nmore", "text\nmore"),
        ("# head\n  <!-- a -->\nx", "# head\nx"),
        ("<!-- a --><!-- b -->", ""),
    ],
)
def test_goes(text, left):
    """A comment at the top level goes, with the line ends behind it when nothing else is in its block."""
    assert without(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- x <!-- a -->\n",
        "- x\n  <!-- a -->\n",
        "1. x\n   <!-- a -->\n",
        "> <!-- a -->\n",
        "    <!-- a -->\n",
        "```\n<!-- a -->\n```\n",
        "```\n<!-- a -->\n",
        "<div>\n<!-- a -->\n</div>\n",
        "<!-- a\n- x\n",
        "<!-->\n- x\n",
        "text\n  <!-- a -->\n",
        "> quote\n  <!-- a -->\n",
        "Title\n<!-- a\nb -->\n---\n",
        "`<!-- a -->`\n",
    ],
)
def test_stays(text):
    """A comment that is within something else stays, and so does one that never ends."""
    assert comment_spans(text) == ()


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from(["\n", "\r", "\r\n"]))
def test_spans_are_in_order_and_hold_comments(lines, end):
    """Spans rise, do not overlap, and each holds whole comments and at most blanks beside them."""
    text = end.join(lines)
    last = 0
    for first, after in comment_spans(text):
        assert last <= first < after <= len(text)
        assert "<!--" in text[first:after]
        assert "-->" in text[first:after]
        last = after


@given(st.text(alphabet=st.sampled_from("<!->? \n\ra[]:`#*1.\t\0"), max_size=60))
def test_any_text(text):
    """No text raises."""
    comment_spans(text)


def test_comments_far_down_count_as_text():
    """The parser sees a bounded part; what is further down stays, and is in nobody's prompt."""
    text = "- x\n" * MAX_LINES + "\n<!-- a -->\n"
    assert comment_spans(text) == ()
    assert comment_spans("<!-- a -->\n" + text) == ((0, 11),)


@pytest.mark.parametrize(
    "piece", ["<!-- a -->\n", "<!-- a\n", "> <!--", "[a]:\n<!-- -->", "- <!-- a -->\n", "<a \n", "--> <!--\n"]
)
def test_large_texts_end(piece):
    """Five megabytes of anything are done within the test's time."""
    comment_spans("<!-- x -->\n" + piece * (5_000_000 // len(piece)))


def test_parser_is_loaded_when_needed():
    """An index without a line that begins with a comment does not load markdown-it-py."""
    code = (
        "import sys; from zcsyncd.memory.index import inject; from zcsyncd.layouts.layout import Caps\n"
        "inject(b'- [A](a.md) <!-- x -->\\n```\\n', Caps(200, 25000)); print('markdown_it' in sys.modules)\n"
        "inject(b'<!-- x -->\\n', Caps(200, 25000)); print('markdown_it' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
