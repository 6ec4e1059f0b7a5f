"""The strict loader against npm `yaml` 2.9.1: its recorded answers, and what no text may ever do."""

from __future__ import annotations

import json
from math import inf, isnan
from pathlib import Path

import pytest
import yaml as pyyaml
from hypothesis import example, given
from hypothesis import strategies as st

from zcsyncd.memory import yaml
from zcsyncd.memory.yaml import Tagged, YamlError

VECTORS = json.loads(
    (Path(__file__).parent.parent / "vectors" / "frontmatter_yaml.json").read_text(encoding="utf-8")
)["cases"]


def same(ours: object, theirs: object) -> bool:
    """Say whether a value of ours is the recorded one; JSON cannot hold some, so those are recorded by name."""
    if isinstance(theirs, dict) and theirs.keys() == {"$float"}:
        return isinstance(ours, float) and repr(ours) == {"-0": "-0.0"}.get(
            theirs["$float"], theirs["$float"]
        )
    if isinstance(theirs, dict) and theirs.keys() == {"$other"}:
        return isinstance(ours, Tagged)
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and ours.keys() == theirs.keys()
            and all(same(ours[key], theirs[key]) for key in theirs)
        )
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, (bool, str)) or theirs is None:
        return type(ours) is type(theirs) and ours == theirs
    return not isinstance(ours, bool) and isinstance(ours, (int, float)) and ours == theirs


def refusal(text: str, read=yaml.load) -> YamlError | None:
    """Give the error that reading ends in, None if there is a value."""
    try:
        read(text)
    except YamlError as error:
        return error
    return None


def outcome(text: str, read=yaml.load) -> object:
    """Give the value, or the error's kind and place, in a form that can be compared (NaN equals NaN)."""
    error = refusal(text, read)
    return ("value", repr(read(text))) if error is None else (error.kind, error.line, error.column)


@pytest.mark.parametrize("case", VECTORS, ids=[case["id"] for case in VECTORS])
def test_vector(case):
    """Every recorded text is read, or refused, as npm `yaml` does: the whole value, without exception."""
    try:
        value = yaml.load(case["yaml"])
    except YamlError:
        assert not case["ok"]
    else:
        assert case["ok"]
        assert same(value, case["value"])


def test_all_vectors_are_there():
    """The recorded cases are complete, so that an emptied file cannot pass for agreement."""
    assert len(VECTORS) == 364


def test_without_libyaml():
    """Without libyaml PyYAML's own scanner reads what matters: it refuses some tabs, and differs nowhere else."""

    def read(text):
        return yaml._read_exactly(yaml._bounded(text), scanner=pyyaml.SafeLoader)

    different = {
        case["kind"] for case in VECTORS if outcome(case["yaml"], read)[0] != outcome(case["yaml"])[0]
    }
    assert different == {"tab-after-colon", "tab-inside", "tab-trailing"}
    assert yaml.accelerated is pyyaml.__with_libyaml__


# What random comparison with npm `yaml` 2.9.1 brought up beyond the vectors: text, its value there.
AGREED = [
    ("a: |\n  text", {"a": "text\n"}),
    ("a: >-\n  text\n  more", {"a": "text more"}),
    ("a: |+\n  text\n\n\nb: 1", {"a": "text\n\n\n", "b": 1}),
    ("a: b\n \t \nc: d", {"a": "b", "c": "d"}),
    ("a: |\n  x\n  \t\n  y", {"a": "x\n\t\ny\n"}),
    ("a:\n  : c", {"a": {"": "c"}}),
    ("- : c", [{"": "c"}]),
    ("a: b\n: c", {"a": "b", "": "c"}),
    ("? a\n: b", {"a": "b"}),
    ("? |\n  x\n: 1", {"x\n": 1}),
    ("{a: 1, {b: 1}: 2}", {"a": 1, "{ b: 1 }": 2}),
    ('? [1, "2", x, null, {a: b c}]\n: 1', {'[ 1, "2", x, null, { a: b c } ]': 1}),
    ("? []\n: 1", {"[]": 1}),
    ("a: &x {b: 1}\n? *x\n: 1\n? *x\n: 2", {"a": {"b": 1}, "*x": 2}),
    ("a: &x b\n*x : 1\n*x : 2", {"a": "b", "b": 2}),
    ("a: &x 1\nb: &y [*x,*x]\nc: *y", {"a": 1, "b": [1, 1], "c": [1, 1]}),
    ("1: a\n'1': b", {"1": "b"}),
    (".nan: a\n.NaN: b", {"NaN": "b"}),
    ("1e400: a\n-0: b\n0x1F: c\n1_000: d", {"Infinity": "a", "0": "b", "31": "c", "1_000": "d"}),
    ("1e21: a\n1e20: b\n1.50: c", {"1e+21": "a", "100000000000000000000": "b", "1.5": "c"}),
    ("0.000001: a\n1.25e-7: b\n-12.5: c", {"0.000001": "a", "1.25e-7": "b", "-12.5": "c"}),
    ("9007199254740993: a", {"9007199254740992": "a"}),
    ("a: !!float 1\nb: !!int '5'\nc: !!null x\nd: !!bool yes", {"a": "1", "b": 5, "c": "x", "d": "yes"}),
    ("a: !!str [1]\nb: !x {c: 1}\nd: ! 1", {"a": [1], "b": {"c": 1}, "d": "1"}),
    ("a: !<tag:yaml.org,2002:int> 4", {"a": 4}),
    ("a: !!pairs [b: 1, b: 2]", {"a": [{"b": 1}, {"b": 2}]}),
    ("a: !!set\nb: !!str", {"a": "", "b": ""}),
    ("%YAML 1.1\n---\na: yes\nb: y\nc: 017\nd: 1_000\ne: 1:30\nf: x", {"a": True, "b": True, "c": 15, "d": 1000, "e": 90, "f": "x"}),
    ('"x\ny"', "x y"),
    ('a:\n- "x\n y"', {"a": ["x y"]}),
    ('- a: "x\n   y"', [{"a": "x y"}]),
    ('a: "x\n\n\n y"', {"a": "x\n\ny"}),
    ('{a: "x\ny"}', {"a": "x y"}),
    ("a: {\n  b: 1,\n# c\n  d: 2\n}", {"a": {"b": 1, "d": 2}}),
    ("a: [1,\n  2\n]", {"a": [1, 2]}),
    ("\ufeffa: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
    ("a: C:\\ud83d\\ude80", {"a": "C:\\ud83d\\ude80"}),
    ('a: "\\\\ud83d"', {"a": "\\ud83d"}),
    ('a: "\U000f0007\x07 \\U000F0000"', {"a": "\U000f0007\x07 \U000f0000"}),
    ("---", None),
    ("--- a", "a"),
    ("# only a comment\n\n", None),
]  # fmt: skip

# The same, refused there: text, what of the error is promised here (kind, line, column).
REFUSED = [
    ('a: "x\n\ny"', ("syntax", 1, 4)),
    ('a: "x\n\ty"', ("syntax", 1, 4)),
    ('a:\n- "x\ny"', ("syntax", 2, 3)),
    ('- a: "x\n  y"', ("syntax", 1, 6)),
    ('a: {b: "x\ny"}', ("syntax", 1, 8)),
    ("a: [1,\n2]", ("syntax", 1, 4)),
    ("a: [[1\n]]", ("syntax", 1, 4)),
    ('a: "x"#c', ("syntax", 1, 7)),
    ("a: x\n\ty: z", ("syntax", 2, 1)),
    ("a: x\n\nb: [1", ("syntax", 3, 4)),
    ("a: b\na: c", ("duplicate-key", 2, 1)),
    ("a:\n  - b: 1\n    b: 2", ("duplicate-key", 3, 5)),
    ("{a: 1, a: 2}", ("duplicate-key", 1, 8)),
    ("null: a\n~: b", ("duplicate-key", 2, 1)),
    ("1: a\n1.0: b", ("duplicate-key", 2, 1)),
    ("a: *b", ("alias", 1, 4)),
    ("x: 1\na: **bold** text", ("alias", 2, 4)),
    ("a: *note more", ("alias", 1, 4)),
    ("- *b", ("alias", 1, 3)),
    ("a: *中文", ("alias", 1, 4)),
    ("a: *later\nb: &later 1", ("alias", 1, 4)),
    ("a: &x [*x]", ("syntax", 1, 8)),
    ("a: &x 1\nb: *x y", ("syntax", 2, 7)),
    ("a: !e!x 1", ("syntax", 1, 4)),
    ("a: !!set {b: 1}", ("syntax", 1, 4)),
    ("a: !!omap [b: 1, b: 2]", ("syntax", 1, 4)),
    ("a: b\n---\nc: d", ("syntax", 2, 1)),
    ("a: 'b", ("syntax", 1, 4)),
    ("\x07: [", ("syntax", 1, 4)),
]  # fmt: skip

# Where we still differ, found the same way. Reading is libyaml's here, and none of it was seen in a real file.
DIFFERENT = [
    ("a: &R&D team", {"a": "team"}, "an anchor's name is letters, digits, `-` and `_` for libyaml, nearly anything there"),
    ("a: !#x", {"a": ""}, "libyaml wants a tag to end at a blank"),
    ("a: b\n  : c", {"a": "b", "": "c"}, "a missing key, indented below a value, is no key for libyaml"),
    ("a: |\n  \tx", {"a": "\tx\n"}, "libyaml refuses a tab at the start of a block text"),
    ("a: |+\n  x\n  ", {"a": "x\n"}, "libyaml keeps a last line of blanks without a line end as an empty line"),
    ("a: |2\n   \n", {"a": ""}, "libyaml keeps blanks beyond the indentation of a block text that has nothing else"),
    ('a: "x\\\n\n  y"', {"a": "x y"}, "libyaml keeps the empty line below an escaped line end"),
    ("a: |#", YamlError, "libyaml takes a comment that touches `|`"),
    ("a: |\n    \n  # b", YamlError, "libyaml takes a comment for the end of an empty block text"),
    ("%X\n---\na: b", {"a": "b"}, "libyaml wants a directive's name to be followed by a value"),
    ("{: x}", {"": "x"}, "a missing key is known to libyaml neither in brackets nor, by itself, outside them"),
    ("...", None, "libyaml wants a document before its end"),
    ("? - ", {"[  ]": None}, "the text of a list as a key is ours, in its plainest form"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), AGREED, ids=repr)
def test_agreed(text, value):
    """Texts beyond the vectors have the value that npm `yaml` gives them."""
    assert same(yaml.load(text), value)


@pytest.mark.parametrize(("text", "promised"), REFUSED, ids=repr)
def test_refused(text, promised):
    """Texts beyond the vectors that npm `yaml` refuses are refused, at the place where a person has to look."""
    assert outcome(text) == promised


@pytest.mark.parametrize(("text", "theirs", "_why"), DIFFERENT, ids=[repr(case[0]) for case in DIFFERENT])
def test_known_differences(text, theirs, _why):
    """The list of what we read differently is not stale: each case still differs."""
    try:
        value = yaml.load(text)
    except YamlError:
        assert theirs is not YamlError
    else:
        assert theirs is YamlError or not same(value, theirs)


@pytest.mark.parametrize(
    ("text", "kind", "key", "mend"),
    [
        ("x: 1\ndescription: **bold** rule", "alias", "description", "double quotes"),
        ("description: *note", "alias", "description", "double quotes"),
        ("metadata:\n  type: *x", "alias", "type", "double quotes"),
        ("a: 1\n'a': 2", "duplicate-key", "a", "keep one"),
        ("a: Note: this", "syntax", None, "double quotes"),
        ('a: "Funnel" is it', "syntax", None, "other kind"),
        ('a: "C:\\dir"', "syntax", None, "single quotes"),
        ('a: "open', "syntax", None, "close the quote"),
        ("a: [b](c.md) rest", "syntax", None, "double quotes"),
        ("a:\n\tb: 1", "syntax", None, "indent with blanks"),
        ("a: 1\n b: 2", "syntax", None, "align"),
        ("a: @team", "syntax", None, "double quotes"),
        ("a: [1", "syntax", None, "double quotes"),
        ("a: &a [1,1,1]\nb: [" + "*a," * 100 + "]", "too-many-aliases", None, "write the values out"),
    ],
)
def test_errors_name_the_mend(text, kind, key, mend):
    """An error says its kind, the key at fault where there is one, and the usual mend."""
    with pytest.raises(YamlError) as caught:
        yaml.load(text)
    assert (caught.value.kind, caught.value.key) == (kind, key)
    assert mend in caught.value.mend


def test_errors_quote_no_value():
    """What a person wrote as a value never gets into a message (it may be private, and messages are logged)."""
    for case in VECTORS:
        error = refusal(case["yaml"].replace("description: ", "description: zebra "))
        assert error is None or "zebra" not in f"{error}{error.mend}"


@pytest.mark.parametrize("count", [99, 100])
def test_alias_bound(count):
    """An anchor may be expanded 99 times; the hundredth is refused, as npm `yaml` counts."""
    text = "a: &a x\nb: [" + ", ".join(["*a"] * count) + "]"
    if count < yaml.MAX_EXPANSIONS:
        assert yaml.load(text) == {"a": "x", "b": ["x"] * count}
    else:
        assert outcome(text)[0] == "too-many-aliases"


@pytest.mark.parametrize("make", ["{0}{1}".format, "- {0}{1}".format, "a: {0}{1}".format])
def test_depth_bound(make):
    """Nesting is read up to the bound and named beyond it, without a stack overflow."""
    depth = yaml.MAX_DEPTH - 1
    yaml.load(make("[" * depth, "]" * depth))
    assert outcome(make("[" * 30_000, "]" * 30_000))[0] == "too-deep"
    assert outcome("\n".join(" " * level + "- " for level in range(300)) + "x")[0] == "too-deep"


def test_size_bound():
    """A text over the bound is refused at the place where it goes over, before anything looks at it."""
    yaml.load("a: " + "x" * (yaml.MAX_CHARS - 3))
    assert outcome("a: b\n" + "#" * yaml.MAX_CHARS) == ("too-large", 2, yaml.MAX_CHARS - 4)


def test_line_numbers():
    """Every key and list item has the line on which it begins, quoted, nested and in brackets too."""
    value, lines = yaml.load_with_lines(
        "# head\nroots:\n  - one\n  - two: 2\n    three: [4,\n      5]\n\n'mute': {a: b,\n  c: d}\n1: x\n"
    )
    assert value == {"roots": ["one", {"two": 2, "three": [4, 5]}], "mute": {"a": "b", "c": "d"}, "1": "x"}
    assert lines == {
        ("roots",): 2,
        ("roots", 0): 3,
        ("roots", 1): 4,
        ("roots", 1, "two"): 4,
        ("roots", 1, "three"): 5,
        ("roots", 1, "three", 0): 5,
        ("roots", 1, "three", 1): 6,
        ("mute",): 8,
        ("mute", "a"): 8,
        ("mute", "c"): 9,
        ("1",): 10,
    }
    with pytest.raises(YamlError, match="twice"):
        yaml.load_with_lines("a: 1\na: 2\n")
    assert yaml.load_with_lines("") == (None, {})
    assert yaml.load_with_lines("a: b\n\t\nc: d") == ({"a": "b", "c": "d"}, {("a",): 1, ("c",): 3})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("description: fix issue #42 first", ("description",)),
        ("description: fix\t# tab", ("description",)),
        ("description: over two\n  lines # cut\nname: n # too", ("description", "name")),
        ("description: #42 is open", ("description",)),
        ("description: issue#42", ()),
        ("description: 'fix issue #42' # quoted", ()),
        ("description: |\n  fix issue #42\n", ()),
        ("description: > # comment\n  folded\n", ()),
        ("# head\nname: n\n# tail", ()),
        ("metadata: # keys follow\n  type: user", ()),
        ("metadata:\n  type: user # nested", ()),
        ("name: [a] # list", ()),
        ("broken: [ #", ()),
        ("plain text # no mapping", ()),
        ("name: n", ()),
    ],
)
def test_comment_cuts(text, keys):
    """Only an unquoted value at the top level counts as cut, and only by a comment on its own last line."""
    assert yaml.plain_comment_cuts(text) == keys


def test_big_and_special_numbers():
    """Numbers are JavaScript's: whole up to 2^53, floats beyond, infinite where it overflows."""
    value = yaml.load("a: 9007199254740992\nb: 9007199254740995\nc: -0\nd: .nan\ne: 1" + "0" * 400)
    assert (value["a"], type(value["a"])) == (2**53, int)
    assert (value["b"], type(value["b"])) == (2.0**53 + 4, float)
    assert repr(value["c"]) == "-0.0"
    assert isnan(value["d"])
    assert value["e"] == inf
    assert yaml.load("0x" + "f" * 400) == inf


# What holds for every text. The alphabet is made of what YAML gives a meaning to, so that much of it parses.

PIECES = st.sampled_from(
    (
        *(
            " ",
            "  ",
            "\n",
            "\n  ",
            "\n- ",
            "\t",
            ":",
            ": ",
            " #",
            "-",
            '"',
            "'",
            "|",
            ">-",
            "|+",
            "{",
            "}",
            "[",
            "]",
        ),
        *(
            "&a ",
            "*a",
            "!x ",
            "!!int ",
            "!!omap ",
            "!!set ",
            "? ",
            "\r\n",
            "\r",
            "\\",
            "\\ud83d",
            "\\U000F0000",
            "%",
        ),
        *(
            "x",
            "1",
            "0x1",
            "1e3",
            "true",
            "null",
            "~",
            "中",
            "é",
            "---",
            "...",
            "\na: b",
            "\n  a: b",
            "@",
            "=",
            ",",
            "<<",
        ),
        *(
            "\x00",
            "\x07",
            "\x85",
            "\u2028",
            "\ufeff",
            "\uffff",
            "\ud83d",
            "\ude80",
            "\U000f0000",
            "\U0001f680",
        ),
    )
)
YAMLISH = st.lists(PIECES, max_size=24).map("".join)
VALUE = st.text(
    st.sampled_from("ab中é 019.:#-'\"\\{}[]&*!|>%@`,?~=+eEnfTtruNl\t\u3000\u2028\u202e"), max_size=12
)
FRONT_MATTER = st.lists(
    st.tuples(
        st.sampled_from(
            ["name: ", "description: ", "metadata:", "  type: ", "  ", "x:", "null: ", "y : ", '"q": ']
        ),
        st.one_of(VALUE, VALUE.map(json.dumps), VALUE.map(lambda text: f"'{text}'"), st.just("")),
    ).map("".join),
    max_size=6,
).map("\n".join)


@given(st.one_of(YAMLISH, FRONT_MATTER, st.text(max_size=60)))
@example("a: !!omap [{}]")
@example("[" * 70_000)
def test_any_text(text):
    """Any text gives a value or a YamlError that points into the text, nothing else, and twice the same."""
    error = refusal(text)
    if error is None:
        assert repr(yaml.load_with_lines(text)[0]) == repr(yaml.load(text))
    else:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert error.message
    yaml.plain_comment_cuts(text)


@given(FRONT_MATTER)
@example("a: b\n  c: d")
@example('a: ""\n  c: d')
@example("a:\n\n  b: c\n  d: e\nf: ''\n")
@example("a:\n  b:\n  c: d")
@example("true: a")
@example("a: b\na: c")
def test_simple_way_is_exact(text):
    """What the simple way reads at all, it reads as the exact way does."""
    simple = yaml._read_simple(text)
    if simple is not None:
        assert repr(yaml._read_exactly(text)) == repr(simple)


def test_simple_way_takes_ordinary_front_matter():
    """Front matter as ZCode writes and stamps it goes the simple way: the daemon's speed hangs on it."""
    kinds = (
        "standard-en",
        "standard-zh",
        "standard-ko",
        "standard-de",
        "flat-type",
        "plain-apostrophe",
        "date",
    )
    for case in VECTORS:
        if case["kind"] in kinds:
            assert yaml._read_simple(case["yaml"]) == case["value"]
    stamped = (
        "name: a-b\ndescription: '用户偏好: 先给结论'\nmetadata:\n  node_type: memory\n  type: user\n"
        "  modified: 2026-08-15T10:00:00Z\n  originSessionId: 0f8a6b\n"
    )
    assert yaml._read_simple(stamped) == yaml._read_exactly(stamped)
