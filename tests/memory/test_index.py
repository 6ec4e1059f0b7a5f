"""An index is read as the model gets it, and says what is wrong with it by itself."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import MAX_REMARKS, entry_changes, inject, parse_index, unreadable_index

SAMPLES = Path(__file__).parent.parent / "samples"
CAPS = Caps(200, 25_000)
STAT = FileStat(mtime_ns=1, ctime_ns=2, size=3, inode=4)
INFO = {"entry-inline", "entry-long", "entry-hidden"}


def index(content):
    """Parse a text or bytes as MEMORY.md."""
    content = content if isinstance(content, bytes) else content.encode()
    return parse_index("MEMORY.md", content, STAT, read_at_ns=5, caps=CAPS)


def remarks(content, code=None):
    """Give the remarks of one code, or those that are worth a warning."""
    found = index(content).remarks
    return [remark for remark in found if (remark.code == code if code else remark.code not in INFO)]


@pytest.mark.parametrize(
    ("name", "entries", "hooks"),
    [
        ("blockquote-preamble", 14, 14), ("en-one-unindexed", 28, 28), ("es-no-front-matter", 15, 15),
        ("flat-types", 11, 11), ("index-one-level-up", 3, 3), ("ko-clean", 13, 13),
    ],
)  # fmt: skip
def test_samples_are_quiet(name, entries, hooks):
    """On a healthy index nothing is said, every entry is found with its hook, and each target is there."""
    content = (SAMPLES / name / "MEMORY.md").read_bytes()
    read = index(content)
    assert remarks(content) == []
    assert len(read.entries) == entries
    assert sum(1 for entry in read.entries if entry.hook) == hooks
    assert all((SAMPLES / name / entry.target).is_file() for entry in read.entries)


def test_record():
    """The record holds what stat said, the hashes, and the counts before the caps."""
    content = b"- [A](a.md)\n\n- [B](b.md)\n"
    read = index(content)
    assert (read.file, read.stat, read.read_at_ns, read.encoding) == ("MEMORY.md", STAT, 5, "utf-8")
    assert read.content_hash == hashlib.sha256(content).hexdigest()
    assert read.text_hash == hashlib.sha256(content.strip()).hexdigest()
    assert (read.lines, read.units, read.truncated, read.beyond, read.swallowed) == (3, 24, False, (), ())


def test_unreadable():
    """An index that cannot be read says why and what to do, and never looks empty."""
    read = unreadable_index("MEMORY.md", STAT, "Permission denied", read_at_ns=5)
    (remark,) = read.remarks
    assert remark.code == "index-unreadable"
    assert "Permission denied" in remark.message
    assert remark.hint
    assert (read.content_hash, read.text_hash, read.encoding, read.entries) == (None, None, None, ())


@pytest.mark.parametrize(
    "content", [b"\0\1\2", b"- [A](a.md)\n\0", b"\xff\xff\xff\xff", "A密".encode("utf-16-be")]
)
def test_undecodable(content):
    """Bytes that ZCode cannot decode either are unreadable, with a hash, so that a change is seen."""
    read = index(content)
    assert [remark.code for remark in read.remarks] == ["index-unreadable"]
    assert read.content_hash == hashlib.sha256(content).hexdigest()
    assert (read.text_hash, read.encoding) == (None, None)


def test_half_written():
    """A UTF-8 index that ends within a character is told as unreadable, not as GBK."""
    content = "- [A](a.md) — 中文".encode()[:-1]
    assert [remark.code for remark in remarks(content)] == ["index-unreadable"]


@pytest.mark.parametrize(
    "content",
    [
        "- [A](a.md) — 密".encode("gbk"),
        b"\xff\xfe" + "- [A](a.md) — h".encode("utf-16-le"),
        b"\xef\xbb\xbf- [A](a.md) \xff",
    ],
)
def test_encoding(content):
    """What ZCode can read but others garble is told, and its entries are read."""
    assert [remark.code for remark in remarks(content)] == ["index-encoding"]
    assert [entry.target for entry in index(content).entries] == ["a.md"]


def test_utf8_with_a_mark_is_fine():
    """A byte order mark before UTF-8 is no defect."""
    assert remarks(b"\xef\xbb\xbf- [A](a.md)\n") == []


def test_swallowed():
    """A leading `---` that takes entries with it lists them, and where its end is."""
    (remark,) = remarks("---\n- [A](a.md)\n- [B](b.md) — x --- y\n- [C](c.md)\n")
    assert (remark.code, remark.line) == ("index-swallowed", 1)
    assert "a.md, b.md" in remark.message
    assert "line 3" in remark.message
    assert index("---\n- [A](a.md)\n---\n").swallowed == ("a.md",)


@pytest.mark.parametrize(
    "text",
    ["---\nname: x\n---\n- [A](a.md)\n", "---\n- [A](a.md)\n", "\n---\n- [A](a.md)\n---\n", "----\n- [A](a.md)\n---\n",
     "\ufeff---\n- [A](a.md)\n---\n", "---\n- [A](a.md)\n---\n- [A](a.md)\n"],
)  # fmt: skip
def test_not_swallowed(text):
    """Front matter without entries, a dash line that nothing ends, or one that is not first takes nothing."""
    assert remarks(text, "index-swallowed") == []


def lines(count, width=10):
    """Make an index of entries, each line `width` units long with its line end."""
    return "".join(f"- [T{n}](t{n}.md)".ljust(width - 2, "x") + "x\n" for n in range(count))


def test_over_lines():
    """Past the cap by lines: the targets that the model never sees, ten by name, and the first line of them."""
    (remark,) = remarks("# Head\n" + lines(213))
    assert (remark.code, remark.line) == ("index-over-lines", 201)
    assert "214 lines, 200 are the most" in remark.message
    assert "t199.md, t200.md" in remark.message
    assert remark.message.endswith("t208.md and 4 more")
    read = index("# Head\n" + lines(213))
    assert read.truncated
    assert len(read.beyond) == 14


def test_over_units():
    """Past the cap by units, which are UTF-16 units, not bytes."""
    (remark,) = remarks(lines(126, 200))
    assert (remark.code, remark.line) == ("index-over-units", 126)
    assert "t125.md" in remark.message
    assert index(lines(126, 200)).beyond == ("t125.md",)
    assert remarks("- [A](a.md) — " + "中" * 20_000) == []


def test_over_both():
    """Past both caps: both are told, and what is lost is lost by the one that cuts first."""
    found = remarks(lines(300, 200))
    assert [remark.code for remark in found] == ["index-over-lines", "index-over-units"]
    assert {remark.line for remark in found} == {126}
    assert len(index(lines(300, 200)).beyond) == 175


def test_over_without_loss():
    """A cap that is passed by text alone is told as that."""
    (remark,) = remarks(lines(150) + "\n".join("# x" for _ in range(60)))
    assert remark.code == "index-over-lines"
    assert "no entry is lost" in remark.message


@pytest.mark.parametrize(
    ("text", "near"),
    [(lines(179), False), (lines(180), True), (lines(200), True), (lines(112, 200), False), (lines(113, 200), True),
     (lines(125, 200), True), (lines(150) + "\n" * 60, False), ("<!--\n" + lines(100) + "-->\n" + lines(100), False)],
)  # fmt: skip
def test_near_cap(text, near):
    """From 90 % of a cap on, counted after the strip, it is near, and says nothing else."""
    assert [remark.code for remark in remarks(text)] == ["index-near-cap"] * near


def test_outside():
    """A target that leaves the directory is told once, by its target."""
    found = remarks(
        "- [A](../a.md)\n- [B](/x/b.md)\n- [A](../a.md)\n- [C](x/../c.md)\n<!-- [D](../d.md) -->\n",
        "entry-outside",
    )
    assert [(remark.target, remark.line) for remark in found] == [("../a.md", 1), ("/x/b.md", 2)]


def test_duplicates():
    """Each entry after a target's first is told, by target and occurrence."""
    text = "- [A](a.md) — see [B](b.md)\n- [B](b.md)\n- [A](./a.md)\n- [A](a.md)\n<!-- [A](a.md) -->\nAs [A](a.md) says.\n"
    found = remarks(text, "entry-duplicate")
    assert [(remark.target, remark.line) for remark in found] == [("a.md#2", 3), ("a.md#3", 4)]
    assert "line 1" in found[0].message


def test_swallowed_entries_are_no_duplicates():
    """The entry that the model sees is not told as the double of one that it does not."""
    assert remarks("---\n- [A](a.md)\n---\n- [A](a.md)\n") == []


def test_hidden():
    """A hidden entry is told by its target."""
    found = remarks("<!-- [A](a.md) -->\n```\n- [B](b.md)\n- [B](b.md)\n```\n- [C](c.md)\n", "entry-hidden")
    assert [(remark.target, remark.line) for remark in found] == [("a.md", 1), ("b.md", 3)]


def test_inline_and_long_lines_are_told_by_their_text():
    """Their target is a hash of the line, the same wherever it stands; no word of it is quoted."""
    long = "- [A](a.md) — " + "secret " * 40
    text = f"secret words\n\n{long}\n\nsecret words\n"
    (inline,) = remarks(text, "entry-inline")
    (told,) = remarks(text, "entry-long")
    moved = index("# Head\n\n" + text)
    assert {inline.target, told.target} == {remark.target for remark in moved.remarks}
    assert inline.target == hashlib.sha256(b"secret words").hexdigest()[:12]
    assert (inline.line, told.line) == (1, 3)
    assert "secret" not in inline.message + told.message + str(inline.hint) + str(told.hint)


def test_warning_on_disk():
    """ZCode's own warning in the file is told once, with its first line."""
    text = "- [A](a.md)\n\n> WARNING: MEMORY.md is 201 lines (limit: 200).\n> WARNING: MEMORY.md is 26KB.\n"
    (remark,) = remarks(text)
    assert (remark.code, remark.line) == ("warning-on-disk", 3)
    assert remarks(text, "entry-inline") == []
    assert remarks("```\n> WARNING: MEMORY.md is 201 lines\n```\n> WARNING: other\n") == []


def test_warning_behind_the_cut():
    """The warning is where ZCode puts it: at the end, behind 200 lines."""
    found = remarks(lines(200) + "\n> WARNING: MEMORY.md is 204 lines (limit: 200).\n")
    assert [remark.code for remark in found] == ["index-over-lines", "warning-on-disk"]


def test_messages_are_harmless():
    """Control and direction characters of a target do not reach a message."""
    text = "- [A](../a\x1b[2J\u202e.md)\n" * 2
    for remark in index(text).remarks:
        assert not set(remark.message + str(remark.hint)) & set("\x1b\u202e")


def test_many_remarks_are_bounded():
    """Of one defect that fills the file only so many are told, and the others are counted."""
    found = remarks("- [A](a.md)\n" * 1_000, "entry-duplicate")
    assert len(found) == MAX_REMARKS
    assert found[-1].message.endswith(f"(and {999 - MAX_REMARKS} more like this)")


def test_inject_is_what_is_hashed():
    """The text's hash and counts are those of the prompt."""
    content = ("<!-- x -->\n" + lines(250, 60)).encode()
    injection = inject(content, CAPS)
    read = index(content)
    assert injection is not None
    assert (read.text_hash, read.lines, read.units) == (injection.text_hash, injection.lines, injection.units)


@given(st.binary(max_size=300))
def test_any_bytes(content):
    """No bytes raise, and every string can be written as UTF-8."""
    read = index(content)
    assert read.content_hash == hashlib.sha256(content).hexdigest()
    for entry in read.entries:
        (entry.target + entry.title + entry.hook).encode()
    for remark in read.remarks:
        (remark.message + str(remark.target)).encode()


def test_lone_surrogates_of_utf16():
    """Half a surrogate pair in a UTF-16 index becomes a character that can be sent."""
    content = b"\xff\xfe" + "- [A\ud83d](a\udc00.md) — h\ud83d".encode("utf-16-le", "surrogatepass")
    (entry,) = index(content).entries
    assert (entry.title, entry.target, entry.hook) == ("A\ufffd", "a\ufffd.md", "h\ufffd")


def changes(before, after):
    """Tell the changes between two texts by target."""
    told = entry_changes(
        before if before is None else index(before), after if after is None else index(after)
    )
    return tuple([entry.target for entry in part] for part in (told.added, told.removed, told.changed))


A, B, C = "- [A](a.md) — one\n", "- [B](b.md) — two\n", "- [C](c.md) — three\n"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (A + B, A + B, ([], [], [])),
        (A + B, "# Head\n\n" + B + A, ([], [], [])),
        (None, A + B, (["a.md", "b.md"], [], [])),
        (A + B, None, ([], ["a.md", "b.md"], [])),
        (None, None, ([], [], [])),
        ("", A, (["a.md"], [], [])),
        (A + B, B + C, (["c.md"], ["a.md"], [])),
        (A, A.replace("one", "other"), ([], [], ["a.md"])),
        (A, A.replace("[A]", "[Z]"), ([], [], ["a.md"])),
        (A, "* [A](./a.md): one\n", ([], [], [])),
        (A, A + A, (["a.md"], [], [])),
        (A + A, A, ([], ["a.md"], [])),
        (A, A.replace("one", "new") + A, (["a.md"], [], [])),
        (A + A.replace("one", "new"), A.replace("one", "new") + A, ([], [], [])),
        (A, f"<!-- {A.strip()} -->\n", ([], ["a.md"], [])),
        (A, A + f"```\n{B}```\n", ([], [], [])),
        (C + B + A, "", ([], ["c.md", "b.md", "a.md"], [])),
    ],
)
def test_entry_changes(before, after, told):
    """Entries are paired by target; a moved line is no change, a hidden entry is none at all."""
    assert changes(before, after) == told


def test_changed_entries_are_told_as_they_are():
    """A changed entry carries its new words, a removed one its old ones."""
    told = entry_changes(index(A + B), index(A.replace("one", "other")))
    assert [entry.hook for entry in told.changed] == ["other"]
    assert [entry.hook for entry in told.removed] == ["two"]


def test_unreadable_is_not_empty():
    """An index that cannot be read tells neither that entries went nor that they came."""
    unread = unreadable_index("MEMORY.md", STAT, "Permission denied", read_at_ns=5)
    for before, after in ((index(A), unread), (unread, index(A)), (None, unread), (unread, None)):
        told = entry_changes(before, after)
        assert (told.added, told.removed, told.changed) == ((), (), ())


@given(
    st.lists(st.sampled_from([A, B, C, A.replace("one", "x")]), max_size=6),
    st.lists(st.sampled_from([A, B, C]), max_size=6),
)
def test_changes_add_up(before, after):
    """What was, less what went, plus what came, is as much as what is."""
    told = entry_changes(index("".join(before)), index("".join(after)))
    assert len(before) - len(told.removed) + len(told.added) == len(after)
