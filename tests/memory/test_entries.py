"""Entries are read tolerantly, and a line that is none is never taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory.entries import MAX_HOOK_CHARS, MAX_TITLE_CHARS, read_page
from zcsyncd.memory.injection import strip


def page(text, cut=None):
    """Read a text as the index MEMORY.md."""
    return read_page(strip(text), cut, own_name="MEMORY.md")


def entries(text):
    """Give the entries of a text as plain tuples, without line numbers."""
    return [(entry.target, entry.title, entry.hook) for entry in page(text).entries]


@pytest.mark.parametrize(
    "line",
    [
        "- [A](a.md) — h", "* [A](a.md) — h", "+ [A](a.md) — h", "1. [A](a.md) — h", "2) [A](a.md) — h",
        "• [A](a.md) — h", "    - [A](a.md) — h", "\t- [A](a.md) — h", "-   [A](a.md)   —   h  ", "- [A](a.md) - h",
        "- [A](a.md) – h", "- [A](a.md) -- h", "- [A](a.md): h", "- [A](a.md) : h", "- [A](a.md)—h", "- [A](a.md)：h",
        "- [A](a.md) h", "- [A](<a.md>) — h", "- [A](a.md#part) — h", "- [A](./a.md) — h", "- [A](x/../a.md) — h",
        '- [A](a.md "tip") — h', "- **[A](a.md)** — h", "- _[A](a.md)_: h", "- [ ] [A](a.md) — h", "- [x] [A](a.md) — h",
        "> - [A](a.md) — h", "[A](a.md) — h", "| [A](a.md) | h |", "- Since May: [A](a.md) — h", "- 🔥 [A](a.md) — h",
        "\ufeff- [A](a.md) — h", "\u3000- [A](a.md) — h", "- [A](%61.md) — h", "- [A](a.md) — h\r", "-[A](a.md) — h",
    ],
)  # fmt: skip
def test_forms(line):
    """Every usual way to write an entry gives the same one."""
    assert entries(line) == [("a.md", "A", "h")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("- [A](a.md)", [("a.md", "A", "")]),
        ("- [A](a.md) —", [("a.md", "A", "")]),
        ("- [A](a.md) -5 degrees", [("a.md", "A", "-5 degrees")]),
        ("- [](a.md) — h", [("a.md", "", "h")]),
        ("- [A (b) [c]](a(1).md) — h", [("a(1).md", "A (b) [c]", "h")]),
        ("- [a]b](a.md) — h", [("a.md", "a]b", "h")]),
        ("- [a ` b](a.md) — h ` i", [("a.md", "a ` b", "h ` i")]),
        (r"- [a\]b](a.md) — h", [("a.md", "a]b", "h")]),
        ("- [A](my file.md) — h", [("my file.md", "A", "h")]),
        ("- [A](a%20b.md) — h", [("a b.md", "A", "h")]),
        ("- [A](memory/a.md) — h", [("memory/a.md", "A", "h")]),
        ("- [A](../a.md) — h", [("../a.md", "A", "h")]),
        ("- [A](/x/a.md) — h", [("/x/a.md", "A", "h")]),
        ("- [A](docs/) — h", [("docs", "A", "h")]),
        ("- [A](a.md) — see [x](https://x.y)", [("a.md", "A", "see [x](https://x.y)")]),
        ("- [A](a.md) — b — c: d", [("a.md", "A", "b — c: d")]),
        ("## [A](a.md)", [("a.md", "A", "")]),
        ("See [A](a.md) for more.", [("a.md", "A", "")]),
        ("- More in [A](a.md) now", [("a.md", "A", "")]),
        ("- [x](https://x.y) [A](a.md) — h", [("a.md", "A", "h")]),
        (
            "- [A](a.md), [B](b.md) and [C](c.png)",
            [("a.md", "A", ", [B](b.md) and [C](c.png)"), ("b.md", "B", "")],
        ),
        ("- [A](a.png) — see [B](b.md)", [("a.png", "A", "see [B](b.md)"), ("b.md", "B", "")]),
    ],
)
def test_odd_forms(line, found):
    """Odd titles, targets and hooks are read as a person would read them."""
    assert entries(line) == found


@pytest.mark.parametrize(
    "line",
    [
        "", "plain", "# Memory", "---", "- bullet", "- [A]", "- [ ] todo", "- [A](https://x.y/a.md)", "- [A](mailto:a@b.md)",
        "- [A](#part)", "- [A]()", "- ![A](a.png)", "form: `- [Title](file.md) — hook`", "- [[a]]", "[r]: a.md",
        "- [A](MEMORY.md) — this file", "- [A](not a file)", r"- \[A](a.md)",
    ],
)  # fmt: skip
def test_no_entries(line):
    """URLs, anchors, images, code, wiki links and the index itself are no entries."""
    assert entries(line) == []


def test_lines_are_the_files():
    """Line numbers count every kind of line end, and what is dropped before the prompt."""
    text = "---\nk: v\n---\n\n<!-- a\nb -->\n- [A](a.md)\r\n\r- [B](b.md)\r- [C](c.md)\n\u2028- [D](d.md)"
    assert [(entry.target, entry.line) for entry in page(text).entries] == [
        ("a.md", 7), ("b.md", 9), ("c.md", 10), ("d.md", 11),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("<!-- - [A](a.md) — h -->", "a.md"),
        ("<!--\n- [A](a.md)\n- [B](b.md)\n-->\n- [C](c.md)", "a.md b.md"),
        ("<!-- [A](a.md) --> [B](b.md)", "a.md"),
        ("<!-- x\n--> [B](b.md)", ""),
        ("- x\n  <!-- [A](a.md) -->\n- [B](b.md)", "a.md"),
        ("<!-- - [A](a.md)\n- [B](b.md)", "a.md"),
        ("```\n- [A](a.md)\n```\n- [B](b.md)", "a.md"),
        ("```\n- [A](a.md)\n\n- [B](b.md)", "a.md b.md"),
        ("- x\n  ```\n  - [A](a.md)\n- [B](b.md)", "a.md"),
        ("<!--\n```\n-->\n- [A](a.md)", ""),
        ("> ~~~\n> [A](a.md)\n> ~~~", "a.md"),
        ("<div>\n- [A](a.md)\n</div>", ""),
    ],
)
def test_hidden(text, hidden):
    """An entry in a comment or a code fence is hidden, one beside it is not."""
    assert " ".join(entry.target for entry in page(text).entries if entry.hidden) == hidden


def test_mentions_are_not_own():
    """A link by the way is reached, but is no second entry of its target."""
    read = page("See [B](b.md).\n- [A](a.md) — see [B](b.md)\n- [B](b.md) — h\n- [B](b.md) — again")
    assert [entry.target for entry in read.entries] == ["b.md", "a.md", "b.md", "b.md", "b.md"]
    assert [(entry.target, entry.line) for entry in read.own] == [("a.md", 2), ("b.md", 3), ("b.md", 4)]


def test_beyond_the_cut():
    """What ends behind the cut is not seen, unless another entry shows the target."""
    text = "- [A](a.md)\n- [B](b.md) — h\n- [C](c.md)\n- [A](a.md)"
    read = page(text, text.index("— h"))
    assert read.seen == {"a.md", "b.md"}
    assert read.unseen(read.beyond) == ("c.md",)
    assert page(text, text.index("b.md")).unseen(["b.md"]) == ("b.md",)


def test_swallowed():
    """What begins in the leading block is swallowed, the entry included that its end cuts in two."""
    read = page("---\n- [A](a.md)\n- [B](b.md) — c --- d [C](c.md)\n- [D](d.md)")
    assert read.unseen(read.swallowed) == ("a.md", "b.md")
    assert read.seen == {"c.md", "d.md"}


def test_content_without_links():
    """Bullets and paragraphs without any link are told by their first line; all else is left alone."""
    text = (
        "# Head\n\nplain one\nplain two\n\n- bullet\n  goes on\n- goes on to\n  [A](a.md)\n- see https://x.y\n\n---\n"
        "> quoted\n\n```\ncode\n```\n<!-- c -->\n| a | b |\n|---|---|\n\n</tag>\n> WARNING: MEMORY.md is 3 lines\n"
    )
    assert page(text).inline == [(3, "plain one"), (6, "- bullet"), (13, "quoted")]


def test_a_line_after_an_entry_is_part_of_it():
    """A line right under an entry goes on with it and is no content of its own."""
    assert page("- [A](a.md) — h\n  more\n</momidat>\n").inline == []


def test_long_lines():
    """Entry lines of more than 200 characters are told, counted without the blanks around them."""
    long = "- [A](a.md) — " + "x" * 186
    assert len(long) == 200
    assert page(long + "   ").long == []
    assert page(long + "x").long == [(1, long + "x")]
    assert page(f"<!-- c\n{long}x\n-->\n").long == []


def test_titles_and_hooks_are_bounded():
    """A hook of megabytes is cut, so that an event can hold it."""
    (entry,) = page(f"- [{'t' * 2_000_000}](a.md) — {'h' * 2_000_000}").entries
    assert (len(entry.title), len(entry.hook)) == (MAX_TITLE_CHARS, MAX_HOOK_CHARS)
    (entry,) = page(f"- [T](a.md) — [x](https://y) {'h' * 2_000_000}").entries
    assert entry.target == "a.md"


@pytest.mark.parametrize(
    "piece",
    [
        "- [Some title](name.md) — hook words\n", "* [S](n.md): x\n", "\n", "\r", "x\n", "- x\n", "[](\n", "[](", "```\n",
        "> ", "- ", "<!-- a -->\n", "<!-- a\n", "---\n", "a\n---\n", "| [x](y.md) | z |\n", "[x]: y\n", "- [x](y%20.md) z\n",
        "- [x](a.md)\n\n<!-- c -->\n", "~~~\n- [a](b.md)\n",
    ],
)  # fmt: skip
def test_large_texts_end(piece):
    """Five megabytes of anything are done within the test's time."""
    text = piece * (5_000_000 // len(piece))
    page(text, 25_000)


WORD = st.text(
    alphabet=st.sampled_from("abz AZ09 -_.,:;!?'\"*/+&%$§äß中文한국🐛—–"), min_size=1, max_size=20
).map(str.strip)
TITLES = st.one_of(
    WORD, WORD.map(lambda word: f"a [{word}] b"), WORD.map(lambda word: f"({word}) `c`")
).filter(bool)
NAMES = st.text(alphabet=st.sampled_from("abcXYZ019-_.äß中한🐛"), min_size=1, max_size=20).filter(
    lambda name: name.strip(".") != ""
)


@given(TITLES, NAMES, WORD)
def test_written_form_round_trips(title, name, hook):
    """What is written as an entry is read as that entry."""
    # A hook that begins with a dash of its own is read as part of the separator.
    hook = hook.lstrip("—–-: ")
    line = f"- [{title}]({name}.md)" + (f" — {hook}" if hook else "")
    assert entries(line + "\n") == [(f"{name}.md", title, hook)]


@given(
    st.text(alphabet=st.sampled_from("-*1. \t[]()<>`~#!|:—\r\nab.md\\%/\u3000"), max_size=120),
    st.integers(0, 60),
)
def test_any_text(text, cut):
    """No text raises, and entries stand in the order of their lines."""
    read = page(text, cut)
    numbers = [entry.line for entry in read.entries]
    assert numbers == sorted(numbers)
    assert all(entry.target and "\n" not in entry.hook + entry.title for entry in read.entries)
