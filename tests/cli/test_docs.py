"""README and docs/cli.md say what the program does: verbs, options, exit codes, topics, links, places."""

import re
from pathlib import Path

import pytest

from zcsyncd import errors
from zcsyncd.bus.requests import describe
from zcsyncd.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize("words", [words for words in parsers() if words != ("memory",)])
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


@pytest.mark.parametrize("name", ["README.md", "docs/cli.md"])
def test_links_lead_somewhere(name):
    """Every relative link of the page leads to a file of the repository."""
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
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
