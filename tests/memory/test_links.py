"""Links of a line are found as a reader would find them, and their targets become paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory.links import MAX_LINKS, leaves, legible, links, local_path, loose_link, plain


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[A](a.md)", [("A", "a.md")]),
        ("x [A](a.md) y [B](b.md) z", [("A", "a.md"), ("B", "b.md")]),
        ("[A (1)](a(1).md)", [("A (1)", "a(1).md")]),
        ("[A [b] c](a.md)", [("A [b] c", "a.md")]),
        ("[A [b](c.md) d](a.md)", [("A [b](c.md) d", "a.md")]),
        ("[![badge](i.png)](a.md)", [("![badge](i.png)", "a.md")]),
        (r"[A \] b](a.md)", [(r"A \] b", "a.md")]),
        ("[A](<a b.md>)", [("A", "a b.md")]),
        ("[A](<a).md>)", [("A", "a).md")]),
        ('[A](<a b.md> "tip")', [("A", "a b.md")]),
        ('[A](a.md "tip")', [("A", "a.md")]),
        ("[A](a.md 'tip')", [("A", "a.md")]),
        ("[A]( a.md )", [("A", "a.md")]),
        ("[A](my file.md)", [("A", "my file.md")]),
        ("[A](my file.md#part two)", [("A", "my file.md#part two")]),
        ("[`a`](a.md)", [("`a`", "a.md")]),
        ("[]()", [("", "")]),
        ("[[A]](a.md)", [("[A]", "a.md")]),
        ("[ ] [A](a.md)", [("A", "a.md")]),
        ("[A](a.md)(b) [c]", [("A", "a.md")]),
        ("`` ` [x](y.md) `` [A](a.md)", [("A", "a.md")]),
        ("`[A](a.md)", [("A", "a.md")]),
    ],
)
def test_links(line, found):
    """Brackets and parentheses pair, tooltips and angle brackets go, the outermost link counts."""
    assert [(link.title, link.target) for link in links(line)] == found


@pytest.mark.parametrize(
    "line",
    [
        "", "plain", "[A]", "[A] (a.md)", "[A](a.md", "![A](a.png)", "`[A](a.md)`", "[[a]]", r"\[A](a.md)",
        "[A](no such thing)", "[A](<a b.md)", "](a.md)", "[r]: a.md",
    ],
)  # fmt: skip
def test_no_links(line):
    """Images, code, escaped brackets and halves are no links."""
    assert links(line) == ()


def test_link_in_a_comment_is_hidden():
    """A link in a comment within the line says so, one behind it does not."""
    assert [link.hidden for link in links("[A](a.md) <!-- [B](b.md) --> [C](c.md)")] == [False, True, False]


def test_offsets():
    """A link tells where it begins and ends in its line."""
    line = "- x [A](a.md) — y"
    (link,) = links(line)
    assert line[link.start : link.end] == "[A](a.md)"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[a]b](x.md) — h", ("a]b", "x.md")),
        ("[a [b](x.md)", ("a [b", "x.md")),
        ("[a ` b](x.md) — c ` d", ("a ` b", "x.md")),
        ("[T] text `[a](b.md)`", None),
        ("[T] text", None),
        ("x [a](b.md)", None),
        ("[a](b.md", None),
    ],
)
def test_loose_link(line, found):
    """A title that does not pair its brackets ends at the first `](`, unless that is another link's."""
    link = loose_link(line, 0)
    assert (link and (link.title, link.target)) == found


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("a.md", "a.md"),
        ("./a.md", "a.md"),
        ("x/../a.md", "a.md"),
        ("memory/a.md", "memory/a.md"),
        ("docs/", "docs"),
        ("a%20b.md", "a b.md"),
        ("%E4%B8%AD.md", "中.md"),
        ("100%.md", "100%.md"),
        ("%ff.md", "%ff.md"),
        ("a.md#part", "a.md"),
        ("a.md#b.md", "a.md"),
        ("a#part", "a"),
        ("c#.md", "c#.md"),
        ("c#.md#part", "c#.md"),
        (r"a\_b.md", "a_b.md"),
        (r"sub\a.md", "sub/a.md"),
        (r"..\..\a.md", "../../a.md"),
        ("../a.md", "../a.md"),
        ("x/../../a.md", "../a.md"),
        ("/abs/a.md", "/abs/a.md"),
        ("~/a.md", "~/a.md"),
        ("C:\\u\\a.md", "C:/u/a.md"),
        ("feedback:style.md", "feedback:style.md"),
        ("中 文.md", "中 文.md"),
    ],
)
def test_local_path(target, path):
    """A local target becomes a path relative to the directory, decoded and normalised."""
    assert local_path(target) == path


@pytest.mark.parametrize(
    "target",
    ["", "#part", "?x", ".", "./", "https://a.b/c.md", "HTTP://x", "//host/a.md", "mailto:a@b.md", "file:///a.md", "tel:1", "obsidian://a.md"],
)  # fmt: skip
def test_no_local_path(target):
    """URLs and anchors are no paths."""
    assert local_path(target) is None


@pytest.mark.parametrize(
    ("path", "out"),
    [("a.md", False), ("x/a.md", False), ("..a.md", False), ("~a.md", False), ("..", True), ("../a", True), ("/a", True),
     ("~/a", True), ("C:/a", True), ("c:a.md", False)],
)  # fmt: skip
def test_leaves(path, out):
    """Absolute paths, `~/`, drives and `../` lead out of the directory."""
    assert leaves(path) is out


def test_plain():
    """Only backslashes before punctuation go."""
    assert plain(r"a\]\_b\c\\") == "a]_b\\c\\"


def test_legible():
    """What is unseen or turns the direction is written as code; long names are cut."""
    assert legible("a\x1b[31m\u202eb\n中🐛") == "a\\u{1b}[31m\\u{202e}b\\u{a}中🐛"
    assert legible("x" * 100) == "x" * 79 + "…"


def test_many_links_are_cut():
    """A line with more links than any entry has is read up to a bound."""
    assert len(links("[a](b.md)" * (MAX_LINKS + 5))) == MAX_LINKS


@pytest.mark.parametrize(
    "piece",
    [
        "[](",
        "[",
        "](<",
        "`",
        "![a](b)",
        "()",
        "[](([](",
        "\\[",
        '[a](b "',
        "`a``b",
        "[a](b.md) <!--",
        "[](<a",
    ],
)
def test_long_lines_end(piece):
    """A megabyte of anything is done within the test's time."""
    line = piece * (1_000_000 // len(piece))
    links(line)
    loose_link("[" + line, 0)


@given(st.text(alphabet=st.sampled_from("[]()<>`\\!#%a.md \"'-:/~"), max_size=60))
def test_any_line(line):
    """No line raises, and what is found lies in it, in order."""
    last = 0
    for link in links(line):
        assert last <= link.start < link.end <= len(line)
        last = link.end
        local_path(link.target)


@given(st.text(max_size=40))
def test_any_target(target):
    """No target raises, and a path is stable when it is read once more unless it holds signs that are decoded."""
    path = local_path(target)
    if path is not None and not set(path) & set("%\\#?"):
        assert local_path(path) in {path, None}
