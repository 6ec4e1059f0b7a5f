"""Every rule on a directory that shows it, and on one that nearly does."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit import RULES, audit
from zcsyncd.memory.fact import FileStat, parse_fact, unreadable_fact
from zcsyncd.memory.index import parse_index, unreadable_index
from zcsyncd.memory.snapshot import Snapshot, Stray

CAPS = Caps(lines=200, units=25_000)
NOW_MS = 1_800_000_000_000
DOCS = Path(__file__).parents[3] / "docs" / "audit.md"
LINE = "- [Alpha](alpha.md) — the first letter\n"
UNREADABLE = None


def front(description="the first letter", name="alpha", kind="feedback", body="Text.\n"):
    """Give a fact's text in the form that ZCode writes."""
    return f"---\nname: {name}\ndescription: {description}\nmetadata:\n  node_type: memory\n  type: {kind}\n---\n\n{body}"


HISTORY = {"entry-lost", "fact-blanked", "fact-shrunk", "mass-delete", "contention"}
"""Rules that one look at a directory cannot show."""
GOOD = {"MEMORY.md": LINE, "alpha.md": front()}


@dataclass(frozen=True)
class Case:
    """A directory: texts by file name (None: it cannot be read), and what a text cannot say."""

    files: dict
    strays: tuple = ()
    folds_case: bool = False
    symlinks: tuple = ()
    says: str = ""
    more: dict = field(default_factory=dict)


def snapshot(case):
    """Build a snapshot as the disk's door does, from texts."""
    index, facts = None, {}
    for number, (file, content) in enumerate(case.files.items()):
        raw = content.encode() if isinstance(content, str) else content
        stat = FileStat((NOW_MS - number * 1000) * 10**6, 0, len(raw or b""), number + 1)
        if file == "MEMORY.md":
            if raw is UNREADABLE:
                index = unreadable_index(file, stat, "Permission denied", read_at_ns=0)
            else:
                index = parse_index(file, raw, stat, read_at_ns=0, caps=CAPS)
        elif raw is UNREADABLE:
            facts[file] = unreadable_fact(file, stat, "Permission denied", read_at_ns=0, symlink=False)
        else:
            facts[file] = parse_fact(file, raw, stat, read_at_ns=0, symlink=file in case.symlinks)
    strays = {stray.file: stray for stray in case.strays}
    return Snapshot("/m", "zcode", index, facts, strays, case.folds_case)


def told(case, code, caps=CAPS):
    """Give the findings of one code."""
    return [finding for finding in audit(snapshot(case), caps, now_ms=NOW_MS) if finding.code == code]


def good(changes=None, **options):
    """Give a case: a directory in order, but for `changes` (a value of `...` takes a file out)."""
    files = {**GOOD, **(changes or {})}
    return Case({file: text for file, text in files.items() if text is not ...}, **options)


def many(count, kind="- [F{n}](f{n}.md) — words\n"):
    """Give an index with many entries."""
    return "".join(kind.format(n=number) for number in range(count))


def temp(age_ms, name="alpha.md.tmp.123.0123456789ab"):
    """Give a writer's temporary file of an age."""
    return Stray(name, "temp", (NOW_MS - age_ms) * 10**6)


TABLE = {
    "index-missing": (
        [good({"MEMORY.md": ...}), good({"MEMORY.md": ..., "memory.md": LINE}, says="rename `memory.md`")],
        [
            good(),
            Case({}),
            Case({".trash/x.md": front()}),
            Case({"MEMORY.md": UNREADABLE, "alpha.md": front()}),
        ],
    ),
    "index-unreadable": (
        [
            good({"MEMORY.md": UNREADABLE}),
            good({"MEMORY.md": b"\x00\x01\x02\x00" * 20}),
            good({"MEMORY.md": ...}, strays=(Stray("MEMORY.md", "special"),)),
            good({"MEMORY.md": ...}, strays=(Stray("MEMORY.md", "broken-link"),), says="symlink to nothing"),
        ],
        [good(), good({"MEMORY.md": ""}), good({"MEMORY.md": ...})],
    ),
    "index-encoding": (
        [good({"MEMORY.md": "- [甲](alpha.md) — 第一个字母的说明\n".encode("gbk")})],
        [good({"MEMORY.md": "- [甲](alpha.md) — 第一个字母的说明\n"}), good({"MEMORY.md": "\ufeff" + LINE})],
    ),
    "index-swallowed": (
        [good({"MEMORY.md": "---\n" + LINE + "---\nrest\n"})],
        [good({"MEMORY.md": LINE + "---\n"}), good({"MEMORY.md": "# ---\n" + LINE})],
    ),
    "index-over-lines": (
        [good({"MEMORY.md": LINE + "x\n" * 200})],
        [good({"MEMORY.md": LINE + "x\n" * 199})],
    ),
    "index-over-units": (
        [good({"MEMORY.md": LINE + "x" * 25_000})],
        [good({"MEMORY.md": LINE + "文" * 20_000})],
    ),
    "index-near-cap": (
        [good({"MEMORY.md": LINE + "x\n" * 180}), good({"MEMORY.md": LINE + "x" * 23_000})],
        [good({"MEMORY.md": LINE + "x\n" * 170}), good({"MEMORY.md": LINE + "x\n" * 300})],
    ),
    "entry-dangling": (
        [
            good({"MEMORY.md": LINE + "- [B](beta.md) — gone\n"}, says="take the entry out"),
            good({"MEMORY.md": "- [A](Alpha.md) — first\n"}, says="`alpha.md` differs in case only"),
            good(
                {"MEMORY.md": LINE + "- [A](x/alpha.md) — first\n"}, says="`alpha.md` lies in another folder"
            ),
            good(
                {"MEMORY.md": "- [A](a-b.md)\n", "a_b.md": front()},
                says="`a_b.md` differs in `-` and `_` only",
            ),
            good(
                {"MEMORY.md": "- [A](u\u0308.md)\n", "ü.md": front()},
                says="`ü.md` differs in Unicode form only",
            ),
            good(
                {"MEMORY.md": "- [A](a_b.md)\n", "a-b.md": front(), "x/a_b.md": front()},
                says="several files come near: `a-b.md`, `x/a_b.md`",
            ),
            good({"MEMORY.md": LINE + "- [N](notes.txt)\n"}, strays=(Stray("more.txt", "other-file"),)),
            good({"MEMORY.md": LINE + "- [T](x.md)\n", ".trash/x.md": front()}, says="take the entry out"),
        ],
        [
            good(),
            good({"MEMORY.md": "- [A](alpha%2Emd) — first\n"}),
            good({"MEMORY.md": "- [A](a%20b.md)\n", "a b.md": front()}),
            good({"MEMORY.md": "- [A](a%20b.md)\n", "a%20b.md": front()}),
            good({"MEMORY.md": "- [A](ü.md)\n", "u\u0308.md": front()}, folds_case=True),
            good({"MEMORY.md": LINE + "- [N](notes.txt)\n"}, strays=(Stray("notes.txt", "other-file"),)),
            good({"MEMORY.md": LINE + "- [D](sub/)\n", "sub/x.md": front()}),
            good({"MEMORY.md": LINE + "- [D](sub/x.md)\n"}, strays=(Stray("sub", "unreadable-directory"),)),
            good({"MEMORY.md": LINE + "- [D](sub/y/x.md)\n"}, strays=(Stray("sub", "symlinked-directory"),)),
            good({"MEMORY.md": LINE + "- [B](beta.md)\n"}, strays=(Stray("beta.md", "broken-link"),)),
            good({"MEMORY.md": LINE + "- [O](../beta.md)\n"}),
            good({"MEMORY.md": LINE + "- [S](sub/MEMORY.md)\n"}),
            good({"MEMORY.md": LINE + "- [I](MEMORY.md)\n"}),
            good({"MEMORY.md": LINE + "<!--\n- [B](beta.md) — put aside\n-->\n"}),
            good({"MEMORY.md": LINE + "See [the site](https://example.org/beta.md).\n"}),
        ],
    ),
    "entry-outside": (
        [good({"MEMORY.md": LINE + "- [O](../beta.md) — out\n"})],
        [good({"MEMORY.md": LINE + "- [O](sub/../alpha.md) — in\n"})],
    ),
    "entry-duplicate": (
        [good({"MEMORY.md": LINE + LINE})],
        [good({"MEMORY.md": LINE + "<!--\n" + LINE + "-->\n"})],
    ),
    "entry-case": (
        [good({"MEMORY.md": "- [A](Alpha.md) — first\n"}, folds_case=True)],
        [good(folds_case=True), good({"MEMORY.md": "- [A](Alpha.md) — first\n"})],
    ),
    "entry-inline": (
        [good({"MEMORY.md": LINE + "- a thing without a link\n"})],
        [good({"MEMORY.md": "# Heading\n\n" + LINE})],
    ),
    "entry-long": (
        [good({"MEMORY.md": "- [Alpha](alpha.md) — first " + "x" * 200 + "\n"})],
        [good({"MEMORY.md": "- [Alpha](alpha.md) — first " + "x" * 150 + "\n"})],
    ),
    "entry-drift": (
        [
            good({"MEMORY.md": "- [Alpha](alpha.md) — entirely other\n"}),
            good({"MEMORY.md": "- [甲](alpha.md) — 部署流程\n", "alpha.md": front("数据备份")}),
        ],
        [
            good({"MEMORY.md": "- [Alpha](alpha.md) — LETTER\n"}),
            good({"MEMORY.md": "- [Alpha](alpha.md)\n"}),
            good({"MEMORY.md": "- [甲](alpha.md) — 新的部署流程\n", "alpha.md": front("关于部署")}),
            good({"MEMORY.md": "- [Alpha](alpha.md) — entirely other\n", "alpha.md": "no front matter\n"}),
        ],
    ),
    "entry-hidden": (
        [
            good({"MEMORY.md": "<!--\n" + LINE + "-->\n"}),
            good({"MEMORY.md": LINE + "\n```\n" + LINE + "```\n"}),
        ],
        [good({"MEMORY.md": LINE + "<!-- a remark -->\n"})],
    ),
    "warning-on-disk": (
        [
            good(
                {
                    "MEMORY.md": LINE
                    + "\n> WARNING: MEMORY.md is 240 lines (limit: 200). Only part of it was loaded.\n"
                }
            )
        ],
        [good({"MEMORY.md": LINE + "\n> WARNING: the staging database is shared.\n"})],
    ),
    "fact-unindexed": (
        [
            good({"beta.md": front("two", "beta")}, says="add a line: - [title](beta.md)"),
            good({"MEMORY.md": ""}),
            good({"sub/beta.md": front("two", "beta")}),
            good({"alpha.md": front(body="See [[beta]].\n"), "beta.md": front("two", "beta")}),
            good({"MEMORY.md": "- [A](Alpha.md)\n"}, says="the entry in line 1 seems to mean it"),
            good({"a b(1).md": front("two", "beta")}, says="(a%20b%281%29.md)"),
            good(
                {
                    "alpha.md": front(body="[b](b.md)\n"),
                    "b.md": front("b", "b", body="[c](c.md)\n"),
                    "c.md": front("c", "c"),
                },
            ),
        ],
        [
            good(),
            good({".trash/beta.md": front("two", "beta")}),
            good(
                {
                    "alpha.md": front(body="See [the other](sub/beta.md).\n"),
                    "sub/beta.md": front("two", "beta"),
                }
            ),
            good(
                {
                    "MEMORY.md": "- [Hub](sub/hub.md)\n- [Alpha](alpha.md)\n",
                    "sub/hub.md": front("hub", "hub", body="- [b](beta.md)\n- [c](../c.md)\n"),
                    "sub/beta.md": front("two", "beta"),
                    "c.md": front("c", "c"),
                },
            ),
            good({"MEMORY.md": "- [A](ALPHA.md)\n"}, folds_case=True),
            good({"MEMORY.md": "<!--\n" + LINE + "-->\n"}),
            good({"MEMORY.md": UNREADABLE}),
            good({"MEMORY.md": ...}),
            good({"MEMORY.md": "---\n" + LINE + "---\n"}),
            good({"MEMORY.md": "x\n" * 300 + LINE}),
        ],
    ),
    "fact-unreadable": (
        [
            good({"alpha.md": UNREADABLE}),
            good({"alpha.md": b"---\nname: a\n---\n\x00\x00\x00"}),
            good(strays=(Stray("x.md", "special"),)),
            good(strays=(Stray("x.md", "broken-link"),), says="symlink to nothing"),
        ],
        [good(), good({"alpha.md": front("")})],
    ),
    "fact-encoding": (
        [good({"alpha.md": front("第一个字母的说明").encode("gbk")})],
        [good({"alpha.md": front("第一个字母的说明")})],
    ),
    "front-matter-missing": ([good({"alpha.md": "Text.\n"})], [good({"alpha.md": "\ufeff" + front()})]),
    "front-matter-unclosed": (
        [good({"alpha.md": "---\nname: a\n--- \nText.\n"})],
        [good({"alpha.md": "---\nname: a\ndescription: b\n---\n"})],
    ),
    "front-matter-invalid": (
        [good({"alpha.md": front('"quoted" and more')}), good({"alpha.md": front("a: b")})],
        [good({"alpha.md": front('"quoted and more"')}), good({"alpha.md": front("a:b")})],
    ),
    "front-matter-alias": (
        [good({"alpha.md": front("**bold**")})],
        [good({"alpha.md": front("not **bold**")})],
    ),
    "description-multiline": (
        [good({"alpha.md": front('"one\\ntwo"')}), good({"a\nb.md": front()})],
        [good({"alpha.md": front("one\n  two")})],
    ),
    "description-missing": ([good({"alpha.md": front("42")})], [good({"alpha.md": front("'42'")})]),
    "description-cut": (
        [good({"alpha.md": front("issue #4 first")})],
        [good({"alpha.md": front("issue#4")})],
    ),
    "type-missing": (
        [good({"alpha.md": "---\nname: a\ndescription: first\n---\n"})],
        [good({"alpha.md": "---\nname: a\ndescription: first\ntype: user\n---\n"})],
    ),
    "type-unknown": ([good({"alpha.md": front(kind="note")})], [good({"alpha.md": front(kind="user")})]),
    "type-flat": (
        [good({"alpha.md": "---\nname: a\ndescription: first\ntype: user\n---\n"})],
        [good()],
    ),
    "name-empty": (
        [good({"alpha.md": front(name='""')})],
        [good({"alpha.md": "---\ndescription: first\n---\n"})],
    ),
    "name-duplicate": (
        [good({"beta.md": front()}), good({"beta.md": front(), "gamma.md": front()})],
        [
            good({"beta.md": front(name="Alpha")}),
            good({"beta.md": front(name='""'), "c.md": front(name='""')}),
        ],
    ),
    "body-over-recall": (
        [good({"alpha.md": front(body="x\n" * 250)})],
        [good({"alpha.md": front(body="x\n" * 150)})],
    ),
    "fact-not-recalled": (
        [Case({f"f{number}.md": front(name=f"f{number}") for number in range(201)}, says="`f200.md`")],
        [
            Case({f"f{number}.md": front(name=f"f{number}") for number in range(200)}),
            Case({f"f{number}.md": front() if number else UNREADABLE for number in range(201)}),
        ],
    ),
    "symlink": (
        [good(symlinks=("alpha.md",)), good(strays=(Stray("sub", "symlinked-directory"),))],
        [good({"sub/x.md": front()})],
    ),
    "hidden-dir-recalled": (
        [
            good({".trash/a.md": front(), ".trash/b.md": front()}, says="the 2 facts in this"),
            good({"sub/.x/y/a.md": front()}),
        ],
        [
            good({".alpha.md": front()}),
            good(strays=(Stray(".trash/a.txt", "other-file"),)),
            good({"a.b/.md": front()}),
        ],
    ),
    "leftover-temp": (
        [good(strays=(temp(60_001),)), good(strays=(temp(10**9, "sub/MEMORY.md.tmp.1.abcdefabcdef"),))],
        [
            good(strays=(temp(60_000),)),
            good(strays=(temp(-5_000),)),
            good(strays=(temp(10**9, "notes.tmp.txt"),)),
            good(strays=(temp(10**9, "x.md.tmp.1.abcdef"),)),
        ],
    ),
    "conflict-copy": (
        [
            good({"alpha.sync-conflict-20260101-120000-ABCDEFG.md": front()}, says="copy of `alpha.md`"),
            good({"alpha (Ann's conflicted copy 2026-01-01).md": front()}, says="copy of `alpha.md`"),
            good({"alpha (1).md": front()}, says="copy of `alpha.md`"),
            good({"MEMORY (2).md": LINE}, says="copy of `MEMORY.md`"),
            good({"alpha.sync-conflict-x.md": front()}),
            good(
                strays=(Stray("a.sync-conflict-20260101-120000-ABCDEFG.txt", "other-file"),),
                says="copy of `a.txt`",
            ),
        ],
        [
            good({"beta (1).md": front()}),
            good({"how-to-settle-a-sync-conflict.md": front()}),
            good({"beta.sync-conflict-notes.md": front()}),
            good({"the conflicted copy of alpha.md": front()}),
            good({"alpha (old).md": front()}),
        ],
    ),
    "name-unsafe": (
        [
            good({"a:b.md": front()}, says="Windows allows no `:`"),
            good({"sub./x.md": front()}, says="drops a dot or blank"),
            good(strays=(Stray("notes ", "other-file"),)),
            good({"con.md": front()}, says="`con` is a device"),
            good({"sub/COM1.old.md": front()}),
            good({"Alpha.md": front()}, says="in case only"),
            good({"memory.md": front()}, says="`MEMORY.md` in case only"),
            good({"Sub/a.md": front(), "sub/b.md": front()}, says="differs from `Sub` in case only"),
            good({"ü.md": front(), "u\u0308.md": front()}, says="in Unicode form only"),
            good({"文" * 90 + ".md": front()}, says="more than 255 bytes"),
            good({"caf\udce9.md": front()}, says="not UTF-8"),
            good({"a\nb.md": front()}),
        ],
        [
            good({"console.md": front()}),
            good({"com10.md": front()}),
            good({"a.b .md": front()}),
            good({".hidden/x y (z).md": front()}),
            good({"sub/alpha.md": front(), "u\u0308.md": front(), "文档.md": front()}),
            good(strays=(Stray("aux.md.tmp.1.abcdefabcdef", "temp"), Stray("ALPHA.md.lock", "lock"))),
        ],
    ),
    "link-dangling": (
        [good({"alpha.md": front(body="See [[gamma]].\n")})],
        [
            good({"alpha.md": front(body="See [[be-ta]], [[be_ta]].\n"), "x.md": front("two", "be_ta")}),
            good(
                {"alpha.md": front(body="See [[be-ta]], [[sub/be_ta]].\n"), "sub/be_ta.md": front("two", "x")}
            ),
            good(
                {
                    "alpha.md": front(
                        body="See [[alpha#part]], [[alpha|the first]], [[alpha.md]], [[MEMORY]].\n"
                    )
                }
            ),
        ],
    ),
    "dir-unreadable": (
        [good(strays=(Stray("sub", "unreadable-directory"),))],
        [good(strays=(Stray("sub", "symlinked-directory"),))],
    ),
}


def test_the_table_is_whole():
    """Every rule has a directory that shows it and one that nearly does (history's: test_history_rules.py)."""
    assert TABLE.keys() | HISTORY == RULES.keys()
    assert not TABLE.keys() & HISTORY
    assert all(showing and silent for showing, silent in TABLE.values())


@pytest.mark.parametrize(
    ("code", "case"),
    [
        pytest.param(code, case, id=f"{code}-{n}")
        for code, (showing, _) in TABLE.items()
        for n, case in enumerate(showing)
    ],
)
def test_a_rule_speaks(code, case):
    """A directory that shows the defect gets the finding, with the rule's severity and something to do."""
    findings = told(case, code)
    assert findings
    for finding in findings:
        rule = RULES[code]
        assert finding.severity == rule.severity or code == "entry-hidden"
        assert finding.graced == rule.graced
        assert rule.fixable or not finding.fixable
        assert finding.message
        assert "\n" not in finding.message + (finding.hint or "")
    if case.says:
        assert any(case.says in f"{finding.message} ({finding.hint})" for finding in findings), findings


@pytest.mark.parametrize(
    ("code", "case"),
    [
        pytest.param(code, case, id=f"{code}-{n}")
        for code, (_, silent) in TABLE.items()
        for n, case in enumerate(silent)
    ],
)
def test_a_rule_is_silent(code, case):
    """A directory that nearly shows the defect does not get the finding."""
    assert told(case, code) == []


def test_a_directory_in_order_is_silent():
    """Nothing at all is said of a directory in order."""
    assert audit(snapshot(good()), CAPS, now_ms=NOW_MS) == ()
    assert audit(snapshot(Case({})), CAPS, now_ms=NOW_MS) == ()


@pytest.mark.parametrize(
    ("code", "case", "fixable"),
    [
        ("entry-dangling", good({"MEMORY.md": "- [A](Alpha.md)\n"}), True),
        ("entry-dangling", good({"MEMORY.md": LINE + "- [B](beta.md)\n"}), False),
        (
            "entry-dangling",
            good({"MEMORY.md": "- [A](a_b.md)\n", "a-b.md": front(), "x/a_b.md": front()}),
            False,
        ),
        ("entry-dangling", good({"MEMORY.md": "- [甲乙丙丁](Alpha.md) — 第一个字母\n".encode("gbk")}), False),
        ("index-missing", good({"MEMORY.md": ...}), True),
        ("index-missing", good({"MEMORY.md": ..., "alpha.md": "Text.\n"}), False),
        ("fact-unindexed", good({"MEMORY.md": ""}), True),
        ("fact-unindexed", good({"MEMORY.md": "", "alpha.md": "Text.\n"}), False),
        ("fact-unindexed", good({"alpha (1).md": front()}), False),
        ("fact-unindexed", good({"MEMORY.md": LINE + "x\n" * 199, "beta.md": front()}), False),
        ("description-cut", good({"alpha.md": front("issue #4")}), True),
        ("description-cut", good({"alpha.md": front("issue #4")}, symlinks=("alpha.md",)), False),
        ("description-cut", good({"alpha.md": front("第一个字母的说明 #4").encode("gbk")}), False),
    ],
)
def test_fixable_is_said_of_the_case(code, case, fixable):
    """A finding is fixable only if a repair could mend this very one without guessing."""
    assert {finding.fixable for finding in told(case, code)} == {fixable}


def test_an_entry_hidden_from_the_model_is_a_warning_where_nothing_else_reaches_the_fact():
    """The one rule with two severities: the fact's only entry stands in a comment."""
    hidden = "<!--\n" + LINE + "-->\n"
    assert [finding.severity for finding in told(good({"MEMORY.md": hidden}), "entry-hidden")] == ["warning"]
    assert [finding.severity for finding in told(good({"MEMORY.md": LINE + hidden}), "entry-hidden")] == [
        "info"
    ]
    gone = good({"MEMORY.md": LINE + "<!--\n- [B](beta.md)\n-->\n"})
    assert [finding.severity for finding in told(gone, "entry-hidden")] == ["info"]
    through_hub = good(
        {
            "MEMORY.md": "- [Hub](hub.md)\n" + hidden,
            "hub.md": front("hub", "hub", body="[a](alpha.md)\n"),
        },
    )
    assert [finding.severity for finding in told(through_hub, "entry-hidden")] == ["info"]


def test_muted_codes_are_not_told():
    """A muted code is left out, others stay."""
    case = snapshot(good({"MEMORY.md": LINE + "- [B](beta.md)\n", "c.md": "Text.\n"}))
    codes = {
        finding.code for finding in audit(case, CAPS, now_ms=NOW_MS, muted=frozenset({"fact-unindexed"}))
    }
    assert codes == {"entry-dangling", "front-matter-missing"}


def test_the_order_is_by_gravity_then_file_then_line():
    """Errors come first, then warnings, then the rest, each by file, line and code."""
    case = good(
        {
            "MEMORY.md": LINE + "loose\n\n- [Z](z.md)\n- [B](b.md)\n" + LINE,
            "c.md": "Text.\n",
            "b2.md": front("**x**", "b2"),
        },
    )
    findings = audit(snapshot(case), CAPS, now_ms=NOW_MS)
    assert [
        (finding.severity, finding.file, finding.line) for finding in findings if finding.severity != "info"
    ] == [
        ("error", "MEMORY.md", 4),
        ("error", "MEMORY.md", 5),
        ("error", "b2.md", 3),
        ("warning", "MEMORY.md", 6),
        ("warning", "b2.md", None),
        ("warning", "c.md", None),
        ("warning", "c.md", 1),
    ]


def test_a_key_outlives_moves_of_lines():
    """A finding that moves to another line, or whose wording changes, keeps its key."""
    one = good({"MEMORY.md": LINE + "- [B](beta.md) — gone\n\nloose words\n\n" + LINE})
    other = good(
        {
            "MEMORY.md": "# Head\n\n" + LINE + "\n- [New title](beta.md)\n\nloose words\n\n" + LINE,
            "x/beta.md": front("b", "b"),
        }
    )
    for code in ("entry-dangling", "entry-inline", "entry-duplicate"):
        first, second = told(one, code), told(other, code)
        assert [finding.key for finding in first] == [finding.key for finding in second], code
        assert [finding.line for finding in first] != [finding.line for finding in second], code


def test_repetitions_have_keys_of_their_own():
    """A third entry with one target is a finding beside the second, and both name the plain target."""
    findings = told(good({"MEMORY.md": LINE * 3}), "entry-duplicate")
    assert [finding.target for finding in findings] == ["alpha.md", "alpha.md"]
    assert len({finding.key for finding in findings}) == 2
    assert findings[0].key == told(good({"MEMORY.md": LINE * 2}), "entry-duplicate")[0].key


def test_keys_differ_between_directories():
    """The same defect in another directory has another key."""
    case = snapshot(good({"MEMORY.md": ...}))
    elsewhere = replace(case, directory="/n")
    assert audit(case, CAPS, now_ms=NOW_MS)[0].key != audit(elsewhere, CAPS, now_ms=NOW_MS)[0].key


def test_a_new_twin_leaves_the_keys_of_the_others():
    """A third fact of one name adds a finding; those that were told stay the same."""
    two = good({"beta.md": front()})
    three = good({"beta.md": front(), "gamma.md": front()})
    first = {finding.key for finding in told(two, "name-duplicate")}
    assert first < {finding.key for finding in told(three, "name-duplicate")}


def test_a_copy_that_was_put_away_is_told_and_not_the_fact():
    """Of two facts with one name the one under a dot-directory is told."""
    findings = told(good({".trash/alpha.md": front()}), "name-duplicate")
    assert [finding.file for finding in findings] == [".trash/alpha.md"]


def test_an_unreadable_memory_directory_is_not_an_empty_one():
    """Where the directory itself cannot be read, nothing is called missing."""
    case = good({"MEMORY.md": ...}, strays=(Stray("", "unreadable-directory"),))
    assert [finding.code for finding in audit(snapshot(case), CAPS, now_ms=NOW_MS)] == ["dir-unreadable"]


def test_a_finding_is_bounded():
    """A name of many thousand letters is cut in the finding, and yet told apart from one with the same beginning."""
    long, other = "x" * 60_000, "x" * 60_000 + "y"
    case = good({f"{n}.md": front(name=name) for n, name in enumerate((long, long, other, other))})
    findings = told(case, "name-duplicate")
    assert [finding.file for finding in findings] == ["1.md", "3.md"]
    assert len({finding.key for finding in findings}) == 2
    assert all(len(f"{finding.message}{finding.target}{finding.hint}") < 1000 for finding in findings)


def test_a_body_is_never_quoted():
    """No finding holds a line of a fact's body."""
    body = "the secret sentence of this body\n" * 250
    case = good({"alpha.md": front(body=body), "b.md": body, "c.md": "---\nname: [\n---\n" + body})
    for finding in audit(snapshot(case), CAPS, now_ms=NOW_MS):
        assert "secret sentence" not in f"{finding.message} {finding.hint} {finding.target}"


ROW = re.compile(
    r"^\| `([a-z-]+)` \| (error|warning|info)(, or warning)? \|(?:.*\|) ([^|]+) \| (yes|no) \|$", re.MULTILINE
)


def test_the_page_says_what_the_table_says():
    """docs/audit.md has every code with the severity, repair and grace of the table, and no other code."""
    rows = {row[1]: row for row in ROW.finditer(DOCS.read_text(encoding="utf-8"))}
    assert rows.keys() == RULES.keys()
    for code, rule in RULES.items():
        _, _, severity, or_warning, fixable, waits = (rows[code][0], *rows[code].groups())
        assert severity == rule.severity
        assert bool(or_warning) == (code == "entry-hidden")
        assert (fixable.strip() == "no") == (not rule.fixable)
        assert (waits == "yes") == rule.graced


def test_a_parser_never_makes_a_code_without_a_rule():
    """Every code that the parsers write has a row in the table."""
    memory = Path(__file__).parents[3] / "zcsyncd" / "memory"
    written = set()
    for module in ("fact.py", "index.py"):
        text = (memory / module).read_text(encoding="utf-8")
        written |= set(
            re.findall(r'"((?:index|entry|fact|front|description|type|name|body|warning)-[a-z-]+)"', text)
        )
    assert written <= RULES.keys()
    assert len(written) > 20
