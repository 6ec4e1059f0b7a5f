"""A fact file's bytes become front matter, meaning, links and remarks, as ZCode reads them."""

import codecs
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.memory.fact import (
    FILE_NAME,
    FileStat,
    _targets_of,
    _without_fences,
    parse_fact,
    read_view,
    unreadable_fact,
)
from zcsyncd.memory.fences import Fences
from zcsyncd.memory.links import links
from zcsyncd.memory.recall import BODY_BYTES

SECRET = "the-body-says-so"
GOOD = f"""---
name: reply-style
description: Answers begin with the conclusion
metadata:
  node_type: memory
  type: user
---

{SECRET}
"""


def parse(text, file="a.md", **more):
    """Read text or bytes as a fact."""
    content = text if isinstance(text, bytes) else text.encode()
    return parse_fact(file, content, FileStat(5, 6, len(content), 7), read_at_ns=8, **more)


def front(*lines, body=SECRET):
    """Put lines between fences, and a body below."""
    return "\n".join(["---", *lines, "---", body, ""])


def told(fact):
    """Give a fact's remarks by code and line."""
    return [(remark.code, remark.line) for remark in fact.remarks]


DESCRIPTION = "description: d"
TYPE = "metadata: {type: user}"
LONG = [f"k{number}: a" for number in range(27)]

# (id, text, [(code, line)]): the codes a file shows by itself, and the line each points to.
SHOWN = [
    ("good", GOOD, []),
    ("crlf", GOOD.replace("\n", "\r\n"), []),
    ("bom", "\ufeff" + GOOD, []),
    ("no-body", GOOD.split("\n\n")[0], []),
    # front-matter-missing
    ("empty", "", [("front-matter-missing", 1)]),
    ("prose", f"# Title\n{SECRET}\n", [("front-matter-missing", 1)]),
    ("two-boms", "\ufeff\ufeff" + GOOD, [("front-matter-missing", 1)]),
    ("blank-line-first", "\n" + GOOD, [("front-matter-missing", 1)]),
    ("open-fence-blank", GOOD.replace("---\n", "--- \n", 1), [("front-matter-missing", 1)]),
    ("open-fence-four", "-" + GOOD, [("front-matter-missing", 1)]),
    ("two-crs", GOOD.replace("\n", "\r\r\n"), []),
    ("three-crs", GOOD.replace("\n", "\r\r\r\n"), [("front-matter-missing", 1)]),
    ("lone-cr", GOOD.replace("\n", "\r"), [("front-matter-missing", 1)]),
    # front-matter-unclosed
    ("never-closed", f"---\n{DESCRIPTION}\n\n{SECRET}\n", [("front-matter-unclosed", 1)]),
    ("only-fence", "---", [("front-matter-unclosed", 1)]),
    ("close-fence-blank", f"---\n{DESCRIPTION}\n---\t\n{SECRET}\n", [("front-matter-unclosed", 3)]),
    ("close-fence-indented", f"---\n{DESCRIPTION}\n ---\n{SECRET}\n", [("front-matter-unclosed", 3)]),
    ("close-dots", f"---\n{DESCRIPTION}\n...\n{SECRET}\n", [("front-matter-unclosed", 3)]),
    ("fence-on-30", front(DESCRIPTION, *LONG[:-1], "type: user"), [("type-flat", 29)]),
    ("fence-on-31", front(DESCRIPTION, *LONG, "type: user"), [("front-matter-unclosed", 31)]),
    # front-matter-invalid
    ("colon", front("name: n", "description: a: b", TYPE), [("front-matter-invalid", 3)]),
    ("quote", front('description: "a" b', TYPE), [("front-matter-invalid", 2)]),
    ("duplicate", front(DESCRIPTION, TYPE, DESCRIPTION), [("front-matter-invalid", 4)]),
    ("list", front("- a", "- b"), [("front-matter-invalid", 2)]),
    ("scalar", front("just text"), [("front-matter-invalid", 2)]),
    ("colon-without-blank", front("description: a:b", TYPE), []),
    # front-matter-alias
    ("bold", front("name: n", "description: **bold** x", TYPE), [("front-matter-alias", 3)]),
    ("star", front("name: *note*", DESCRIPTION, TYPE), [("front-matter-alias", 2)]),
    ("quoted-star", front('description: "**bold** x"', TYPE), []),
    ("defined-alias", front("name: &n x", "description: *n", TYPE), []),
    # description-multiline
    ("literal", front("description: |", "  a", "  - [x](y.md)", TYPE), [("description-multiline", 2)]),
    ("escaped-break", front('description: "a\\nb"', TYPE), [("description-multiline", 2)]),
    ("leading-break", front('description: "\\n- [user] b.md"', TYPE), [("description-multiline", 2)]),
    ("line-separator", front('description: "a\\u2028b"', TYPE), [("description-multiline", 2)]),
    ("folded-one-line", front("description: >", "  a", "  b", TYPE), []),
    # description-missing
    ("no-description", front("name: n", TYPE), [("description-missing", None)]),
    ("null-description", front("name: n", "description:", TYPE), [("description-missing", 3)]),
    ("empty-description", front('description: ""', TYPE), [("description-missing", 2)]),
    ("blank-description", front('description: " "', TYPE), [("description-missing", 2)]),
    ("number", front("description: 42", TYPE), [("description-missing", 2)]),
    ("list-description", front("description: [a]", TYPE), [("description-missing", 2)]),
    ("word-yes", front("description: yes", TYPE), []),
    ("date", front("description: 2026-08-15", TYPE), []),
    ("empty-block", front(), [("description-missing", None), ("type-missing", None)]),
    ("comment-block", front("# nothing"), [("description-missing", None), ("type-missing", None)]),
    # description-cut
    ("cut", front("description: see issue #42", TYPE), [("description-cut", 2)]),
    ("cut-wholly", front("description: #42 is open", TYPE), [("description-cut", 2)]),
    ("hash-inside", front("description: see issue#42", TYPE), []),
    ("hash-quoted", front("description: 'see issue #42'", TYPE), []),
    ("hash-elsewhere", front(DESCRIPTION, "x: a # b", TYPE), []),
    # type-missing, type-unknown, type-flat
    ("no-type", front(DESCRIPTION), [("type-missing", None)]),
    ("null-types", front(DESCRIPTION, "type:", "metadata:", "  type: ~"), [("type-missing", None)]),
    ("metadata-text", front(DESCRIPTION, "metadata: user"), [("type-missing", None)]),
    ("wrong", front(DESCRIPTION, "metadata:", "  type: note"), [("type-unknown", 4)]),
    ("wrong-case", front(DESCRIPTION, "metadata:", "  type: User"), [("type-unknown", 4)]),
    ("padded", front(DESCRIPTION, "metadata:", '  type: "user "'), [("type-unknown", 4)]),
    ("empty-type", front(DESCRIPTION, "metadata:", '  type: ""'), [("type-unknown", 4)]),
    ("list-type", front(DESCRIPTION, "metadata:", "  type: [user]"), [("type-unknown", 4)]),
    ("hidden-flat", front(DESCRIPTION, "type: user", "metadata:", "  type: note"), [("type-unknown", 5)]),
    ("wrong-flat", front(DESCRIPTION, "type: note"), [("type-unknown", 3)]),
    ("flat", front(DESCRIPTION, "type: user"), [("type-flat", 3)]),
    ("flat-below-null", front(DESCRIPTION, "metadata:", "type: user"), [("type-flat", 4)]),
    ("nested-wins", front(DESCRIPTION, "type: note", "metadata:", "  type: user"), []),
    # name-empty
    ("empty-name", front('name: ""', DESCRIPTION, TYPE), [("name-empty", 2)]),
    ("blank-name", front("name: '  '", DESCRIPTION, TYPE), [("name-empty", 2)]),
    ("no-name", front(DESCRIPTION, TYPE), []),
    ("number-name", front("name: 7", DESCRIPTION, TYPE), []),
    # body-over-recall
    ("long-body", front(DESCRIPTION, TYPE, body="a" * BODY_BYTES), [("body-over-recall", 5)]),
    ("body-at-cap", front(DESCRIPTION, TYPE, body="a" * (BODY_BYTES - 1)), []),
    ("many-lines", front(DESCRIPTION, TYPE, body="a\n" * 200), [("body-over-recall", 5)]),
    ("lines-at-cap", front(DESCRIPTION, TYPE, body="a\n" * 199 + "a"), []),
    ("lines-at-cap-crlf", front(DESCRIPTION, TYPE, body="a" * 4094).replace("\n", "\r\n"), []),
    # fact-encoding, fact-unreadable
    ("gbk", GOOD.replace("conclusion", "结论").encode("gbk"), [("fact-encoding", None)]),
    ("utf-16le", codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"), [("fact-encoding", None)]),
    ("mark-bad-byte", b"\xef\xbb\xbf" + GOOD.encode() + b"\xff\n", [("fact-encoding", None)]),
    (
        "gbk-and-no-type",
        front("description: 结论").encode("gbk"),
        [("fact-encoding", None), ("type-missing", None)],
    ),
    ("cut-utf-8", front(DESCRIPTION, body="a" * 5000 + "末尾").encode()[:-2], [("fact-unreadable", None)]),
    (
        "cut-with-mark",
        b"\xef\xbb\xbf" + front("x: y", body="末尾").encode()[:-2],
        [("fact-unreadable", None)],
    ),
    ("nul", GOOD.encode() + b"\x00", [("fact-unreadable", None)]),
    ("utf-16be", codecs.BOM_UTF16_BE + GOOD.encode("utf-16-be"), [("fact-unreadable", None)]),
    ("bad-bytes", GOOD.encode() + b"\xff\xfe\xfd tail", [("fact-unreadable", None)]),
    ("cut-unreadable", "é\x41末".encode()[:-1].replace(b"A", b"A\x01" * 9), [("fact-unreadable", None)]),
]


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(text, expected, id=name) for name, text, expected in SHOWN]
)
def test_remarks(text, expected):
    """A file shows its own defects, one remark for each, with the line of the file; a sound one shows none."""
    assert told(parse(text)) == expected


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text, _ in SHOWN])
def test_remarks_never_quote_the_body(text):
    """No message or hint shows a line of the body, and each is one printable line."""
    for remark in parse(text).remarks:
        for told_text in (remark.message, remark.hint or "-"):
            assert SECRET not in told_text
            assert told_text.isprintable()


WHY = [
    ("--- \nname: a\n---\n", "line 1 has blanks beside its `---`"),
    ("\n\n---\nname: a\n---\n", "begins on line 3"),
    ("\ufeff\ufeff---\n---\n", "two byte order marks"),
    ("---\rname: a\r---\r", "CR alone"),
    ("", "the file is empty"),
    ("---\na: b\n--- \n", "line 3 has blanks beside its `---`"),
    ("---\na: b\n...\n", "closes with `...`"),
    ("---\na: b\n" + "\n" * 30 + "---\n", "the closing `---` is on line 33, and ZCode looks at 30 lines"),
    ("---\na: b\n", "nothing closes it"),
    (front("name: n", "description: a: b"), "column 1"),
    (front("- a"), "a list, not lines of `key: value`"),
    (front(DESCRIPTION, "type: user", "metadata:", "  type: note"), "hides the `type: user`"),
    (front(DESCRIPTION, "metadata:", "  type: [user]"), "`metadata.type` is a list"),
    (front(DESCRIPTION, f"type: {'x' * 99}"), f"“{'x' * 39}…”"),
    (front(DESCRIPTION, 'type: "a\\e[31m"'), "“a\\u{1b}[31m”"),
    (front("description: true", TYPE), "`description` is a true/false value, not text"),
    (front(DESCRIPTION, TYPE, body="a\n" * 300), "301 lines and 601 bytes"),
    (GOOD.encode() + b"\x00", "NUL"),
    (b"\xef\xbb\xbf" + "末".encode()[:-1], "loses the end"),
]


@pytest.mark.parametrize(("text", "part"), WHY)
def test_messages_say_why(text, part):
    """A message tells which of its reasons it is."""
    assert part in parse(text).remarks[0].message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (front(DESCRIPTION, "metadata:", "  type: User"), "write `type: user`"),
        (front(DESCRIPTION, "type: user"), "put `type: user` under `metadata:`"),
        (front("description: **a**", TYPE), "quote"),
        (front("description: a: b", TYPE), "quote"),
    ],
)
def test_hints_say_what_to_do(text, hint):
    """The usual mend is named."""
    assert hint in (parse(text).remarks[0].hint or "")


@pytest.mark.parametrize(
    ("file", "shown"),
    [("a\nb.md", True), ("d\r/b.md", True), ("a\u2028b.md", True), ("a b.md", False), ("tab\tx.md", False)],
)
def test_a_file_name_with_a_line_break(file, shown):
    """A break in a file name is a remark of its own, told apart from one in the description."""
    remarks = [remark for remark in parse(GOOD, file).remarks if remark.code == "description-multiline"]
    assert [remark.target for remark in remarks] == ([FILE_NAME] if shown else [])
    unread = unreadable_fact(file, FileStat(0, 0, 0, 0), "x", read_at_ns=0)
    assert len(unread.remarks) == 1 + shown


# --- what a fact says --------------------------------------------------------------------------------------------


def test_a_sound_fact():
    """All that is known of a fact is in its record."""
    content = GOOD.encode()
    fact = parse(GOOD, "sub/a.md", symlink=True)
    assert (fact.file, fact.stat, fact.read_at_ns, fact.symlink) == (
        "sub/a.md",
        FileStat(5, 6, len(content), 7),
        8,
        True,
    )
    assert fact.content_hash == hashlib.sha256(content).hexdigest()
    assert (fact.name, fact.description, fact.type) == (
        "reply-style",
        "Answers begin with the conclusion",
        "user",
    )
    assert (fact.encoding, fact.malformed, fact.listed, fact.remarks) == ("utf-8", False, True, ())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["description: a", "type: user"], (None, "a", "user")),
        (["description: a", "type: user", "metadata: {type: project}"], (None, "a", "project")),
        (["type: user", "metadata: {type: note}"], (None, None, None)),
        (["type: user", "metadata: {type: false}"], (None, None, None)),
        (["type: user", "metadata: {type: ~}"], (None, None, "user")),
        (["type: user", "metadata: [a]"], (None, None, "user")),
        (["Description: a", "Type: user"], (None, None, None)),
        (['description: ""', "name: 12:30"], ("12:30", None, None)),
        (['description: " "', "name: 0123"], (None, " ", None)),
        (["description: yes", "name: [n]"], (None, "yes", None)),
        (["description: *a", "name: n", "type: user"], (None, None, None)),
        (['description: "\\ud83d"', 'name: "\\ud83d\\ude80"'], ("🚀", "\ufffd", None)),
    ],
)
def test_front_matter(lines, expected):
    """Name, description and type are taken as ZCode takes them; text of no other kind passes, surrogates neither."""
    fact = parse(front(*lines))
    assert (fact.name, fact.description, fact.type) == expected
    json.dumps([fact.name, fact.description], ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        (GOOD, False),
        (front(), False),
        ("", True),
        ("---\na: b", True),
        (front("a: b: c"), True),
        (front("- a"), True),
    ],
)
def test_malformed(text, malformed):
    """Front matter that ZCode cannot read, or that is not there, is malformed; empty front matter is not."""
    assert parse(text).malformed is malformed


def test_undecodable():
    """What ZCode takes for binary is not listed, keeps its content hash, and says nothing."""
    content = GOOD.encode() + b"\x00"
    fact = parse(content)
    assert (fact.encoding, fact.listed, fact.malformed, fact.meaning_hash) == (None, False, True, None)
    assert (fact.name, fact.description, fact.type, fact.links, fact.references) == (None, None, None, (), ())
    assert fact.content_hash == hashlib.sha256(content).hexdigest()


def test_unreadable():
    """A file that could not be opened is a fact with a remark and no hash; recall leaves it out."""
    fact = unreadable_fact("a.md", FileStat(1, 2, 3, 4), "Permission denied", read_at_ns=5, symlink=True)
    assert (fact.content_hash, fact.encoding, fact.listed, fact.symlink) == (None, None, False, True)
    assert [remark.code for remark in fact.remarks] == ["fact-unreadable"]
    assert "Permission denied" in fact.remarks[0].message
    assert unreadable_fact("a.md", fact.stat, "larger than 5 MiB", read_at_ns=5, listed=True).listed


def test_half_written_is_still_what_zcode_sees():
    """A UTF-8 file cut inside a character has the garbled description that ZCode lists."""
    fact = parse(front("description: 用户偏好先给结论再给细节", body="末尾").encode()[:-2])
    assert (fact.encoding, fact.listed) == ("gbk", True)
    assert fact.description is not None
    assert fact.description.startswith("鐢ㄦ埛")


# --- meaning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"),
        GOOD.replace("name: reply-style", "# note\nname: 'reply-style'"),
        GOOD.replace("  type: user", "  type: user\n  originSessionId: sess_1"),
        GOOD.replace("metadata:\n  node_type: memory\n  type: user", "type: user"),
        GOOD.replace("begin with", "begin\n  with"),
    ],
)
def test_layout_is_no_meaning(other):
    """Line ends, marks, encoding, stamps, comments, quotes and folding leave the meaning alone."""
    was, now = parse(GOOD), parse(other)
    assert was.content_hash != now.content_hash
    assert was.meaning_hash == now.meaning_hash


@pytest.mark.parametrize(
    "other",
    [
        GOOD.replace("reply-style", "reply"),
        GOOD.replace("conclusion", "end"),
        GOOD.replace("type: user", "type: project"),
        GOOD.replace(SECRET, "else"),
        GOOD + "\n",
        GOOD.rstrip("\n"),
        GOOD.replace("name: reply-style\n", ""),
        GOOD.replace("name: reply-style", 'name: ""'),
        GOOD.replace("---\n", "--- \n", 1),
    ],
)
def test_what_is_read_is_meaning(other):
    """Another name, description, type or body is another meaning, a last line break included."""
    assert parse(GOOD).meaning_hash != parse(other).meaning_hash


def test_fields_do_not_run_into_each_other():
    """A value moved from one field to the next is another meaning."""
    assert (
        parse(front("name: ab", "description: c")).meaning_hash
        != parse(front("name: a", "description: bc")).meaning_hash
    )


# --- links -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("see [[a]] and [[b-c]], [[a]] again", ("a", "b-c")),
        ("[[名字|shown]] [[x#part]] [[ y ]]", ("名字", "x", "y")),
        ("[[]] [[ ]] [[|a]] [a]] [[a] [[a\nb]] [[1,2],[3,4]]", ()),
        ("`[[a]]` ``[[b]]`` [[c]]", ("c",)),
        ("```sh\n[[ -f x ]]\n```\n[[a]]", ("a",)),
        ("~~~~\n[[b]]\n~~~\n[[c]]\n~~~~\n[[a]]", ("a",)),
        ("  ```\n[[b]]\n", ()),
        ("    ```\n[[a]]", ("a",)),
        ("- ```\n  [[b]]\n\n[[a]]", ("a",)),
        ("no links", ()),
    ],
)
def test_links(body, names):
    """`[[name]]` links are told once each, in order, and not out of code."""
    assert parse(front(DESCRIPTION, body=body)).links == names


@pytest.mark.parametrize(
    ("body", "references"),
    [
        ("[a](b.md) [c](d/e.md) [a](b.md)", ("b.md", "d/e.md")),
        ("[a](./b.md) [a](../hub/c.md) [a](../d.md)", ("b.md", "../hub/c.md", "../d.md")),
        (
            "[a](b.md#part) [a](c%20d.md) [a](<e f.md>) [a](%E4%B8%AD.md)",
            ("b.md", "c d.md", "e f.md", "中.md"),
        ),
        ('[a](b(1).md "title") [a](c\\(2\\).md)', ("b(1).md", "c(2).md")),
        ("[a](https://x.org/a.md) [a](/abs.md) [a](//host/a.md) [a](mailto:a.md)", ()),
        ("[a](b.txt) [a](b.MD) [a](#part) [a]() [a](../../x.md) [a](%2e%2e/../x.md)", ()),
        ("`[a](b.md)`\n```\n[a](c.md)\n```\n[a](d.md)", ("d.md",)),
        ("![image](b.md) [a]( c.md )", ("c.md",)),
    ],
)
def test_references(body, references):
    """`[](…)` targets are resolved against the fact's folder; only Markdown files inside the directory count."""
    expected = tuple("hub/" + target for target in references)
    fact = parse(front(DESCRIPTION, body=body), "hub/a.md")
    assert fact.references == tuple(
        target.replace("hub/../hub/", "hub/").replace("hub/../", "") for target in expected
    )


@given(
    st.lists(
        st.sampled_from(
            ["[", "]", "(", ")", "](", "a.md", "b", " ", "!", "`", "\\", "<!--", "-->", "#c", "%41"]
        )
    )
)
def test_plain_links_are_read_the_same_both_ways(pieces):
    """The quick way gives what the careful one gives."""
    line = "".join(pieces)
    assert _targets_of(line) == [link.target for link in links(line) if not link.hidden]


@given(
    st.lists(
        st.sampled_from(
            ["```", "````", "```sh", "```a`b", "~~~", "~~~~ x", " ~~~ ", "- a", "  ```", "> ```", "b", ""]
        )
    )
)
def test_fences_are_dropped_the_same_both_ways(lines):
    """A body whose fences all begin their lines loses the lines that a line-by-line reader drops."""
    numbered = [line if set(line) & set("`~") else f"{line}{at}" for at, line in enumerate(lines)]
    fences = Fences()
    kept = [line for line in numbered if not fences.takes(line)]
    assert [line for line in _without_fences("\n".join(numbered)).split("\n") if line.strip()] == kept


def test_hostile_bodies_are_read_in_time():
    """Bodies made of half links cost time in their length only."""
    for piece in ("[[", "](", "](((", "[[a", "](a\\", "``", "```\n", "](<", "]( ", "[[" + "a" * 199):
        parse(front(DESCRIPTION, body="x.md [[ ](" + piece * (100_000 // len(piece))))


# --- memory.read -------------------------------------------------------------------------------------------------


def test_view():
    """The body is what stands behind the closing fence, with LF line ends."""
    view = read_view(GOOD.replace("\n", "\r\n").encode())
    assert (view.name, view.description, view.type) == (
        "reply-style",
        "Answers begin with the conclusion",
        "user",
    )
    assert (view.body, view.truncated, view.encoding, view.rest_line) == (
        f"\n{SECRET}\n",
        None,
        "utf-8",
        None,
    )


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", ""),
        ("\ufeffplain\n", "plain\n"),
        ("---\na: b\n---", ""),
        ("---\na: b\n---\n", ""),
        ("---\na: b\n---\nx\n---\ny", "x\n---\ny"),
        ("---\na: b: c\n---\nx", "x"),
        ("---\na: b\n", "---\na: b\n"),
        (front(*LONG, "k: v", "l: v", body="x"), front(*LONG, "k: v", "l: v", body="x")),
        (front(*LONG, body="x\n" * 40), "x\n" * 40 + "\n"),
    ],
)
def test_where_the_body_begins(text, body):
    """Without front matter that is closed, the whole text is body; broken front matter still ends at its fence."""
    assert read_view(text.encode(), full=True).body == body


@pytest.mark.parametrize(
    ("body", "truncated", "rest_line"),
    [
        ("a\n" * 250, "lines", 203),
        ("a" * 5000, "bytes", 3),
        (("b" * 99 + "\n") * 60, "bytes", 43),
        (("b" * 99 + "\n") * 250, "both", 43),
    ],
)
def test_a_cut_view_says_where_the_rest_is(body, truncated, rest_line):
    """The line of the file is named from which on nothing, or not all, was shown; `full` cuts nothing."""
    text = "---\n---\n" + body
    view = read_view(text.encode())
    assert (view.truncated, view.rest_line) == (truncated, rest_line)
    rest = "\n".join(text.split("\n")[rest_line - 1 :])
    shown_of_line = len(view.body.split("\n")[-1])
    assert view.body + rest[shown_of_line:] == body
    whole = read_view(text.encode(), full=True)
    assert (whole.body, whole.truncated, whole.rest_line) == (body, None, None)


def test_view_of_other_encodings():
    """Text that is not UTF-8 names its encoding; what cannot be decoded has none and an empty body."""
    assert read_view(front("a: b", body="结论").encode("gbk")).encoding == "gbk"
    utf16 = read_view(codecs.BOM_UTF16_LE + front("a: b", body="结论").encode("utf-16-le"))
    assert (utf16.encoding, utf16.body) == ("utf-16le", "结论\n")
    binary = read_view(b"\x00")
    assert (binary.encoding, binary.body, binary.truncated) == (None, "", None)


# --- anything at all ---------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["---\n", "---", "\n", "\r\n", "\r", "\ufeff", "name: ", "description: ", "metadata:\n", "  type: ", "user", "*a",
     "&a ", "|\n", "  - ", "{", "[", '"', "'", "#", ": ", "%YAML 1.1\n", "!!binary ", "? ", "<<: ", "\t", "中", "🚀", "\x85",
     "\u2028", "[[x]]", "](y.md)", "`", "~~~\n", "\x07", "\x00", "\ud83d"]
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(PIECES, max_size=25).map(lambda parts: "".join(parts).encode(errors="surrogatepass")),
    )
)
def test_any_bytes_make_a_fact(content):
    """No content raises: it gives a fact and a view that can be written as JSON in UTF-8."""
    fact = parse(content)
    view = read_view(content)
    said = [fact.name, fact.description, fact.type, fact.links, fact.references, view.body, view.name]
    said += [[remark.message, remark.hint, remark.target] for remark in fact.remarks]
    json.dumps(said, ensure_ascii=False).encode()
    assert fact.content_hash == hashlib.sha256(content).hexdigest()
    assert (fact.encoding is None) is (view.encoding is None)
    assert (view.name, view.description, view.type) == (fact.name, fact.description, fact.type)


@given(st.lists(PIECES, max_size=25), st.sampled_from(["utf-16-le"]))
def test_any_utf16_makes_a_fact(parts, encoding):
    """Surrogates that stand alone in UTF-16 do not get out either."""
    content = codecs.BOM_UTF16_LE + "".join(parts).encode(encoding, errors="surrogatepass")
    fact = parse(content)
    json.dumps(
        [fact.name, fact.description, fact.links, read_view(content).body], ensure_ascii=False
    ).encode()
