"""The rules on what was there before: directories in which something is lost, and days on which nothing is."""

import hashlib
from dataclasses import dataclass, field, replace

import pytest

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit import RULES, audit
from zcsyncd.memory.fact import FileStat, parse_fact, unreadable_fact
from zcsyncd.memory.index import parse_index, unreadable_index
from zcsyncd.memory.past import Past, due_ms, end, follow, past_from, past_row
from zcsyncd.memory.snapshot import Snapshot

CAPS = Caps(lines=200, units=25_000)
START_MS = 1_796_055_660_000
START = "2026-11-30T16:21:00Z"
SECOND, MINUTE = 1_000, 60_000
HISTORY = ("entry-lost", "fact-blanked", "fact-shrunk", "mass-delete", "contention")
UNREADABLE = None


def fact(name, description=None, body="Text.\n", kind="user"):
    """Give a fact's text in the form that ZCode writes."""
    described = f"about {name}" if description is None else description
    head = f"---\nname: {name}\ndescription: {described}\nmetadata:\n  node_type: memory\n  type: {kind}\n---\n\n"
    return head + body


def facts(*names, body="Text.\n"):
    """Give facts by file name."""
    return {f"{name}.md": fact(name, body=body) for name in names}


def line(name):
    """Give an entry's line."""
    return f"- [{name}]({name}.md) — about {name}\n"


def index(*names, head="# Memory\n\n"):
    """Give an index with an entry for each name."""
    return {"MEMORY.md": head + "".join(map(line, names))}


def numbered(count, first=0):
    """Give names."""
    return [f"f{number}" for number in range(first, first + count)]


@dataclass
class Story:
    """A directory that is followed batch by batch, as the daemon does it, history included."""

    files: dict
    at_ms: int = START_MS
    folds_case: bool = False
    past: Past = field(default_factory=Past)
    dismissed: set = field(default_factory=set)
    snapshot: Snapshot | None = None
    saved: list = field(default_factory=list)
    kept: dict = field(default_factory=dict)
    lagging: set = field(default_factory=set)
    """Files that are gone from the disk and whose disappearance has not settled."""

    def __post_init__(self):
        """Take the directory as it is found first."""
        self.then(after_ms=0)

    def then(self, changes=None, *, after_ms=SECOND, ours=False):
        """Let a batch happen: texts by file name, `...` for a file that goes."""
        self.at_ms += after_ms
        changes = changes or {}
        self.files = {file: text for file, text in {**self.files, **changes}.items() if text is not ...}
        before, self.snapshot = self.snapshot, self._look()
        raw = self._raw("MEMORY.md")
        digest = hashlib.sha256(raw).hexdigest() if raw is not UNREADABLE else None
        if digest is not None:
            self.kept[digest] = raw
        self.past = follow(
            self.past,
            before,
            self.snapshot,
            at_ms=self.at_ms,
            files=frozenset(changes) if before is not None else None,
            ours=ours,
            bytes_of=self.kept.get,
            former_indexes=lambda: tuple(self.saved),
            still_there=lambda file: file not in self.lagging,
        )
        if digest is not None and digest not in self.saved:
            self.saved.insert(0, digest)
        return self

    def wait(self, after_ms):
        """Let time pass."""
        self.at_ms += after_ms
        return self

    def _raw(self, file):
        text = self.files.get(file, UNREADABLE)
        return text.encode() if isinstance(text, str) else text

    def _look(self):
        found, here = None, {}
        for file in self.files:
            raw = self._raw(file)
            stat = FileStat(0, 0, len(raw or b""), 1)
            if file == "MEMORY.md":
                found = (
                    unreadable_index(file, stat, "Permission denied", read_at_ns=0)
                    if raw is UNREADABLE
                    else parse_index(file, raw, stat, read_at_ns=0, caps=CAPS)
                )
            elif raw is UNREADABLE:
                here[file] = unreadable_fact(file, stat, "Permission denied", read_at_ns=0)
            else:
                here[file] = parse_fact(file, raw, stat, read_at_ns=0)
        return Snapshot("/m", "zcode", found, here, {}, self.folds_case)

    def audit(self, muted=()):
        """Give all findings."""
        self.past = end(self.past, self.snapshot, now_ms=self.at_ms, dismissed=self.dismissed)
        return audit(self.snapshot, CAPS, now_ms=self.at_ms, muted=frozenset(muted), past=self.past)

    def told(self, code=None):
        """Give the findings of the history rules (of one code)."""
        return [one for one in self.audit() if one.code in HISTORY and code in {None, one.code}]

    def targets(self):
        """Give the targets of lost entries."""
        return [one.target for one in self.told("entry-lost")]


def story(*names, **more):
    """Begin with facts that are all in the index."""
    return Story({**index(*names), **facts(*names)}, **more)


BIG = "x" * 2_000 + "\n"
STAMPED = "---\nname: a\ndescription: about a\nmetadata:\n  type: user\n  node_type: memory\n  originSessionId: z\n---\n\nText.\n"

TABLE = {
    "entry-lost": (
        {
            "two vanish": lambda: story("a", "b", "c").then(index("c")),
            "two vanish and one comes": lambda: story("a", "b", "c").then({**index("c", "d"), **facts("d")}),
            "all vanish": lambda: story("a", "b").then({"MEMORY.md": "# Memory\n"}),
            "emptied": lambda: story("a", "b").then({"MEMORY.md": ""}),
            "one vanishes in an old copy with a new entry": lambda: (
                story("a").then({**index("a", "b"), **facts("b")}).then({**index("a", "c"), **facts("c")})
            ),
            "one vanishes in an old copy as it was": lambda: (
                story("a").then({**index("a", "b"), **facts("b")}).then(index("a"))
            ),
            "an older copy than the last": lambda: (
                story("a")
                .then({**index("a", "b"), **facts("b")})
                .then({**index("a", "b", "c"), **facts("c")})
                .then({**index("a", "b", "d", "e"), **facts("d", "e")})
            ),
            "lost while the index was away": lambda: (
                story("a", "b", "c").then({"MEMORY.md": ...}).then(index("a"))
            ),
            "lost while the index could not be read": lambda: (
                story("a", "b", "c").then({"MEMORY.md": UNREADABLE}).then(index("a"))
            ),
            "one lost while the index was away, in an old copy": lambda: (
                story("a").then({**index("a", "b"), **facts("b")}).then({"MEMORY.md": ...}).then(index("a"))
            ),
            "an escaped target": lambda: Story(
                {"MEMORY.md": "- [a](a%20b.md)\n- [c](c.md)\n", **facts("a b", "c")}
            ).then({"MEMORY.md": "# none\n"}),
            "past the cap": lambda: Story(
                {"MEMORY.md": "x\n\n" * 120 + line("a") + line("b"), **facts("a", "b")}
            ).then({"MEMORY.md": "x\n\n" * 120}),
        },
        {
            "one is taken out": lambda: story("a", "b", "c").then(index("a", "c")),
            "one is taken out and another added": lambda: story("a", "b", "c").then(
                {**index("a", "c", "d"), **facts("d")}
            ),
            "one is taken out of a growing index that began empty": lambda: (
                Story({"MEMORY.md": "# Memory\n\n"})
                .then({**index("a"), **facts("a")})
                .then({**index("a", "b"), **facts("b")})
                .then({**index("a", "b", "c"), **facts("c")})
                .then(index("a", "c"))
            ),
            "the facts go, too": lambda: story("a", "b", "c").then({**index("c"), "a.md": ..., "b.md": ...}),
            "the facts are gone, and that has not settled": lambda: story(
                "a", "b", "c", lagging={"a.md", "b.md"}
            ).then(index("c")),
            "the facts are put away": lambda: story("a", "b", "c").then(
                {**index("c"), "a.md": ..., "b.md": ..., ".trash/a.md": fact("a"), ".trash/b.md": fact("b")}
            ),
            "renamed with their entries": lambda: story("a", "b").then(
                {**index("x", "y"), "a.md": ..., "b.md": ..., "x.md": fact("a"), "y.md": fact("b")}
            ),
            "renamed, and the old names still there": lambda: story("a", "b").then(
                {**index("x", "y"), "x.md": fact("a"), "y.md": fact("b")}
            ),
            "moved into a hub file": lambda: story("a", "b", "c", "d").then(
                {**index("d", "hub"), "hub.md": fact("hub", body=line("a") + line("b") + line("c"))}
            ),
            "moved into a hub file that was there": lambda: Story(
                {
                    **index("a", "b", "hub"),
                    **facts("a", "b"),
                    "hub.md": fact("hub", body="[a](a.md), [b](b.md)\n"),
                }
            ).then(index("hub")),
            "dangling entries": lambda: Story({**index("a", "x", "y"), **facts("a")}).then(index("a")),
            "entries spelled anew": lambda: Story(
                {"MEMORY.md": "- [a](<a b.md>)\n- [c](c d.md)\n", **facts("a b", "c d")}
            ).then({"MEMORY.md": "- [a](a%20b.md)\n- [c](c%20d.md#top)\n"}),
            "entries in other case": lambda: Story(
                {"MEMORY.md": "- [a](A.md)\n- [b](B.md)\n", **facts("a", "b")}, folds_case=True
            ).then(index("a", "b")),
            "repetitions taken out": lambda: Story(
                {"MEMORY.md": line("a") * 2 + line("b") * 2, **facts("a", "b")}
            ).then({"MEMORY.md": line("a") + line("b")}),
            "two mentions of one line": lambda: Story(
                {"MEMORY.md": "- [a](a.md) and [b](b.md)\n" + line("c"), **facts("a", "b", "c")}
            ).then({"MEMORY.md": line("c")}),
            "put into a comment": lambda: story("a", "b", "c").then(
                {"MEMORY.md": line("c") + "\n<!--\n" + line("a") + line("b") + "-->\n"}
            ),
            "hidden entries taken out": lambda: Story(
                {
                    "MEMORY.md": line("c") + "\n<!--\n" + line("a") + line("b") + "-->\n",
                    **facts("a", "b", "c"),
                }
            ).then({"MEMORY.md": line("c")}),
            "reordered": lambda: story("a", "b", "c").then(index("c", "a", "b")),
            "put under a heading": lambda: story("a", "b").then(
                {"MEMORY.md": "# One\n" + line("a") + "\n# Two\n" + line("b")}
            ),
            "hooks changed": lambda: story("a", "b").then({"MEMORY.md": "- [A](a.md) — x\n- [B](b.md)\n"}),
            "the index goes": lambda: story("a", "b", "c").then({"MEMORY.md": ...}),
            "the index cannot be read": lambda: story("a", "b", "c").then({"MEMORY.md": UNREADABLE}),
            "the index is no text": lambda: story("a", "b", "c").then({"MEMORY.md": b"\0\0\0\0"}),
            "the index comes back": lambda: (
                story("a", "b", "c").then({"MEMORY.md": ...}).then(index("c", "b", "a"))
            ),
            "the index comes back without one": lambda: (
                story("a", "b", "c").then({"MEMORY.md": ...}).then(index("c", "a"))
            ),
            "filled again after it was emptied, without one": lambda: (
                story("a", "b", "c").then({"MEMORY.md": ""}).then(index("c", "a"))
            ),
            "the first index": lambda: Story(facts("a", "b", "c")).then(index("c")),
            "by our own pen": lambda: story("a", "b", "c").then(index("c"), ours=True),
        },
    ),
    "fact-blanked": (
        {
            "no description": lambda: story("a").then(
                {"a.md": fact("a").replace("description: about a\n", "")}
            ),
            "an empty description": lambda: story("a").then({"a.md": fact("a", '""')}),
            "no text in it": lambda: story("a").then({"a.md": fact("a", "42")}),
            "no type": lambda: story("a").then({"a.md": fact("a").replace("  type: user\n", "")}),
            "an empty name": lambda: story("a").then({"a.md": fact("a").replace("name: a", "name:")}),
            "no front matter": lambda: story("a").then({"a.md": "Text.\n"}),
            "an empty front matter": lambda: story("a").then({"a.md": "---\n---\n\nText.\n"}),
            "a fact without a body emptied": lambda: Story({**index("a"), "a.md": fact("a", body="")}).then(
                {"a.md": ""}
            ),
            "nearly all of its bytes were front matter": lambda: Story(
                {**index("a"), "a.md": fact("a", "y" * 3_000)}
            ).then({"a.md": fact("a", '""')}),
            "renamed afterwards": lambda: (
                story("a").then({"a.md": "Text.\n"}).then({"a.md": ..., "b.md": "Text.\n"})
            ),
        },
        {
            "another description": lambda: story("a").then({"a.md": fact("a", "else")}),
            "the type at the top level": lambda: story("a").then(
                {"a.md": "---\nname: a\ndescription: about a\ntype: user\n---\n\nText.\n"}
            ),
            "a type that ZCode does not know": lambda: story("a").then({"a.md": fact("a", kind="note")}),
            "YAML that cannot be read": lambda: story("a").then({"a.md": fact("a", "x: y")}),
            "an alias": lambda: story("a").then({"a.md": fact("a", "**x**")}),
            "a fence that is broken": lambda: story("a").then(
                {"a.md": fact("a").replace("---\n\n", "--- \n\n")}
            ),
            "the body changed, too": lambda: story("a").then({"a.md": "Other text.\n"}),
            "it had none": lambda: Story({**index("a"), "a.md": "Text.\n"}).then(
                {"a.md": "---\n---\nText.\n"}
            ),
            "it can no longer be read": lambda: story("a").then({"a.md": UNREADABLE}),
            "a stamp": lambda: story("a").then({"a.md": STAMPED}),
            "by our own pen": lambda: story("a").then({"a.md": "Text.\n"}, ours=True),
        },
    ),
    "fact-shrunk": (
        {
            "a body cut": lambda: Story({**index("a"), **facts("a", body=BIG)}).then(facts("a")),
            "emptied": lambda: Story({**index("a"), **facts("a", body=BIG)}).then({"a.md": ""}),
            "just over the half": lambda: Story({**index("a"), "a.md": "x" * 1_024}).then(
                {"a.md": "y" * 511}
            ),
        },
        {
            "just the half": lambda: Story({**index("a"), "a.md": "x" * 1_024}).then({"a.md": "y" * 512}),
            "a small fact": lambda: Story({**index("a"), "a.md": "x" * 1_023}).then({"a.md": "y"}),
            "in two steps": lambda: (
                Story({**index("a"), "a.md": "x" * 4_000})
                .then({"a.md": "x" * 2_500})
                .then({"a.md": "x" * 1_500})
            ),
            "grown": lambda: Story({**index("a"), **facts("a")}).then(facts("a", body=BIG)),
            "saved as UTF-8": lambda: Story(
                {**index("a"), "a.md": b"\xff\xfe" + fact("a", body=BIG).encode("utf-16le")}
            ).then(facts("a", body=BIG)),
            "blanked says it": lambda: Story({**index("a"), "a.md": fact("a", "y" * 3_000)}).then(
                {"a.md": fact("a", '""')}
            ),
            "it can no longer be read": lambda: Story({**index("a"), **facts("a", body=BIG)}).then(
                {"a.md": UNREADABLE}
            ),
            "deleted": lambda: Story({**index("a"), **facts("a", body=BIG)}).then({"a.md": ...}),
            "by our own pen": lambda: Story({**index("a"), **facts("a", body=BIG)}).then(
                facts("a"), ours=True
            ),
        },
    ),
    "mass-delete": (
        {
            "all five": lambda: story(*numbered(5)).then(dict.fromkeys(facts(*numbered(5)), ...)),
            "a fifth": lambda: story(*numbered(50)).then(dict.fromkeys(facts(*numbered(10)), ...)),
            "one by one": lambda: _one_by_one(story(*numbered(10)), 6, gap_ms=9 * SECOND),
            "with their entries": lambda: story(*numbered(20)).then(
                {**index(*numbered(10, 10)), **dict.fromkeys(facts(*numbered(10)), ...)}
            ),
        },
        {
            "four": lambda: story(*numbered(4)).then(dict.fromkeys(facts(*numbered(4)), ...)),
            "four of a hundred": lambda: story(*numbered(100)).then(dict.fromkeys(facts(*numbered(4)), ...)),
            "less than a fifth": lambda: story(*numbered(51)).then(dict.fromkeys(facts(*numbered(10)), ...)),
            "slowly": lambda: _one_by_one(story(*numbered(10)), 8, gap_ms=16 * SECOND),
            "a folder renamed": lambda: story(*numbered(8)).then(
                {
                    **dict.fromkeys(facts(*numbered(8)), ...),
                    **{f"old/{file}": text for file, text in facts(*numbered(8)).items()},
                }
            ),
            "a trash emptied": lambda: Story(
                {**index("a"), **facts("a"), **{f".trash/{name}.md": fact(name) for name in numbered(9)}}
            ).then({f".trash/{name}.md": ... for name in numbered(9)}),
            "copies of one text": lambda: Story(
                {**index("a"), **facts("a"), **{f"{name}.md": fact("a") for name in numbered(9)}}
            ).then({f"{name}.md": ... for name in numbered(9)}),
            "back within the minute": lambda: (
                story(*numbered(8))
                .then(dict.fromkeys(facts(*numbered(8)), ...))
                .then(facts(*numbered(8)), after_ms=30 * SECOND)
            ),
            "by our own pen": lambda: story(*numbered(8)).then(
                dict.fromkeys(facts(*numbered(8)), ...), ours=True
            ),
        },
    ),
    "contention": (
        {
            "a fact": lambda: _in_turn(
                story("a"), "a.md", fact("a", body="One.\n"), fact("a", body="Two.\n"), 4
            ),
            "the state that was found counts": lambda: _in_turn(
                story("a"), "a.md", fact("a", body="One.\n"), fact("a"), 3
            ),
            "the index": lambda: _in_turn(
                story("a", "b"), "MEMORY.md", index("a", "b")["MEMORY.md"], index("b", "a")["MEMORY.md"], 5
            ),
            "in nine minutes": lambda: _in_turn(
                story("a"), "a.md", fact("a", body="One.\n"), fact("a", body="Two.\n"), 4, gap_ms=3 * MINUTE
            ),
            "taken away and made again": lambda: _in_turn(
                story("a"),
                "a.md",
                fact("a", body="One.\n"),
                fact("a", body="Two.\n"),
                4,
                between={"a.md": ...},
            ),
            "against our pen": lambda: (
                story("a", "b", "c").then(index("c")).then(index("a", "b", "c"), ours=True).then(index("c"))
            ),
        },
        {
            "undone once": lambda: _in_turn(story("a"), "a.md", fact("a", body="One.\n"), fact("a"), 2),
            "slowly": lambda: _in_turn(
                story("a"), "a.md", fact("a", body="One.\n"), fact("a", body="Two.\n"), 6, gap_ms=4 * MINUTE
            ),
            "three states in a circle": lambda: (
                story("a")
                .then(facts("a", body="1\n"))
                .then(facts("a", body="2\n"))
                .then(facts("a"))
                .then(facts("a", body="1\n"))
                .then(facts("a", body="2\n"))
            ),
            "a growing file": lambda: _growing(story("a"), 9),
            "written and stamped again and again": lambda: _in_turn(
                story("a"), "a.md", STAMPED, fact("a"), 6
            ),
            "emptied before each write": lambda: _in_turn(
                story("a"), "a.md", fact("a"), fact("a"), 5, between={"a.md": ""}
            ),
            "by our own pen": lambda: (
                story("a")
                .then(facts("a", body="1\n"), ours=True)
                .then(facts("a"), ours=True)
                .then(facts("a", body="1\n"), ours=True)
            ),
        },
    ),
}


def _one_by_one(begun, count, gap_ms):
    for name in numbered(count):
        begun.then({f"{name}.md": ...}, after_ms=gap_ms)
    return begun


def _in_turn(begun, file, one, other, count, *, gap_ms=SECOND, between=None):
    for number in range(count):
        if between is not None:
            begun.then(between, after_ms=gap_ms)
        begun.then({file: other if number % 2 else one}, after_ms=gap_ms)
    return begun


def _growing(begun, count):
    for number in range(count):
        begun.then(facts("a", body="more\n" * number))
    return begun


def _cases(which):
    return [
        pytest.param(code, case, id=f"{code}: {name}")
        for code, sides in TABLE.items()
        for name, case in sides[which].items()
    ]


def test_the_table_is_whole():
    """Every history rule has directories that show it and some that nearly do, and a row among the rules."""
    assert tuple(TABLE) == HISTORY
    assert set(HISTORY) < RULES.keys()


@pytest.mark.parametrize(("code", "case"), _cases(0))
def test_a_rule_speaks(code, case):
    """What was lost is told with the rule's severity, the moment and something to do; over a restart, too."""
    lived = case()
    findings = lived.told(code)
    assert findings
    for finding in findings:
        rule = RULES[code]
        assert finding.severity == rule.severity
        assert finding.fixable == rule.fixable
        assert finding.hint
        assert "\n" not in finding.message + finding.hint
        assert "2026-11-30T16:" in finding.message
    lived.past = past_from(past_row(lived.past))
    assert lived.told(code) == findings


@pytest.mark.parametrize(("code", "case"), _cases(1))
def test_a_rule_is_silent(code, case):
    """What only looks like a loss is not told as one."""
    assert case().told(code) == []


# -- ordinary days: nothing at all is lost -------------------------------------------------------------------

DAYS = {
    "a fact, and its entry seconds later": lambda: (
        story("a").then(facts("b")).then(index("a", "b"), after_ms=20 * SECOND)
    ),
    "an entry, and its fact seconds later": lambda: story("a").then(index("a", "b")).then(facts("b")),
    "a hub file for three entries, then the index": lambda: (
        story("a", "b", "c", "d")
        .then({"hub.md": fact("hub", body=line("a") + line("b") + line("c"))})
        .then(index("d", "hub"))
    ),
    "a fact renamed with its entry": lambda: story("a", "b").then(
        {**index("b", "x"), "a.md": ..., "x.md": fact("a")}
    ),
    "a fact renamed, the new name settling first": lambda: (
        story("a", "b").then({"x.md": fact("a")}).then(index("b", "x")).then({"a.md": ...})
    ),
    "another branch is checked out": lambda: story("a", "b", "c", "d").then(
        {**index("d", "x", "y"), **facts("x", "y"), "a.md": ..., "b.md": ..., "c.md": ...}
    ),
    "another branch, file by file": lambda: (
        story("a", "b", "c", "d", lagging={"a.md", "b.md"})
        .then({**index("c", "d", "x")})
        .then(facts("x"))
        .then({"a.md": ..., "b.md": ...})
    ),
    "entries in another order": lambda: story("a", "b", "c").then(index("c", "b", "a")),
    "hooks rewritten": lambda: story("a", "b").then({"MEMORY.md": "# M\n- [A](a.md): x\n- [B](b.md): y\n"}),
    "four of a hundred facts deleted with their entries": lambda: (
        story(*numbered(100)).then(dict.fromkeys(facts(*numbered(4)), ...)).then(index(*numbered(96, 4)))
    ),
    "two agents append in turn": lambda: (
        story("a")
        .then({**index("a", "b"), **facts("b")})
        .then({**index("a", "b", "c"), **facts("c")})
        .then({**index("a", "b", "c", "d"), **facts("d")})
        .then({**index("a", "b", "c", "d", "e"), **facts("e")})
    ),
    "facts merged into one": lambda: story("a", "b", "c").then(
        {**index("c", "ab"), **facts("ab"), "a.md": ..., "b.md": ...}
    ),
    "an editor that empties the index before it writes": lambda: (
        story("a", "b").then({"MEMORY.md": ""}).then({**index("a", "b", "c"), **facts("c")})
    ),
    "an editor that takes the index away before it writes": lambda: (
        story("a", "b").then({"MEMORY.md": ...}).then({**index("a", "b", "c"), **facts("c")})
    ),
    "the index is closed for a while": lambda: (
        story("a", "b").then({"MEMORY.md": UNREADABLE}).then(index("a", "b"))
    ),
    "a fact written by our pen, another by an agent": lambda: (
        story("a")
        .then({**index("a", "b"), **facts("b")}, ours=True)
        .then({**index("a", "b", "c"), **facts("c")})
    ),
    "a forget of ours": lambda: story("a", "b").then({**index("b"), "a.md": ...}, ours=True),
}


@pytest.mark.parametrize("day", [pytest.param(day, id=name) for name, day in DAYS.items()])
def test_an_ordinary_day_loses_nothing(day):
    """What people and agents do every day raises none of the history rules, then and after the minute."""
    lived = day()
    assert lived.told() == []
    assert lived.wait(2 * MINUTE).told() == []


# -- what is said --------------------------------------------------------------------------------------------


def test_a_lost_entry_says_what_to_do():
    """The finding names the index, the target and the moment, and the repair."""
    (first, second) = story("a", "b", "c", at_ms=START_MS - SECOND).then(index("c")).told("entry-lost")
    assert (first.file, first.target, second.target, first.line) == ("MEMORY.md", "a.md", "b.md", None)
    assert "`a.md`" in first.message
    assert START in first.message
    assert "`zcsyncd repair --apply`" in first.hint
    assert (first.fixable, first.graced) == (True, False)


def test_a_single_lost_entry_waits():
    """One entry lost to an old copy is pending for the grace; several are told at once."""
    single = story("a").then({**index("a", "b"), **facts("b")}).then({**index("a", "c"), **facts("c")})
    assert [finding.graced for finding in single.told("entry-lost")] == [True]
    assert [finding.graced for finding in story("a", "b").then(index()).told("entry-lost")] == [False, False]


def test_a_lost_entry_is_fixable_where_the_index_can_be_written():
    """In an index that is not UTF-8 nothing is put back, and the hint says what comes first."""
    gbk = "- [丙](c.md) — 第三个字母的说明\n".encode("gbk")
    findings = story("a", "b", "c").then({"MEMORY.md": gbk}).told("entry-lost")
    assert [finding.fixable for finding in findings] == [False, False]
    assert findings[0].hint.startswith("save the index as UTF-8")


def test_a_lost_entry_absorbs_the_fact_that_nothing_reaches():
    """What is told as lost is not told as unindexed too, unless lost entries are muted."""
    lost = story("a", "b", "c").then({**index("c"), **facts("d")})
    assert {one.file for one in lost.audit() if one.code == "fact-unindexed"} == {"d.md"}
    muted = lost.audit(muted={"entry-lost"})
    assert {one.file for one in muted if one.code == "fact-unindexed"} == {"a.md", "b.md", "d.md"}
    assert not any(one.code == "entry-lost" for one in muted)


def test_an_entry_that_was_taken_out_is_an_edit():
    """Its fact is told as unindexed, as ever, and the hint tells when the entry went, until the fact is reached."""
    edited = story("a", "b", "c", at_ms=START_MS - SECOND).then(index("a", "c"))
    (finding,) = [one for one in edited.audit() if one.code == "fact-unindexed"]
    assert finding.file == "b.md"
    assert finding.graced
    assert finding.hint.endswith(f"; its entry was removed at {START}")
    plain = [one for one in audit(edited.snapshot, CAPS, now_ms=0) if one.code == "fact-unindexed"]
    assert [one.key for one in plain] == [finding.key]
    edited.then(index("a", "b", "c")).then({"x.md": fact("x")})
    edited.audit()
    assert edited.past.removals == ()


def test_a_blanked_fact_names_the_keys():
    """The message names what went, and narrows as keys come back."""
    blanked = story("a").then({"a.md": "---\nmetadata:\n  type: user\n---\n\nText.\n"})
    (finding,) = blanked.told("fact-blanked")
    assert "`name` and `description`" in finding.message
    assert "`zcsyncd history restore`" in finding.hint
    (finding,) = blanked.then({"a.md": "---\nname: a\nmetadata:\n  type: user\n---\n\nText.\n"}).told()
    assert "lost `description` at" in finding.message


def test_a_fact_that_is_blanked_twice_is_one_loss():
    """The version before the first blow holds all that both took."""
    first = fact("a")
    blanked = story("a").then({"a.md": fact("a", '""')}).then({"a.md": "Text.\n"})
    (loss,) = blanked.past.losses
    assert loss.lost == ("name", "description", "type")
    assert loss.held_in == hashlib.sha256(first.encode()).hexdigest()


def test_a_shrunk_fact_tells_the_sizes():
    """Bytes before and now are told; what is taken later does not hide the first."""
    shrunk = Story({**index("a"), "a.md": "x" * 4_000}).then({"a.md": "y" * 1_500})
    (finding,) = shrunk.told("fact-shrunk")
    assert "4,000 bytes" in finding.message
    assert "1,500" in finding.message
    (finding,) = shrunk.then({"a.md": "z" * 300}).told("fact-shrunk")
    assert "4,000 bytes" in finding.message


def test_a_mass_deletion_names_what_is_missing():
    """The files are listed, the listing is bounded, and what came back is no longer named."""
    gone = story(*numbered(60)).then(dict.fromkeys(facts(*numbered(50)), ...))
    (finding,) = gone.told("mass-delete")
    assert finding.file is None
    assert "50 facts were deleted" in finding.message
    assert "`f0.md`, `f1.md`" in finding.message
    assert "and 30 more" in finding.message
    (finding,) = gone.then(facts(*numbered(40)), after_ms=2 * MINUTE).told("mass-delete")
    assert "10 of them are still missing: `f40.md`" in finding.message


def test_no_body_is_quoted():
    """None of the findings holds a line of a fact's body."""
    secret = "the secret sentence\n" * 200
    names = numbered(8)
    lived = Story({**index(*names), **facts(*names, body=secret)})
    lived.then({**index("f7"), "f0.md": secret, "f1.md": fact("f1", body="the secret sentence\n")})
    _in_turn(lived, "f2.md", fact("f2", body=secret), fact("f2", body=secret * 2), 4)
    lived.then({f"{name}.md": ... for name in numbered(5, 3)})
    findings = lived.audit()
    assert {finding.code for finding in findings} > {
        "fact-blanked",
        "fact-shrunk",
        "mass-delete",
        "contention",
    }
    assert "secret sentence" not in "".join(f"{one.message}{one.hint}{one.target}" for one in findings)


def test_order_and_keys_hold_with_a_past():
    """With losses the findings are still sorted by gravity, and no two share a key."""
    names = numbered(9)
    lived = Story({**index(*names), **facts(*names, body=BIG)})
    lived.then({**index("f8"), "f0.md": BIG, "f1.md": fact("f1")}).then(
        {"MEMORY.md": index("f8")["MEMORY.md"] * 2}
    )
    findings = lived.audit()
    ranks = [("error", "warning", "info").index(finding.severity) for finding in findings]
    assert ranks == sorted(ranks)
    assert len({finding.key for finding in findings}) == len(findings)
    assert audit(lived.snapshot, CAPS, now_ms=0, past=Past()) == audit(lived.snapshot, CAPS, now_ms=0)


def test_a_key_outlives_a_restart_and_a_second_loss():
    """The same entry lost again has the key that it had."""
    lived = story("a", "b", "c").then(index("c"))
    keys = [finding.key for finding in lived.told()]
    lived.past = past_from(past_row(lived.past))
    assert [finding.key for finding in lived.told()] == keys
    lived.then(index("a", "b", "c"))
    assert lived.told("entry-lost") == []
    lived.then(index("c"))
    assert [finding.key for finding in lived.told("entry-lost")] == keys


# -- what ends a loss ----------------------------------------------------------------------------------------


def lost():
    """Give a directory that has lost two entries of three."""
    return story("a", "b", "c").then(index("c"))


ENDS = {
    "the entry is back": (lambda: lost().then(index("a", "c")), ["b.md"]),
    "put back by our pen": (lambda: lost().then(index("a", "b", "c"), ours=True), []),
    "back under another spelling": (
        lambda: lost().then({"MEMORY.md": "- [A](./%61.md)\n" + line("c")}),
        ["b.md"],
    ),
    "the fact goes": (lambda: lost().then({"b.md": ...}), ["a.md"]),
    "a hub file comes": (
        lambda: lost().then({"hub.md": fact("hub", body=line("a"))}).then(index("c", "hub")),
        ["b.md"],
    ),
    "a hub file that is indexed links it": (
        lambda: lost().then({"c.md": fact("c", body=line("b"))}),
        ["a.md"],
    ),
    "into a comment": (
        lambda: lost().then({"MEMORY.md": line("c") + "\n<!--\n" + line("a") + "-->\n"}),
        ["b.md"],
    ),
    "nothing but time": (lambda: lost().wait(86_400_000), ["a.md", "b.md"]),
    "other changes": (lambda: lost().then({**index("c", "d"), **facts("d")}), ["a.md", "b.md"]),
    "the index goes": (lambda: lost().then({"MEMORY.md": ...}), []),
    "the index goes and comes": (lambda: lost().then({"MEMORY.md": ...}).then(index("c")), ["a.md", "b.md"]),
    "the index is closed and opened": (
        lambda: lost().then({"MEMORY.md": UNREADABLE}).then(index("c")),
        ["a.md", "b.md"],
    ),
}


@pytest.mark.parametrize(("case", "left"), [pytest.param(*case, id=name) for name, case in ENDS.items()])
def test_what_ends_a_lost_entry(case, left):
    """The entry back, the fact gone, or another way to it; nothing else, and not time."""
    assert case().targets() == left


@pytest.mark.parametrize(
    ("text", "over"),
    [
        (fact("a"), True),
        (fact("a", "another one"), True),
        (fact("a", kind="note"), True),
        (fact("a", '""'), False),
        (fact("a", "x: y"), False),
        ("---\nname: a\n---\n\nText.\n", False),
        ("Text.\nAnd more.\n", False),
        (UNREADABLE, False),
        (..., True),
    ],
)
def test_what_ends_a_blanked_fact(text, over):
    """All keys back, whatever they say, or the fact gone."""
    blanked = story("a").then({"a.md": "Text.\n"}).then({"a.md": text})
    assert (blanked.told("fact-blanked") == []) == over


@pytest.mark.parametrize(
    ("text", "over"),
    [("x" * 4_000, True), ("z" * 2_000, True), ("z" * 1_999, False), ("", False), (..., True)],
)
def test_what_ends_a_shrunk_fact(text, over):
    """Half of its former size, its former bytes, or the fact gone."""
    shrunk = Story({**index("a"), "a.md": "x" * 4_000}).then({"a.md": "y" * 100}).then({"a.md": text})
    assert (shrunk.told("fact-shrunk") == []) == over


@pytest.mark.parametrize(("back", "over"), [(0, False), (5, False), (6, True), (10, True)])
def test_what_ends_a_mass_deletion(back, over):
    """Fewer than five files still missing; time does not end it."""
    gone = story(*numbered(20)).then(dict.fromkeys(facts(*numbered(10)), ...)).wait(86_400_000)
    gone.then(facts(*numbered(back)), ours=True)
    assert (gone.told("mass-delete") == []) == over


def test_a_mass_deletion_takes_the_facts_own_losses_with_it():
    """A blanked fact that is deleted with the others is told by the deletion alone."""
    names = numbered(8)
    gone = story(*names).then({"f0.md": "Text.\n"}).then(dict.fromkeys(facts(*names), ...))
    assert [finding.code for finding in gone.told()] == ["mass-delete"]


def test_contention_is_over_after_ten_quiet_minutes():
    """It stays while the file goes on changing hands, and ends ten minutes after the last time."""
    fight = _in_turn(story("a"), "a.md", fact("a", body="1\n"), fact("a", body="2\n"), 4)
    assert fight.wait(9 * MINUTE).told("contention")
    _in_turn(fight, "a.md", fact("a", body="1\n"), fact("a", body="2\n"), 4)
    assert fight.wait(9 * MINUTE).told("contention")
    assert fight.wait(MINUTE).told("contention") == []
    fight.then(facts("a", body="3\n"))
    assert fight.told("contention") == []


def test_a_dismissed_finding_does_not_come_back():
    """A dismissed loss stays remembered as long as the directory shows it, also where time would have ended it."""
    fight = _in_turn(story("a"), "a.md", fact("a", body="1\n"), fact("a", body="2\n"), 4)
    (finding,) = fight.told("contention")
    fight.dismissed.add(finding.key)
    assert [one.key for one in fight.wait(86_400_000).told("contention")] == [finding.key]
    assert due_ms(fight.past) is None
    assert end(fight.past, fight.snapshot, now_ms=fight.at_ms, dismissed=fight.dismissed) is fight.past
    fight.dismissed.clear()
    assert fight.told("contention") == []
    entry = lost()
    entry.dismissed.update(one.key for one in entry.told())
    assert [one.code for one in entry.wait(86_400_000).audit()] == ["entry-lost", "entry-lost"]
    assert entry.then(index("a", "b", "c")).told() == []


def test_a_loss_survives_a_restart_in_the_middle():
    """An index that went before a restart is compared with what it was when it comes back after it."""
    lived = story("a", "b", "c").then({"MEMORY.md": ...})
    lived.past = past_from(past_row(lived.past))
    assert lived.then(index("c")).targets() == ["a.md", "b.md"]


def test_a_time_that_no_clock_shows_is_told_nevertheless():
    """A clock that ran wild makes a finding without a time, never an exception."""
    lived = lost()
    lived.past = Past(tuple(replace(loss, at_ms=2**60) for loss in lived.past.losses))
    assert all("an unknown time" in finding.message for finding in lived.told())
