"""Edits of an index change what was wished and not one byte more."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from zcsyncd.errors import Refused, Unreadable
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.entry_lines import (
    drop_lines,
    entry_text,
    hook_text,
    insert,
    put_back,
    read_sheet,
    remove,
    replace_hook,
    retarget,
)
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import inject, parse_index
from zcsyncd.memory.past import Loss

SAMPLES = Path(__file__).parent.parent / "samples"
CAPS = Caps(200, 25_000)
ROOMY = Caps(1_000_000, 1_000_000_000)
STAT = FileStat(mtime_ns=1, ctime_ns=2, size=3, inode=4)
NEW = "- [New](new.md) — what is new"


def entries(content, caps=ROOMY):
    """Give what the index says: target, title, hook, line, hidden."""
    read = parse_index("MEMORY.md", content, STAT, read_at_ns=0, caps=caps)
    return [(e.target, e.title, e.hook, e.line, e.hidden) for e in read.entries]


def lost(target, line=None, title="T", hook="h"):
    """Give the loss of an entry."""
    return Loss("entry-lost", 1, "MEMORY.md", target, title, hook, line)


# -- an entry as text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "file", "hook", "line"),
    [
        ("Plain", "a.md", "what it says", "- [Plain](a.md) — what it says"),
        ("No hook", "a.md", "", "- [No hook](a.md)"),
        ("No hook", "a.md", " \n ", "- [No hook](a.md)"),
        ("", "sub/some_file.md", "h", "- [some_file](sub/some_file.md) — h"),
        ("Two\nlines", "a.md", "one\r\ntwo\rthree", "- [Two lines](a.md) — one two three"),
        ("a [b] `c` <d> \\e", "a.md", "h", "- [a \\[b\\] \\`c\\` \\<d> \\\\e](a.md) — h"),
        ("T", "my file (1).md", "h", "- [T](my%20file%20%281%29.md) — h"),
        ("T", "c#.md", "h", "- [T](c%23.md) — h"),
        ("T", "100%20.md", "h", "- [T](100%2520.md) — h"),
        ("T", "<a>.md", "h", "- [T](%3Ca%3E.md) — h"),
        ("T", "记忆.md", "h", "- [T](记忆.md) — h"),
        ("T", "no\u00a0break.md", "h", "- [T](no%C2%A0break.md) — h"),
        ("T", "mailto:x.md", "h", "- [T](mailto%3Ax.md) — h"),
        ("T", "a.md", "see [docs](https://x.example/a)", "- [T](a.md) — see [docs](https://x.example/a)"),
        ("T", "a.md", "see [b](b.md)", "- [T](a.md) — see [b\\](b.md)"),
        ("T", "a.md", "see [b\\\\](b.md)", "- [T](a.md) — see [b\\\\\\](b.md)"),
        ("T", "a.md", "[[b]] stays", "- [T](a.md) — [[b]] stays"),
        ("nul\0bell\a", "a.md", "\x1b[31m", "- [nul bell](a.md) — [31m"),
        ("half \ud800", "a.md", "h", "- [half \ufffd](a.md) — h"),
    ],
)  # fmt: skip
def test_entry_text(title, file, hook, line):
    """An entry is one line in the one form that we write."""
    assert entry_text(title, file, hook) == line
    ((target, _, _, number, hidden),) = entries(line.encode())
    assert (target, number, hidden) == (file, 1, False)


@pytest.mark.parametrize(
    "file",
    ["a\\b.md", "half\ud800.md", "../a.md", "/a.md", "~/a.md", "C:/a.md", "MEMORY.md", "", "a//b.md", " " * 1400 + "x.md"],
)  # fmt: skip
def test_no_link_can_name_it(file):
    """What a link cannot name is refused, with the file's name and what to do."""
    with pytest.raises(Refused) as refused:
        entry_text("T", file, "h")
    assert refused.value.hint
    assert refused.value.data["file"] == file


NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=12
)
FILES = st.builds("/".join, st.lists(NAMES, min_size=1, max_size=2)).map(lambda name: name + ".md")
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from(["[", "]", "(", ")", "](b.md)", "\\", "`", "<!--", "-->", "---", "|", "!", "*", "—", " ", "a.md", "\n"]), max_size=8).map("".join),
)  # fmt: skip


def one_line(text):
    """Say what a title or hook is once it is one line."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()


@settings(max_examples=200, deadline=None)
@given(TEXTS, FILES, TEXTS)
@example("a", "b.md", "[a](b.md")
@example("[x](y.md)", "b.md", "- [z](z.md) — q")
def test_an_entry_reads_back(title, file, hook):
    """Whatever title, file and hook are, the index has one entry that says just that."""
    try:
        line = entry_text(title, file, hook)
    except Refused:
        assume(False)
    read = entries(line.encode())
    assert read == [
        (file, one_line(title) or one_line(file.rpartition("/")[2][:-3]) or "…", hook_text(hook), 1, False)
    ]
    assert hook_text(hook_text(hook)) == hook_text(hook)
    if not re.search(r"\]\(.*\)", one_line(hook)):
        assert hook_text(hook) == one_line(hook)


def test_too_long():
    """Title and hook are cut where the reader cuts them."""
    ((_, title, hook, _, _),) = entries(entry_text("t" * 2000, "a.md", "h" * 9000).encode())
    assert (len(title), title[-1], len(hook), hook[-1]) == (1000, "…", 4000, "…")


# -- putting in ----------------------------------------------------------------------------------------------

ENTRY = "- [A](a.md) — a\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, f"{NEW}\n"),
        ("", f"{NEW}\n"),
        ("\ufeff", f"\ufeff{NEW}\n"),
        ("\n\n", f"\n\n{NEW}\n"),
        (ENTRY, f"{ENTRY}{NEW}\n"),
        ("- [A](a.md)", f"- [A](a.md)\n{NEW}"),
        ("- [A](a.md)\r\n", f"- [A](a.md)\r\n{NEW}\r\n"),
        ("- [A](a.md)\r\n- [B](b.md)", f"- [A](a.md)\r\n- [B](b.md)\r\n{NEW}"),
        ("# T\n- [A](a.md)\r\n# U\n", f"# T\n- [A](a.md)\r\n{NEW}\r\n# U\n"),
        ("\ufeff- [A](a.md)\n", f"\ufeff- [A](a.md)\n{NEW}\n"),
        # behind the list, before what follows it
        (f"# Title\n\n{ENTRY}\n## Notes\n\nprose\n", f"# Title\n\n{ENTRY}{NEW}\n\n## Notes\n\nprose\n"),
        (f"{ENTRY}  goes on\n\n  and on\n\nprose\n", f"{ENTRY}  goes on\n\n  and on\n{NEW}\n\nprose\n"),
        (f"{ENTRY}wrapped by an editor\n\nprose\n", f"{ENTRY}wrapped by an editor\n{NEW}\n\nprose\n"),
        (f"{ENTRY}  ```\n  code\n  ```\n# T\n", f"{ENTRY}  ```\n  code\n  ```\n{NEW}\n# T\n"),
        ("* [A](a.md)\n  + [B](b.md)\n    more\n* plain\n", f"* [A](a.md)\n  + [B](b.md)\n    more\n{NEW}\n* plain\n"),
        ("1. [A](a.md)\n2. [B](b.md)\n", f"1. [A](a.md)\n2. [B](b.md)\n{NEW}\n"),
        ("| [A](a.md) | a |\n| b | c |\n", f"| [A](a.md) | a |\n| b | c |\n{NEW}\n"),
        ("> [A](a.md)\n> quoted\n\nx\n", f"> [A](a.md)\n> quoted\n{NEW}\n\nx\n"),
        ("[A](a.md)\n---\nx\n", f"[A](a.md)\n---\nx\n{NEW}\n"),
        (f"{ENTRY}---\nx\n", f"{ENTRY}{NEW}\n---\nx\n"),
        # no list yet
        ("# Title\n", f"# Title\n\n{NEW}\n"),
        ("# Title", f"# Title\n\n{NEW}"),
        ("# Title\n\n", f"# Title\n\n{NEW}\n"),
        ("- plain\n", f"- plain\n{NEW}\n"),
        ("See [A](a.md) for more.\n", f"See [A](a.md) for more.\n\n{NEW}\n"),
        # where the model sees it
        ("<!--\n- [A](a.md)\n-->\n", f"<!--\n- [A](a.md)\n-->\n\n{NEW}\n"),
        (f"{ENTRY}<!--\n- [B](b.md)\n-->\n", f"{ENTRY}{NEW}\n<!--\n- [B](b.md)\n-->\n"),
        (f"{ENTRY}```\n- [B](b.md)\n```\n", f"{ENTRY}{NEW}\n```\n- [B](b.md)\n```\n"),
        ("Prose\n\n```\nnever closed\n", f"Prose\n\n{NEW}\n```\nnever closed\n"),
        ("---\n- [A](a.md)\n---\n", f"---\n- [A](a.md)\n---\n\n{NEW}\n"),
        ("---\n- [A](a.md)\n---\n```\nnever closed\n", f"---\n- [A](a.md)\n---\n{NEW}\n```\nnever closed\n"),
    ],
)  # fmt: skip
def test_insert(before, after):
    """A new entry comes at the list's end, seen by the model, and ends as its neighbour does."""
    made = insert(None if before is None else before.encode(), NEW)
    assert made.decode() == after
    assert "New" in inject(made, CAPS).text


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("<!-- never closed\n- [A](a.md)\n", "- [New](new.md) — ends --> it"),
        ("---\n- [A](a.md)\n", "- [New](new.md) — ends --- it"),
    ],
)
def test_a_hook_that_would_hide_others(before, line):
    """A line that would close what is open before it goes before it."""
    assert insert(before.encode(), line).decode() == f"{line}\n{before}"


def test_a_fence_that_becomes_part_of_the_list():
    """Where nothing else helps, what was hidden may come to light by a new entry; nothing goes out of sight."""
    before = "| [B](b.md) | x |\n  ```\nprose with [a](a.md)\n"
    made = insert(before.encode(), NEW)
    assert made.decode() == f"{NEW}\n{before}"
    assert [entry[4] for entry in entries(before.encode())] == [False, True]
    assert [entry[4] for entry in entries(made)] == [False] * 3


def test_no_place():
    """Where no entry can be seen none is written, and it is said what to do."""
    with pytest.raises(Refused) as refused:
        insert(b"   <!-- never closed\n- [A](a.md)\n", "- [New](new.md) \u2014 ends --> it")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("- [记忆](a.md)\n".encode("gbk"), Refused, "not UTF-8: it can be read, not written"),
        ("\ufeff- [A](a.md)\n".encode("utf-16-le"), Refused, "not UTF-8"),
        (b"\xef\xbb\xbf- [A](a.md) \xff\n", Refused, "not UTF-8"),
        (b"- [A](a.md)\n\0", Unreadable, "no text"),
    ],
)
def test_only_utf8_is_written(content, error, says):
    """An index that is not UTF-8 is refused by every edit."""
    for edit in (
        lambda: insert(content, NEW),
        lambda: remove(content, "a.md"),
        lambda: replace_hook(content, "a.md", "", "x"),
        lambda: retarget(content, 1, "a.md", "b.md"),
        lambda: put_back(content, None, [lost("b.md")]),
        lambda: drop_lines(content, [1]),
    ):
        with pytest.raises(error, match=says) as refused:
            edit()
        assert refused.value.hint


def test_past_the_cap():
    """An index that is full gets its entry all the same; that the model does not see it is the audit's word."""
    content = "".join(f"- [F{n}](f{n}.md)\n" for n in range(200)).encode()
    assert insert(content, NEW) == content + f"{NEW}\n".encode()


# -- random indexes ------------------------------------------------------------------------------------------

PIECES = (
    "# Heading", "## Deeper", "prose of a line", "prose, and [a](m1.md) in it", "- plain bullet", "- [x] done",
    "- [A]({}) — hook", "* [A]({}) - hook", "+ [A]({}): hook", "  - [A]({}) – nested", "    - [A]({})", "1. [A]({})",
    "- [A]({}) — hook and [b](m2.md)", "> - [A]({}) — quoted", "| [A]({}) | cell |", "[A]({}) — bare", "## [A]({})",
    "<!-- note -->", "<!--", "-->", "```", "~~~", "  ```", "---", "***", "", "", "  indented", "    deeper", "\tTab",
    "<div>", "</div>", "> quote", "> WARNING: MEMORY.md is 300 lines", "- [A](<{}>) — angle", "**[A]({})** — bold",
    "- [A]({}) — hook  ", "   <!-- indented -->", "- [A]({}) <!-- x -->", "![A]({})", "`[A]({})`",
)  # fmt: skip


@st.composite
def indexes(draw):
    """Draw the bytes of an index: any pieces in any order, any line ends, with or without mark and last end."""
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=14))
    lines = [piece.format(f"f{number % 9}.md") for number, piece in enumerate(pieces)]
    if draw(st.booleans()):
        lines = ["---", *lines]
    ends = draw(st.sampled_from((("\n",), ("\r\n",), ("\n", "\r\n"), ("\n", "\r\n", "\r"))))
    text = "".join(line + draw(st.sampled_from(ends)) for line in lines)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return (draw(st.sampled_from(("", "", "\ufeff"))) + text).encode()


def numbered(content):
    """Give the lines of an index with their ends."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", content.decode().removeprefix("\ufeff"))


@settings(max_examples=200, deadline=None)
@given(indexes(), st.sampled_from((NEW, "- [New](new.md)", entry_text("[n]", "n w.md", "a --- b --> c `d"))))
def test_insert_then_remove(content, line):
    """A new entry is there and seen, all others read as before, no other byte changes, and it can be taken out again."""
    try:
        made = insert(content, line)
    except Refused:
        assume(False)
    before, after = entries(content), entries(made)
    ((target, title, hook, _, _),) = entries(line.encode())
    mine = [entry for entry in after if entry[0] == target]
    assert [(entry[:3], entry[4]) for entry in mine] == [((target, title, hook), False)]
    others = [entry for entry in after if entry[0] != target]
    assert [entry[:3] for entry in others] == [entry[:3] for entry in before]
    assert all(was[4] or not now[4] for was, now in zip(before, others, strict=True))
    # A hidden one may come to light by a fence that never closes, where nothing else would show the new one.
    lit = [e[4] for e in others] != [e[4] for e in before]
    assert not lit or b"```" in content or b"~~~" in content
    sheet = read_sheet(made)
    assert target not in sheet.page.swallowed
    assert line in inject(made, ROOMY).text.split("\n") or "\r" in made.decode()
    at = mine[0][3]
    rest = [text.strip("\r\n") for text in numbered(made)]
    assert rest.pop(at - 1) == line
    old = [text.strip("\r\n") for text in numbered(content)]
    again = remove(made, target)
    assert made.startswith(b"\xef\xbb\xbf") == content.startswith(b"\xef\xbb\xbf")
    if lit:
        assert "".join(numbered(again)).split() == "".join(numbered(content)).split()
    elif read_sheet(content).page.own or rest == old:
        assert again == content
        assert rest == old
    else:  # a blank line that set the first list apart from prose stays
        assert again.rstrip(b"\r\n") == content.rstrip(b"\r\n")


@settings(max_examples=200, deadline=None)
@given(indexes(), st.integers(0, 8))
def test_remove(content, number):
    """Only an entry's own lines go, with what is indented below; every other line stays as it is."""
    target = f"f{number}.md"
    own = [entry.line for entry in read_sheet(content).own(target)]
    made = remove(content, target)
    if made is None:
        assert not own
        return
    assert own
    assert not read_sheet(made).own(target)
    left = iter([line.strip("\r\n") for line in numbered(content)])
    # A blank line may stand in for what is gone, so that no `---` becomes the first line.
    assert all(line.strip("\r\n") in left for line in numbered(made) if line.strip())
    rest = [e[:2] for e in entries(content) if e[0] != target and not e[4] and e[3] not in own]
    if not any(
        mark in content for mark in (b"```", b"~~~", b"<!--", b"---")
    ):  # one that stays open may reach further
        assert [e[:2] for e in entries(made) if e[0] != target and not e[4]] == rest


@settings(max_examples=200, deadline=None)
@given(indexes())
def test_put_back_what_was_removed(content):
    """An entry that was taken out comes back, is seen, and says what it said; once is enough."""
    sheet = read_sheet(content)
    named = [entry.target for entry in sheet.page.entries]
    for entry in sheet.page.own:
        made = remove(content, entry.target) if named.count(entry.target) == 1 else None
        if made is None:
            continue
        loss = lost(entry.target, entry.line, entry.title, entry.hook)
        try:
            again = put_back(made, content, [loss])
        except Refused:
            assert b"<!--" in content or b"---" in content
            continue
        ((target, title, hook, _, hidden),) = [e for e in entries(again) if e[0] == entry.target]
        said = entry.hook.rstrip(" |")  # behind a byte order mark a table row's end is read with its hook
        assert (target, title, hidden) == (entry.target, entry.title, False)
        assert hook.rstrip(" |") in {said, hook_text(said)}
        assert put_back(again, content, [loss]) == again
        # What stays open may reach further without the line, and a table row behind a mark reads otherwise.
        odd = any(mark in content for mark in (b"```", b"~~~", b"<!--", b"---", b"\xbf|", b"\n| ", b"\r| "))
        if sheet.lines[entry.line - 1].startswith(("- ", "* ", "+ ")) and not odd:
            assert sorted("".join(numbered(again)).split()) == sorted("".join(numbered(content)).split())


@pytest.mark.parametrize(
    "name",
    [
        "blockquote-preamble",
        "en-one-unindexed",
        "es-no-front-matter",
        "flat-types",
        "index-one-level-up",
        "ko-clean",
    ],
)
def test_samples_bear_every_edit(name):
    """On real indexes each entry can be taken out and put back to the byte, and a new one comes and goes."""
    content = (SAMPLES / name / "MEMORY.md").read_bytes()
    assert remove(insert(content, NEW), "new.md") == content
    for entry in read_sheet(content).page.own:
        less = remove(content, entry.target)
        assert less is not None
        assert len(less) < len(content)
        assert put_back(less, content, [lost(entry.target, entry.line)]) == content


# -- changing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "old", "new", "made"),
    [
        ("- [A](a.md) — old", "old", "new", "- [A](a.md) — new"),
        ("- [A](a.md) — old  ", " old ", "new", "- [A](a.md) — new  "),
        ('* [A](<a.md> "tip"): old', "old", "new", '* [A](<a.md> "tip"): new'),
        ("- **[A](a.md)** - old", "old", "new", "- **[A](a.md)** - new"),
        ("- [A](a.md)", "", "new", "- [A](a.md) — new"),
        ("- [A](a.md) —  ", "", "new", "- [A](a.md) — new  "),
        ("- [A](a.md)  ", "", "new", "- [A](a.md) — new  "),
        ("- [A](a.md) — old", "old", "", "- [A](a.md)"),
        ("- [A](a.md): old", "old", "\n", "- [A](a.md)"),
        ("- [A](a.md) — old", "old", "two\nlines", "- [A](a.md) — two lines"),
        ("- [A](a.md) — old", "old", "[b](b.md)", "- [A](a.md) — [b\\](b.md)"),
        ("| [A](a.md) | old |", "old", "a|b", "| [A](a.md) | a\\|b |"),
        ("[A](a.md) — a.md — old", "a.md — old", "new", "[A](a.md) — new"),
        ("- [A](a.md) — old", "other", "new", None),
        ("- [A](a.md) — old", "old", "old", None),
        ("- [A](b.md) — old", "old", "new", None),
        ("See [A](a.md) — old", "old", "new", None),
        ("```\n- [A](a.md) — old\n```", "old", "new", None),
        ("---\n- [A](a.md) — old", "old", "a --- b", None),
        ("| [A](a.md) | |", "", "new", None),
    ],
)  # fmt: skip
def test_replace_hook(line, old, new, made):
    """Only a hook that says what was expected is replaced, and nothing but it."""
    around = "# T\r\n\r\n{}\n- [Z](z.md) — z" if not line.startswith("---") else "{}\n- [Z](z.md) — z"
    changed = replace_hook(around.format(line).encode(), "a.md", old, new)
    assert (changed and changed.decode()) == (made and around.format(made))


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("- [A](old.md) — old.md", "- [A](new%20one.md) — old.md"),
        ("- [A](<old.md>) — x", "- [A](<new%20one.md>) — x"),
        ('- [A]( old.md "tip" ) — x', '- [A]( new%20one.md "tip" ) — x'),
        ("- [A](./old.md#part) — x", "- [A](new%20one.md#part) — x"),
        ("- [A](o%6Cd.md) and [B](old.md)", "- [A](new%20one.md) and [B](new%20one.md)"),
        ("- [A [b](old.md)", "- [A [b](new%20one.md)"),
        ("- [`A](old.md) x`", "- [`A](new%20one.md) x`"),
        ("- [A](older.md)", "- [A](older.md)"),
        ("![A](old.md)", "![A](old.md)"),
    ],
)  # fmt: skip
def test_retarget(line, made):
    """Only the characters of the links' target change."""
    around = "\ufeff# [O](old.md)\r\n{}\r\n[O](old.md)"
    assert retarget(around.format(line).encode(), 2, "old.md", "new one.md").decode() == around.format(made)


def test_retarget_nowhere():
    """A line that is not there, or holds no such link, changes nothing; a name that no link has is refused."""
    content = b"- [A](a.md)\n"
    assert retarget(content, 7, "a.md", "b.md") == content
    assert retarget(content, 0, "a.md", "b.md") == content
    with pytest.raises(Refused):
        retarget(content, 1, "a.md", "a\\b.md")


# -- taking out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- [A](a.md)\n", ""),
        ("\ufeff- [A](a.md)\n", "\ufeff"),
        ("- [B](b.md)\n- [A](a.md)", "- [B](b.md)"),
        ("- [A](a.md)\r\n- [B](b.md)\n", "- [B](b.md)\n"),
        ("- [A](a.md) — x\n  more\n\n  and more\n\nprose\n", "\nprose\n"),
        ("- [A](a.md) — x\n  more\n  - [B](b.md)\n    of b\n", "  - [B](b.md)\n    of b\n"),
        ("- [A](a.md) — x\nnot indented\n", "not indented\n"),
        ("  - [A](a.md)\n  - plain\n", "  - plain\n"),
        ("- [A](a.md) — one\n- [B](b.md)\n- [A](a.md) — two\n", "- [B](b.md)\n"),
        ("- [A](a.md)\n\nSee [A](a.md).\n- [B](b.md) like [A](a.md)\n", "\nSee [A](a.md).\n- [B](b.md) like [A](a.md)\n"),
        ("- [A](a.md)\n<!--\n- [A](a.md)\n-->\n", "<!--\n- [A](a.md)\n-->\n"),
        ("---\n- [A](a.md)\n---\n- [B](b.md)\n", "---\n---\n- [B](b.md)\n"),
        ("- [A](a.md)\n  ```\n  x\n  ```\n- [B](b.md)\n", "- [B](b.md)\n"),
        # no `---` becomes the first line, which would swallow what follows
        ("- [A](a.md)\n---\nprose\n---\n- [B](b.md)\n", "\n---\nprose\n---\n- [B](b.md)\n"),
        ("- [A](a.md)\n  more\n---\n- [C](c.md)\n---\n", "\n---\n- [C](c.md)\n---\n"),
        ("See [A](a.md).\n", None),
        ("```\n- [A](a.md)\n```\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_remove_cases(before, after):
    """An entry's own lines go; mentions, and what the model does not see, stay."""
    made = remove(before.encode(), "a.md")
    assert (None if made is None else made.decode()) == after


def test_drop_lines():
    """Lines go by number, and the last line's end stays as it was."""
    content = b"a\r\nb\nc"
    assert drop_lines(content, [1]) == b"b\nc"
    assert drop_lines(content, {2, 3}) == b"a"
    assert drop_lines(content, ()) == content
    assert drop_lines(content, [9]) == content
    assert drop_lines("\ufeffa".encode(), [1]) == "\ufeff".encode()


# -- putting back --------------------------------------------------------------------------------------------

FORMER = "# M\n\n- [A](a.md) — a\n- [B](b.md) — b\n  more of b\n- [C](c.md) — c\n\n## Sec\n\n* [D](d.md): d\n* [E](e.md) — e\n"


@pytest.mark.parametrize(
    ("now", "targets", "after"),
    [
        # a middle one, with what was below it
        ("# M\n\n- [A](a.md) — a\n- [C](c.md) — c\n", "b", "# M\n\n- [A](a.md) — a\n- [B](b.md) — b\n  more of b\n- [C](c.md) — c\n"),
        # the neighbours say something else by now, and the file ends its lines otherwise
        ("- [A](a.md) — new\r\n- [C](c.md)\r\n", "b", "- [A](a.md) — new\r\n- [B](b.md) — b\r\n  more of b\r\n- [C](c.md)\r\n"),
        # the first: behind the heading and its blank line
        ("# M\n\n- [B](b.md) — b\n", "a", "# M\n\n- [A](a.md) — a\n- [B](b.md) — b\n"),
        # nothing before is left: before the nearest after it
        ("- [C](c.md) — c\n", "ab", "- [A](a.md) — a\n- [B](b.md) — b\n  more of b\n- [C](c.md) — c\n"),
        # several, whatever the order of the losses
        ("# M\n\n- [C](c.md) — c\n- [N](n.md)\n", "dba", "# M\n\n- [A](a.md) — a\n- [B](b.md) — b\n  more of b\n- [C](c.md) — c\n* [D](d.md): d\n- [N](n.md)\n"),
        # their heading went as well
        ("# M\n\n- [A](a.md) — a\n", "de", "# M\n\n- [A](a.md) — a\n* [D](d.md): d\n* [E](e.md) — e\n"),
        # nothing of the former index is left
        ("", "ad", "- [A](a.md) — a\n* [D](d.md): d\n"),
        ("Prose.", "ad", "Prose.\n\n- [A](a.md) — a\n* [D](d.md): d"),
        # what is there again is left alone
        ("- [A](a.md) — changed\n", "a", "- [A](a.md) — changed\n"),
        # what was below it stayed where it was
        ("# M\n\n- [A](a.md) — a\n  more of b\n- [C](c.md) — c\n", "b", "# M\n\n- [A](a.md) — a\n- [B](b.md) — b\n  more of b\n- [C](c.md) — c\n"),
        # not where the model would not see it
        ("# M\n\n```\n- [A](a.md) — a\n```\n", "c", "# M\n\n- [C](c.md) — c\n```\n- [A](a.md) — a\n```\n"),
    ],
)  # fmt: skip
def test_put_back(now, targets, after):
    """Lost lines come back verbatim, each next to what stood before it, in their order."""
    losses = [lost(f"{letter}.md", title="?", hook="?") for letter in targets]
    assert put_back(now.encode(), FORMER.encode(), losses).decode() == after


def test_put_back_without_the_former():
    """What no kept version holds is written anew, at the end of the list, in the given order."""
    losses = [lost("x.md", 9, "X", "the x"), lost("a.md", 3, "A", ""), Loss("contention", 1, "MEMORY.md")]
    made = "- [B](b.md) — b\n- [X](x.md) — the x\n- [A](a.md)\n"
    for former in (None, b"\xff\xfe\x00", "- [记](z.md)\n".encode("gbk"), b"- [Z](z.md)\n"):
        assert put_back("- [B](b.md) — b\n".encode(), former, losses).decode() == made


def test_put_back_of_mentions():
    """What was only mentioned comes back with its line; prose is never written twice."""
    former = b"- [A](a.md) \xe2\x80\x94 see [B](b.md)\n\nAlso [C](c.md).\n"
    made = put_back(b"# M\n", former, [lost("a.md", 1), lost("b.md", 1), lost("c.md", 3, "C", "")])
    assert made.decode() == "# M\n\n- [A](a.md) — see [B](b.md)\n- [C](c.md)\n"


def test_edits_are_linear():
    """An index as long as a file may be is edited in seconds."""
    content = b"".join(b"- [F%d](f%d.md) \xe2\x80\x94 words\n  more\n" % (n, n) for n in range(6_000))
    assert len(insert(content, NEW)) > len(content)
    made = remove(content, "f3000.md")
    assert put_back(made, content, [lost("f3000.md", 6_001)]) == content
