"""The pages say what the program does: verbs, options, exit codes, links, places; methods, parameters, topics."""

import re
from pathlib import Path

import pytest

from zcsyncd import errors
from zcsyncd.bus.requests import describe
from zcsyncd.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def parsers():
    """Give every verb's parser by its words."""
    found = {}
    parser = build_parser()
    for action in parser._subparsers._group_actions:
        for name, inner in action.choices.items():
            found[(name,)] = inner
            for deeper in inner._subparsers._group_actions if inner._subparsers else ():
                found |= {(name, word): one for word, one in deeper.choices.items()}
    return found


@pytest.mark.parametrize(
    "words",
    [words for words in parsers() if words not in {("memory",), ("history",), ("service",), ("plugin",)}],
)
def test_every_verb_and_option_is_documented(words):
    """A verb is in the README's table and in docs/cli.md, each of its options in docs/cli.md."""
    assert f"`zcsyncd {' '.join(words)}" in README
    assert f"`{' '.join(words)}" in CLI
    for action in parsers()[words]._actions:
        for option in action.option_strings:
            if option not in {"-h", "--help"}:
                assert re.search(rf"[`\s]{option}\b", CLI), option


def test_every_exit_code_is_documented():
    """docs/cli.md lists each exit code that an error of ours has, and those of the endings."""
    from zcsyncd.cli.outcome import A_BUG, INTERRUPTED, PIPE_CLOSED

    def family(kind):
        return {kind.exit_code}.union(*(family(child) for child in kind.__subclasses__()))

    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)}
    assert listed == family(errors.ZcsyncdError) | {0, 1, A_BUG, INTERRUPTED, PIPE_CLOSED}


def test_topics_in_the_readme_are_the_protocols():
    """Every topic that the README names is one of the protocol."""
    known = set(describe()["topics"])
    table = README.split("| topic | when |")[1].split("\n\n")[0]
    named = set(re.findall(r"`((?:memory|read-state|bus)/[a-z-]+)`", table))
    assert named
    assert named <= known


def sections():
    """Give what docs/protocol.md says of each method, by name; *Not yet* is none."""
    text = PROTOCOL.split("\n## 4. ")[1].split("\n## 5. ")[0]
    found = dict(re.findall(r"^### (\S+)\n+(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    found["hello"] = PROTOCOL.split("\n## 3. ")[1].split("\n## 4. ")[0]
    return {name: part for name, part in found.items() if name != "Not"}


def named_parameters(text):
    """Give the parameters of a section, from its table or its first sentence; true for one that may be left out."""
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) if "| parameter |" in text else []
    while (outer := re.sub(r"\([^()]*\)", "", text)) != text:
        text = outer
    first = re.split(r"\.\s", text)[0]
    named = re.findall(r"`([\w.]+)(\??)`", " ".join(rows) if rows else first)
    return {name: bool(mark) for name, mark in named}


def described_parameters(schema, prefix=""):
    """Give the parameters of a method as `describe` has them; a session's members with the session's name."""
    required = schema.get("required", [])
    found = {}
    for name, inner in schema.get("properties", {}).items():
        if prefix + name == "session":
            found |= described_parameters(inner, "session.")
        else:
            found[prefix + name] = name not in required
    return found


def test_the_protocols_page_names_exactly_the_methods():
    """docs/protocol.md has a section for each method of `describe`, and for no other."""
    assert set(sections()) == set(describe()["methods"])


@pytest.mark.parametrize("method", list(describe()["methods"]))
def test_the_protocols_page_names_exactly_the_parameters(method):
    """Each parameter of `describe` is named, and none that is not built; a `?` marks what may be left out."""
    described = described_parameters(describe()["methods"][method]["params"])
    named = named_parameters(sections()[method])
    if method == "hello":  # its table says in words what may be left out
        assert set(named) == set(described)
    else:
        assert named == described


def topic_rows():
    """Give the topics' table of docs/protocol.md: names to what is said of their data."""
    table = PROTOCOL.split("| topic | data |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [row.strip("| ").split(" | ", 1) for row in table.replace(" | |\n", " |  |\n").splitlines()]
    return {
        name: row[1] if len(row) > 1 else ""
        for row in rows
        for name in re.findall(r"`([a-z-]+/[a-z-]+)`", row[0])
    }


def test_the_protocols_page_names_exactly_the_topics():
    """The table of topics has those of `describe`, and those that are marked as not built; each with all of its data."""
    described = describe()["topics"]
    named = topic_rows()
    assert {name for name, said in named.items() if "*(not yet)*" not in said.split("`")[0]} == set(described)
    for name, topic in described.items():
        for member in topic["data"].get("properties", {}):
            said = named[name] + PROTOCOL.split("**Replayed reads.**")[1]
            assert re.search(rf"`\"?{member}\b", said), (name, member)


def test_what_is_not_built_is_not_described():
    """No method, and no parameter of a method, of *Not yet* is one that the daemon knows."""
    text = PROTOCOL.split("### Not yet")[1].split("\n## ")[0]
    (method,) = set(re.findall(r"`(\w+\.\w+)`", text))
    parameters = set(re.findall(r"`(\w+)`", text))
    assert parameters == {"unit", "from", "to"}
    assert not parameters & set(describe()["methods"][method]["params"]["properties"])


PAGES = [
    "README.md",
    "README.zh-CN.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]


def test_the_chinese_readme_has_what_the_english_has():
    """The same commands, events, variables, linked pages and as many chapters: one that is added here is added there."""
    chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    for pattern in (
        r"^\| `(zcsyncd [a-z ]+)",
        r"^\| `([a-z-]+/[a-z*-]+)`",
        r"`(ZCSYNCD_[A-Z_]+)`",
        r"\]\((docs/[^)#]+)\)",
    ):
        english = set(re.findall(pattern, README, re.MULTILINE))
        assert english
        assert set(re.findall(pattern, chinese, re.MULTILINE)) == english, pattern
    chapters = re.findall(r"^## ", README, re.MULTILINE)
    assert len(re.findall(r"^## ", chinese, re.MULTILINE)) == len(chapters)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    """Every relative link of the page leads to a file of the repository."""
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / name).parent / target).exists(), target


def test_variables_in_the_readme_are_read():
    """Every variable that moves a place is one that the program reads."""
    from zcsyncd import places

    named = set(re.findall(r"ZCSYNCD_[A-Z_]+", README))
    assert named == set(places.VARIABLES)


def test_the_readmes_make_targets_exist():
    """`make demo`, `run`, `test`, `check` and `bench` are targets of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z]+)\b", README)) - {"them"} <= targets
