"""A fact's bytes from words: others' keys survive, every reader reads our text back, a mend changes one thing."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from zcsyncd.errors import InvalidParams, Refused, TooLarge
from zcsyncd.memory import yaml
from zcsyncd.memory.fact import PREVIEW_LINES, TYPES, FileStat, parse_fact, read_view
from zcsyncd.memory.front_matter import MAX_BODY_BYTES, MENDABLE, compose, mend, one_line, quoted

VECTORS = Path(__file__).parents[1] / "vectors"


def vector(name):
    """Give the recorded cases of a vector file."""
    return json.loads((VECTORS / name).read_text("utf-8"))["cases"]


RECORDED = [
    *((case["id"], case["input"].encode()) for case in vector("origin_stamp.json")),
    *((case["id"], f"---\n{case['yaml']}\n---\nbody\n".encode()) for case in vector("frontmatter_yaml.json")),
]


def fact_of(content):
    """Read bytes as the fact that the scan would see."""
    return parse_fact("a.md", content, FileStat(0, 0, len(content), 1), read_at_ns=0)


def front_of(content):
    """Give the text between the fences, line ends LF; None without front matter."""
    lines = (
        content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").split("\n", 30)[:30]
    )
    if lines[0] != "---" or "---" not in lines[1:]:
        return None
    return "\n".join(lines[1 : lines.index("---", 1)])


def values_of(content):
    """Give the front matter's values; None where it cannot be read as a mapping."""
    front = front_of(content)
    try:
        values = None if front is None else yaml.load(front)
    except yaml.YamlError:
        return None
    return values if isinstance(values, dict) else None


def others_of(values):
    """Give others' keys, in a form in which NaN equals itself and 1 is not 1.0."""
    metadata = values.get("metadata")
    return (
        {
            key: repr(value)
            for key, value in values.items()
            if key not in {"name", "description", "metadata", "type"}
        },
        {key: repr(value) for key, value in metadata.items() if key not in {"node_type", "type"}}
        if isinstance(metadata, dict)
        else {},
    )


def write(existing, **words):
    """Compose with plain words for what a test does not speak of."""
    return compose(
        existing, **({"name": "new", "description": "what", "type": "user", "body": "Body.\n"} | words)
    )


# --- a new fact ----------------------------------------------------------------------------------------------


def test_the_form_of_a_new_fact():
    """A new fact has the four keys in their order, in ZCode's block style, a blank line and the body."""
    made = write(
        None, name="release-calendar", description="Cut on Thursdays", type="project", body="Text.\n"
    )
    assert made == (
        b"---\nname: release-calendar\ndescription: Cut on Thursdays\nmetadata:\n"
        b"  node_type: memory\n  type: project\n---\n\nText.\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        "",
        "x",
        "no final newline\n\n  ",
        "a\r\nb\r\n",
        "nul \0 in it",
        "\ufeffmark",
        "---\nfence\n---\n",
        "é 🚀 \u2028",
    ],
)
def test_a_body_stands_byte_for_byte(body):
    """Whatever the body holds, the file ends with exactly its bytes, behind front matter that reads back."""
    made = write(None, body=body)
    front, _, rest = made.partition(b"\n---\n")
    assert rest.removeprefix(b"\n" if body else b"") == body.encode()
    assert yaml.load(front.decode().removeprefix("---\n"))["description"] == "what"


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=80))
@example("\n")
@example("\r\nx")
@example("\rx")
@example("x")
def test_a_body_that_was_read_can_be_written_back(body):
    """Reading all of a body and writing it back changes nothing: no blank line is added each time."""
    first = write(None, body=body)
    assume(b"\0" not in first and b"\r" not in first)
    view = read_view(first, full=True)
    assume(view.encoding == "utf-8")
    assert view.body in (body, f"\n{body}")
    assert write(first, body=view.body) == first


def test_bounds():
    """A body of exactly the bound is written, one byte more is too large; so is a description past all readers."""
    assert write(None, body="é" * (MAX_BODY_BYTES // 2)).endswith("é".encode())
    with pytest.raises(TooLarge, match="524,289 bytes"):
        write(None, body="x" * (MAX_BODY_BYTES + 1))
    with pytest.raises(TooLarge, match="front matter"):
        write(None, description="x" * yaml.MAX_CHARS)


@pytest.mark.parametrize("parameter", ["name", "description", "body", "type"])
def test_half_a_character_is_refused(parameter):
    """A surrogate that stands alone cannot be written: the error names the parameter."""
    with pytest.raises(InvalidParams, match=f"`{parameter}`") as caught:
        write(None, **{parameter: "ab\ud83d"})
    assert caught.value.data == {"parameter": parameter}


# --- one line, and quotes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("a\nb\rc\r\nd", "a b c d"),
        ("a\n\nb\n", "a  b "),
        ("kept \t \u2028 \u2029 \x85 \x0b \x0c \x00", "kept \t \u2028 \u2029 \x85 \x0b \x0c \x00"),
    ],
)
def test_one_line(text, line):
    """LF, CR and CRLF are one blank each; every other character is kept."""
    assert one_line(text) == line


@pytest.mark.parametrize(
    "text",
    [
        "Cut on Thursdays, never on Fridays",
        "Answers should [start] with {the} conclusion; details 'after' \"that\" & so on *here* !",
        "用户偏好先给结论再给细节",
        "사용자는 결론을 먼저",
        "Größe: eins".replace(": ", " "),
        "3 retries, then stop",
        "a:b and c#d",
        "(in brackets)",
        "/etc/hosts is not ours",
        "yes, always",
        "🚀 first",
    ],
)
def test_ordinary_text_stays_unquoted(text):
    """What both YAMLs read as text is written as it is: a person sees no needless quotes."""
    assert quoted(text) == text


ODD = [
    *(
        "",
        " ",
        " a",
        "a ",
        "\ta",
        "a\t",
        "a\tb",
        "~",
        "null",
        "Null",
        "yes",
        "No",
        "ON",
        "off",
        "y",
        "N",
        "true",
    ),
    *(
        "FALSE",
        "0",
        "1",
        "-1",
        "+1",
        "0123",
        "0o17",
        "0x1F",
        "0b101",
        "1_000",
        "12:30",
        "12:30:45.5",
        "190:20:30",
    ),
    *(
        "1e3",
        "1.5",
        ".5",
        "1.",
        "1e-3",
        "+1.5e+3",
        ".inf",
        "-.INF",
        ".nan",
        "2024-01-01",
        "2024-1-1",
        "=",
        "<<",
    ),
    *(
        "2001-12-14t21:59:43.10-05:00",
        "2001-12-14 21:59:43.10 -5",
        "2001-12-14T21:59:43Z",
        "1:",
        "1,000",
        "08",
    ),
    *(
        "# no",
        "a # b",
        "a #",
        "#a",
        "a: b",
        "a:",
        "a :b",
        ": a",
        ":",
        "- a",
        "-",
        "--- a",
        "---",
        "...",
        "? a",
        "?",
    ),
    *(
        "* a",
        "*a",
        "**bold** text",
        "&a",
        "&a b",
        "!",
        "!!str a",
        "!a b",
        "%YAML 1.1",
        "@at",
        "`tick`",
        "|",
        ">",
        "> a",
    ),
    *(
        "[a",
        "{a",
        "]",
        "}",
        ",",
        "[a, b]",
        "{a: b}",
        '"',
        "'",
        '"a" b',
        "'a' b",
        "it's",
        'say "x"',
        "\\",
        "a\\nb",
    ),
    *(
        "a\nb",
        "a\rb",
        "a\r\nb",
        "\n",
        "a\n",
        "\0",
        "\x07",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "a\x85b",
        "\xa0",
        "\xa0a",
    ),
    *(
        "\u2028",
        "a\u2028b",
        "a\u2029",
        "\ufeff",
        "a\ufeffb",
        "\u200b",
        "a\u200db",
        "\u202eabc",
        "\ufffe",
        "\uffff",
    ),
    *(
        "🚀",
        "👩‍💻 at work",
        "\U0010ffff",
        "\U0001fffe",
        "\ue000",
        "\ufffd",
        "\u3000wide",
        "e\u0301",
        "x" * 5000,
        "word " * 900 + "x",
    ),
    *(
        "a  b",
        "a, b",
        "a - b",
        "a ? b",
        "key: *v",
        "a | b",
        "null and void",
        "1 is one",
        "2024-01-01 we cut",
        "١٢",
    ),
]
"""Text that one reader or another takes for something else, or does not take at all."""


def reads(text):
    """Read a value back with every loader that is here."""
    line = f"description: {quoted(text)}"
    assert "\n" not in line
    assert yaml.load(line) == {"description": text}
    assert yaml.load(f"a:\n  description: {quoted(text)}\nb: 1") == {"a": {"description": text}, "b": 1}
    for loader in (pyyaml.SafeLoader, getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)):
        assert pyyaml.load(line + "\nb: 1\n", loader) == {"description": text, "b": 1}


@pytest.mark.parametrize("text", ODD)
def test_odd_text_reads_back(text):
    """Our loader and PyYAML, pure and with libyaml, read the very same text back, on one line."""
    reads(text)


PIECES = st.sampled_from(
    [*ODD[:-20], "a", "1", " ", ": ", " #", "-", ":", "_", ".", "é", "中", "🚀", "e", "T"]
)
WORDS = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    st.lists(PIECES, max_size=5).map("".join),
    st.from_regex(r"[-+]?[0-9._:eExobT -]{1,12}", fullmatch=True),
)


@given(WORDS)
def test_any_text_reads_back(text):
    """Whatever the text, every loader reads it back from what `quoted` writes."""
    reads(text)


@given(st.text(max_size=12))
def test_even_half_characters_survive(text):
    """Others' values may hold half a surrogate pair, from an escape: our loader reads it back."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert yaml.load(f"x: {quoted(text)}") == {"x": joined}


@given(name=WORDS, description=WORDS, kind=st.sampled_from(TYPES))
def test_a_new_fact_reads_back_everywhere(name, description, kind):
    """Name, description (on one line) and type of a new fact are the same for our parser and for PyYAML."""
    made = write(None, name=name, description=description, type=kind)
    wanted = {
        "name": name,
        "description": one_line(description),
        "metadata": {"node_type": "memory", "type": kind},
    }
    assert values_of(made) == wanted
    assert pyyaml.safe_load(front_of(made)) == wanted
    fact = fact_of(made)
    assert (fact.name, fact.description, fact.type) == (name, one_line(description) or None, kind)
    assert not fact.malformed
    assert write(made, name=name, description=description, type=kind) == made


# --- an overwrite -----------------------------------------------------------------------------------------------

KEPT = [
    (
        "keys of others around ours",
        "title: T\nname: old\noriginSessionId: s_1\ndescription: old words\nmodified: 2024-01-01\n"
        "metadata:\n  node_type: memory\n  type: feedback\n  originSessionId: s_2\n",
        "title: T\nname: new\noriginSessionId: s_1\ndescription: what\nmodified: 2024-01-01\n"
        "metadata:\n  node_type: memory\n  type: user\n  originSessionId: s_2\n",
    ),
    (
        "a flat type gives its place to metadata",
        "name: old\ndescription: d\ntype: feedback\noriginSessionId: s\n",
        "name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\noriginSessionId: s\n",
    ),
    (
        "a flat type beside metadata goes",
        "name: old\ntype: feedback\nmetadata:\n  x: 1\ndescription: d\n",
        "name: new\nmetadata:\n  node_type: memory\n  type: user\n  x: 1\ndescription: what\n",
    ),
    (
        "what is missing comes in front",
        "tags: [a, b]\n",
        "name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\ntags: [a, b]\n",
    ),
    (
        "what is missing comes behind the one before it",
        "# head\nname: old\n# about tags\ntags:\n- a\n- b\n",
        "# head\nname: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n# about tags\ntags:\n- a\n- b\n",
    ),
    (
        "comments, and values of many lines",
        "name: old # goes with the name\ndescription: >-\n  folded\n  # no comment\n\n# kept\nlog: |\n  # text\n\n  more\n\n"
        "metadata: # m\n    # inner\n    type: user # t\n    tags:\n    - a # x\n    # end\n# last\n",
        "name: new\ndescription: what\n\n# kept\nlog: |\n  # text\n\n  more\n\n"
        "metadata: # m\n    # inner\n    node_type: memory\n    type: user # t\n    tags:\n    - a # x\n    # end\n# last\n",
    ),
    (
        "metadata in flow style becomes lines",
        "name: old\nmetadata: {type: feedback, x: [1, 2], 'y z': {a: ''}}\nz: {a: 1}\n",
        'name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n  x: [1, 2]\n  y z: {a: ""}\nz: {a: 1}\n',
    ),
    (
        "metadata as ZCode reflows it",
        "name: old\nmetadata:\n  {\n    node_type: memory,\n    originSessionId: s\n  }\n",
        "name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n  originSessionId: s\n",
    ),
    (
        "metadata that is no mapping is ours to write",
        "name: old\nmetadata: user\nx: 1\n",
        "name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\nx: 1\n",
    ),
    (
        "empty metadata",
        "metadata:\nname: old\n",
        "metadata:\n  node_type: memory\n  type: user\nname: new\ndescription: what\n",
    ),
    (
        "another node type is ours to write",
        "metadata:\n  node_type: note\n  x: 1\nname: old\ndescription: old\n",
        "metadata:\n  node_type: memory\n  type: user\n  x: 1\nname: new\ndescription: what\n",
    ),
    (
        "an anchor among others stays",
        "a: &x [1]\nname: old\nb: *x\n",
        "a: &x [1]\nname: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\nb: *x\n",
    ),
    (
        "an anchor that goes away is resolved",
        "name: &n old\nalso: *n # beside\n# kept\nmetadata: &m {type: feedback, k: 1}\nmore: *m\nx: 0x10\n",
        "name: new\ndescription: what\nalso: old\n# kept\nmetadata:\n  node_type: memory\n  type: user\n  k: 1\n"
        "more: {type: feedback, k: 1}\nx: 0x10\n",
    ),
    (
        "an anchor that is set twice",
        "a: &x 1\nname: &x two\nb: *x\n",
        "a: &x 1\nname: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\nb: two\n",
    ),
    (
        "metadata that is an alias",
        "x: &m\n  type: project\n  k: v\nmetadata: *m\n",
        "name: new\ndescription: what\nx: &m\n  type: project\n  k: v\nmetadata:\n  node_type: memory\n  type: user\n  k: v\n",
    ),
    (
        "everything in one flow mapping",
        "{name: old, x: !!binary aGk=, metadata: {type: user, o: !!set {a, b}}, 7: [yes, ~, 1.5, 1e40]}\n",
        "name: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n  o: !<tag:yaml.org,2002:set> {a: null, b: null}\n"
        'x: !<tag:yaml.org,2002:binary> "aGk="\n"7": ["yes", null, 1.5, 1.0e+40]\n',
    ),
    (
        "keys in quotes, a root that is indented",
        "  \"name\": 'old'\n  x: 1\n",
        "  name: new\n  description: what\n  metadata:\n    node_type: memory\n    type: user\n  x: 1\n",
    ),
    (
        "comments alone",
        "# mine\n",
        "# mine\nname: new\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n",
    ),
    (
        "a comment cut the old description short",
        "name: new # beside a name that stays\ndescription: what # is left\n",
        "name: new # beside a name that stays\ndescription: what\nmetadata:\n  node_type: memory\n  type: user\n",
    ),
]


@pytest.mark.parametrize(("front", "wanted"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_others_wrote_stays(front, wanted, ending, mark):
    """Others' keys and comments stay as they are; ours are written in their place; LF, and no mark."""
    existing = f"{mark}---\n{front}---\n\nOld body.\n".replace("\n", ending).encode()
    assert write(existing) == f"---\n{wanted}---\n\nBody.\n".encode()


@pytest.mark.parametrize(
    "existing",
    [
        b"",
        b"just text",
        b"---\nname: x\nkey: never closed\n",
        b"---\nkey: a: b\n---\n",
        b"---\nkey: 1\nkey: 2\n---\n",
        b"---\n- a\n- list\n---\n",
        b"---\nx: *nowhere\n---\n",
        b"--- \nx: 1\n---\n",
        b"---\n" + b"x: |\n" + b"  a\n" * 40 + b"---\n",
        b"\xff\xff\xff",
        b"---\nx: \xff\xff\n---\n",
    ],
)
def test_what_cannot_be_read_is_written_anew(existing):
    """Front matter that nobody can read holds nothing that could be kept: ours stands alone."""
    assert write(existing) == write(None)


@pytest.mark.parametrize(
    "existing",
    [
        "---\nx: 会议\n---\nbody \0 with NUL".encode(),
        "---\nx: 会议\n---\ncut inside a characte\xe9".encode()[:-1],
        "---\nx: 会议\n---\n".encode() + b"latin \xe9\xe8",
        "---\nx: 会议\n---\n会议记录放在这里".encode("gbk"),
        "\ufeff---\nx: 会议\n---\n".encode("utf-16-le"),
        "---\r\r\nx: 会议\r\r\n---\r\r\nlines that were converted twice".encode(),
    ],
)
def test_keys_survive_whatever_the_body_is(existing):
    """A body with NUL, half a character or bytes of another encoding does not cost others their keys."""
    assert values_of(write(existing))["x"] == "会议"


def test_no_room_for_more_keys():
    """Where ZCode's 30 lines are full, lines are saved first; keys are never dropped, the write is refused."""
    for count in range(1, PREVIEW_LINES - 2):
        existing = ("---\n" + "".join(f"k{number}: {number}\n" for number in range(count)) + "---\n").encode()
        if count > PREVIEW_LINES - 2 - 3:
            with pytest.raises(Refused, match="30 lines"):
                write(existing)
            continue
        made = write(existing)
        assert others_of(values_of(made)) == others_of(values_of(existing))
        assert fact_of(made).type == "user"
    many = "---\nlist:\n" + "".join(f"- item {number}\n" for number in range(27)) + "---\n"
    assert values_of(write(many.encode()))["list"] == [f"item {number}" for number in range(27)]


@pytest.mark.parametrize(("case", "existing"), RECORDED, ids=[case for case, _ in RECORDED])
def test_recorded_files(case, existing):
    """Over every recorded file: our keys read back, and others' values are what they were."""
    before = values_of(existing)
    made = write(existing, name="N: x", description="D # y\nz", type="project")
    fact = fact_of(made)
    assert (fact.name, fact.description, fact.type) == ("N: x", "D # y z", "project")
    assert [remark.code for remark in fact.remarks] == []
    assert others_of(values_of(made)) == (others_of(before) if before else ({}, {}))
    assert "type" not in values_of(made)


SCALARS = st.one_of(
    WORDS,
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.booleans(),
    st.none(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
MINE = {"name", "description", "metadata", "type"}
KEYS = st.one_of(
    st.sampled_from(["originSessionId", "modified", "tags", "x", "<<", "yes", "a b"]), WORDS
).filter(lambda key: key not in MINE | {"node_type"})


@st.composite
def front_matters(draw):
    """Draw front matter as people and tools write it: any style, order, comments and blank lines between."""
    top = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    inner = draw(st.dictionaries(KEYS, VALUES, max_size=3))
    if draw(st.booleans()):
        inner |= {"type": draw(st.sampled_from([*TYPES, None, 7]))}
    if draw(st.booleans()):
        inner |= {"node_type": "memory"}
    ours = {
        "name": draw(WORDS),
        "description": draw(WORDS),
        "type": "user",
        "metadata": draw(st.sampled_from([inner, inner, inner, None, "user"])),
    }
    top |= {key: ours[key] for key in draw(st.sets(st.sampled_from(sorted(ours))))}
    pieces = []
    for key in draw(st.permutations(list(top))):
        pieces.append(
            pyyaml.safe_dump(
                {key: top[key]},
                allow_unicode=draw(st.booleans()),
                default_flow_style=draw(st.sampled_from([False, False, None, True])),
                default_style=draw(st.sampled_from([None, None, '"', "'", "|"])),
                indent=draw(st.sampled_from([2, 3, 4])),
                sort_keys=False,
            ).strip("\n")
        )
        if draw(st.integers(0, 3)) == 0:
            pieces.append(draw(st.sampled_from(["", "# comment", "  # deeper: comment", "\n# two\n"])))
    return "\n".join(pieces)


# Drawing a whole front matter is what takes the time, and a busy machine takes longer.
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    front=front_matters(),
    ending=st.sampled_from(["\n", "\r\n"]),
    name=WORDS,
    description=WORDS,
    kind=st.sampled_from(TYPES),
)
def test_others_keys_survive(front, ending, name, description, kind):
    """Over random front matter: ours reads back exactly, others' values are what they were, and it ends in time."""
    existing = f"---\n{front}\n---\nbody".replace("\n", ending).encode()
    before = values_of(existing) or {}
    made = write(existing, name=name, description=description, type=kind)
    values = values_of(made)
    assert (values["name"], values["description"]) == (name, one_line(description))
    assert (values["metadata"]["node_type"], values["metadata"]["type"]) == ("memory", kind)
    assert others_of(values) == others_of(before)
    assert (fact_of(made).name, fact_of(made).type) == (name, kind)
    assert write(made, name=name, description=description, type=kind) == made


@given(st.text(st.sampled_from("abn: \n-#&*!|>'\"{}[],?~\t%x01")), st.booleans())
def test_any_front_matter(text, flow):
    """Whatever stands between the fences, a write gives a fact that reads back, others' values kept."""
    existing = f"---\n{'{' if flow else ''}{text}\n---\n".encode()
    before = values_of(existing)
    try:
        made = write(existing)
    except Refused:
        assert before is not None
        return
    values = values_of(made)
    assert (values["name"], values["description"]) == ("new", "what")
    assert others_of(values) == (others_of(before) if before else ({}, {}))


# --- mends --------------------------------------------------------------------------------------------------------

MENDS = [
    ("front-matter-alias", "description: **bold** text", 'description: "**bold** text"'),
    ("front-matter-alias", "description: **b** and # more", 'description: "**b** and # more"'),
    ("front-matter-alias", "name: *x # why", 'name: "*x" # why'),
    ("front-matter-alias", "description: **b** text\n  goes on\nz: 1", 'description: "**b** text goes on"\nz: 1'),
    ("front-matter-alias", "t: [*a, b]\nl:\n- *c d\n- k: *e", 't: ["*a", b]\nl:\n- "*c d"\n- k: "*e"'),
    ("front-matter-alias", "a: &x 1\nb: *x\ndescription: *y", 'a: &x 1\nb: *x\ndescription: "*y"'),
    ("front-matter-alias", "description: **Rule**: do it", 'description: "**Rule**: do it"'),
    ("front-matter-alias", 'description: *"quoted" \\ x', 'description: "*\\"quoted\\" \\\\ x"'),
    ("front-matter-alias", "description: *x\n  k: v", None),
    ("front-matter-alias", "description: *x\n\n  more", None),
    ("front-matter-alias", "description: *x\nother: a: b", None),
    ("front-matter-alias", "*x : 1", None),
    ("description-multiline", "description: |\n  a\n   b\n\n# kept\nz: 1", "description: a b\n\n# kept\nz: 1"),
    ("description-multiline", 'description: "a\\n- [x](y.md): z" # why', 'description: "a - [x](y.md): z"'),
    ("description-multiline", '"description": >\n  a\n\n  b', '"description": a b'),
    ("description-multiline", 'description: "a\\u2028b\\x0bc"', "description: a b c"),
    ("description-multiline", "description: &d |\n  a\n  b\nz: *d", None),
    ("description-multiline", '{description: "a\\nb"}', None),
    ("description-cut", "description: fix #42 now", 'description: "fix #42 now"'),
    ("description-cut", "description: #42 is open\nz: 1", 'description: "#42 is open"\nz: 1'),
    ("description-cut", "description: one\n  two # three\nz: 1", 'description: "one two # three"\nz: 1'),
    ("description-cut", "description:\n  one # two", 'description: "one # two"'),
    ("description-cut", "description: &d one # two\nz: *d", None),
    ("description-cut", "description: one\n\n  two # three", None),
    ("description-cut", "description: ~ # none yet", None),
    ("type-flat", "type: user # why\nz: 1", "metadata:\n  type: user # why\nz: 1"),
    ("type-flat", "type: 'user'\nz: 1", "metadata:\n  type: user\nz: 1"),
    ("type-flat", "metadata:\n  node_type: memory\n  o: 1\ntype: user", "metadata:\n  node_type: memory\n  type: user\n  o: 1"),
    ("type-flat", "type: user\n# kept\nmetadata:\n  type:\n  o: 1", "# kept\nmetadata:\n  type: user\n  o: 1"),
    ("type-flat", "metadata:\ntype: user", "metadata:\n  type: user"),
    ("type-flat", "type: user\nmetadata: {o: 1, node_type: memory}", "metadata:\n  node_type: memory\n  type: user\n  o: 1"),
    ("type-flat", "type: user\nmetadata: [o]", None),
    ("type-flat", "type: &t user\nz: *t", None),
    ("type-flat", "a: &t 1\ntype: &t user\nz: *t", None),
    ("name-empty", 'name: ""\nz: 1', "name: a-stem\nz: 1"),
    ("name-empty", "name: '  ' # why", "name: a-stem # why"),
    ("name-empty", "name: >\n\nz: 1", "name: a-stem\n\nz: 1"),
]  # fmt: skip


def padded(front):
    """Give a line that a mend must not touch, and the keys without which other remarks would show too."""
    if front.startswith("{"):
        return ""
    lines = {"name": "name: x\n", "description": "description: d\n"}
    return "# odd: é\n" + "".join(line for key, line in lines.items() if key not in front)


@pytest.mark.parametrize(("code", "front", "wanted"), MENDS)
@pytest.mark.parametrize(("mark", "ending"), [("", "\n"), ("", "\r\n"), ("\ufeff", "\n"), ("\ufeff", "\r\n")])
@pytest.mark.parametrize("body", ["", "\nBody\r\n \ufeff\n---\n", "no newline"])
def test_a_mend_changes_one_thing(code, front, wanted, *, mark, ending, body):
    """A mend changes the lines at fault and no other byte, and the remark is gone; None where that cannot be."""
    head = padded(front)
    content, expected = (
        f"{mark}---\n{head}{part}\n---\n".replace("\n", ending).encode() + body.encode()
        for part in (front, wanted or "")
    )
    before = fact_of(content)
    assert code in {remark.code for remark in before.remarks}
    mended = mend(content, code, "a-stem")
    if wanted is None:
        assert mended is None
        return
    assert mended == expected
    after = fact_of(mended)
    assert code not in {remark.code for remark in after.remarks}
    assert after.body_hash == before.body_hash


def test_mixed_line_ends_stay():
    """Lines that a mend does not touch keep the end that each of them has."""
    content = b"---\nname: n\r\ntype: user\r\ndescription: d\nmetadata:\r\n  x: 1\n  y: 2\r\n---\r\nB"
    assert mend(content, "type-flat", "s") == (
        b"---\nname: n\r\ndescription: d\nmetadata:\r\n  type: user\n  x: 1\n  y: 2\r\n---\r\nB"
    )


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"---\nname: new\n---\n", "name-empty"),
        (b"---\nname: ''\n---\n", "body-over-recall"),
        (b"---\nname: ''\n---\n", ""),
        (b"---\nname: ''\n", "name-empty"),
        (b"", "name-empty"),
        ("---\nname: ''\ndescription: 会议\n---\n".encode("gbk"), "name-empty"),
        ("\ufeff---\nname: ''\n---\n".encode("utf-16-le"), "name-empty"),
        ("---\nname: ''\n---\né".encode()[:-1], "name-empty"),
        (b"---\nname: ''\n---\n\0", "name-empty"),
    ],
)
def test_nothing_to_mend(content, code):
    """No such remark, a code that has no mend, or bytes that are not UTF-8: nothing is changed."""
    assert mend(content, code, "stem") is None


@pytest.mark.parametrize("stem", ["a: b", "12:30", "*x", "名前", "with\nbreak"])
def test_an_odd_stem_becomes_the_name(stem):
    """Whatever the file is called, its stem reads back as the name; one that UTF-8 cannot hold is left."""
    mended = mend(b"---\nname: ''\ndescription: d\n---\n", "name-empty", stem)
    assert fact_of(mended).name == stem
    assert "\ud800" not in (fact_of(mend(b"---\nname: ''\n---\n", "name-empty", "a\ud800") or b"").name or "")


def test_a_type_finds_room_within_the_lines_that_zcode_looks_at():
    """Where two lines for one would push the fence past line 30, `metadata` takes one; at no room, None."""
    front = "name: new\ndescription: d\ntype: user\n" + "".join(f"k{number}: 1\n" for number in range(25))
    mended = mend(f"---\n{front}---\nB".encode(), "type-flat", "s")
    assert b"\nmetadata: {type: user}\n" in mended
    assert fact_of(mended).type == "user"


@pytest.mark.parametrize(("case", "content"), RECORDED, ids=[case for case, _ in RECORDED])
def test_recorded_defects(case, content):
    """Every defect that a recorded file shows and that has a mend is gone by it, the body and others' keys kept."""
    before = fact_of(content)
    for code in {remark.code for remark in before.remarks} & MENDABLE:
        mended = mend(content, code, "stem")
        assert mended is not None
        after = fact_of(mended)
        assert code not in {remark.code for remark in after.remarks}
        assert after.body_hash == before.body_hash
        assert mended.endswith(content[content.index(b"\n---", 3) + 1 :])
        if not before.malformed:
            assert others_of(values_of(mended))[0] == others_of(values_of(content))[0]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    front=front_matters(),
    body=st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
    seed=st.integers(0, 9),
)
def test_mends_of_random_facts(front, body, seed):
    """Over random facts: a mend removes its remark, keeps the body and every value but the one at fault, or is None."""
    choice = random.Random(seed)
    twist = choice.choice(
        ["description: a b #c", "description: |\n  a\n  b", "name: ''", "type: user", "z: *nix"]
    )
    content = f"---\n{twist}\n{front}\n---\n{body}".encode()
    before = fact_of(content)
    for code in {remark.code for remark in before.remarks} & MENDABLE:
        mended = mend(content, code, "stem")
        if mended is None:
            continue
        after = fact_of(mended)
        assert code not in {remark.code for remark in after.remarks}
        assert after.body_hash == before.body_hash
        assert mended.endswith(f"\n---\n{body}".encode())
        if not before.malformed:
            assert others_of(values_of(mended)) == others_of(values_of(content))
            assert after.type == before.type
