"""The plain index: what is known of it without a reader is what the reader says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.entry_lines import entry_text, read_sheet, with_entry
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.plain import MOST_BYTES, append, grown

STAT = FileStat(1, 2, 3, 4)
TEXTS = st.text(st.sampled_from("abc Ü漢😀-—:#*_!&.\"'/1["), max_size=12)
FILES = st.sampled_from(("a.md", "b_c.md", "d-e.md", "漢.md", "MEMORY.md", "sub/x.md", "f.MD", "g h.md"))
ENTRIES = st.builds(entry_text, TEXTS, FILES.filter(lambda file: file != "MEMORY.md"), TEXTS)
ODD = st.sampled_from(
    ("# Memory", "## More", "", "- [x](MEMORY.md)", "---", "```", "<!-- a", "-->", "prose", "- bare", "  - [n](n.md)",
     "> WARNING: MEMORY.md is large", "| [t](t.md) | x |", "- [r](a.md)\r", "# [h](h.md)", "- [w](w.md) — [v](v.md)")
)  # fmt: skip
PAGES = st.lists(ENTRIES | ENTRIES | ENTRIES | ODD, max_size=8).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)


def read(content):
    return parse_index("MEMORY.md", content, STAT, read_at_ns=5, caps=ZCODE.caps)


@given(PAGES, ENTRIES)
def test_an_appended_line_is_where_the_reader_puts_it(page, line):
    """Where the short way gives anything, it is byte for byte what the long way gives."""
    content = page.encode()
    made = append(content, line)
    assert made is None or made == with_entry(read_sheet(content), line).content


@given(PAGES, ENTRIES)
def test_a_grown_index_is_what_the_reader_reads(page, line):
    """Where the short way reads anything, it is field for field what the long way reads."""
    content = page.encode()
    longer = content + f"{line}\n".encode()
    found = grown(read(content), content, longer, STAT, read_at_ns=5, caps=ZCODE.caps)
    assert found is None or found == read(longer)


def test_the_usual_index_takes_the_short_way():
    """Headings, blanks and entries: both functions do answer (a test of equality alone would pass without)."""
    content = b"# Memory\n\n- [One](one.md) \xe2\x80\x94 first\n- [Two](two_b.md)\n"
    line = entry_text("Three", "three.md", "third: “it”")
    longer = append(content, line)
    assert longer == content + f"{line}\n".encode()
    found = grown(read(content), content, longer, STAT, read_at_ns=5, caps=ZCODE.caps)
    assert found is not None
    assert found == read(longer)
    assert found.entries[-1].target == "three.md"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- [One](one.md)",  # no end of the last line
        b"- [One](one.md)\r\n",
        b"- [One](one.md)\n\n",  # the list does not end the file
        b"\xef\xbb\xbf- [One](one.md)\n",
        b"<!--\n- [One](one.md)\n",
        b"```\n- [One](one.md)\n",
        b"---\n- [One](one.md)\n",
        b"- [One](one.md)\nprose\n",
        b"- [One](one.md) \xff\n",
        b"- [One](one.md)\n" * (MOST_BYTES // 16 + 1),
    ],
)
def test_what_is_not_plain_is_left_to_the_reader(content):
    """Everything that could hide, tear or swallow a line takes the long way."""
    assert append(content, "- [New](new.md)") is None


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        (1, "- [One](one.md)\n"),  # a duplicate
        (1, "- [New](new.md) — " + "x" * 200 + "\n"),  # a long line
        (200, "- [New](new.md)\n"),  # over the cap
        (179, "- [New](new.md)\n"),  # near it
        (1, "- [New](new.md)\n- [Newer](newer.md)\n"),  # two at once
    ],
)
def test_what_has_remarks_is_left_to_the_reader(lines, more):
    """An index of which there is something to say is read as a whole."""
    content = "".join(f"- [One](one{n or ''}.md)\n" for n in range(lines)).encode()
    longer = content + more.encode()
    assert grown(read(content), content, longer, STAT, read_at_ns=5, caps=ZCODE.caps) is None


def test_another_index_is_not_grown():
    """What was read of other bytes says nothing of these."""
    one, two = b"- [One](one.md)\n", b"- [Two](two.md)\n"
    longer = two + b"- [New](new.md)\n"
    assert grown(read(one), two, longer, STAT, read_at_ns=5, caps=ZCODE.caps) is None
