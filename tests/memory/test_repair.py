"""A repair mends what it says, by the smallest change, and makes nothing worse."""

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.layouts.layout import Caps
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.audit import RULES, audit
from zcsyncd.memory.audit.history_rules import history_findings
from zcsyncd.memory.audit.scene import set_scene
from zcsyncd.memory.disk import read_snapshot
from zcsyncd.memory.entry_lines import remove
from zcsyncd.memory.fact import FileStat, parse_fact
from zcsyncd.memory.index import inject, parse_index
from zcsyncd.memory.past import Loss, Past
from zcsyncd.memory.repair import FIXABLE_CODES, PLAIN_CODES, Repair, diff, plan
from zcsyncd.memory.snapshot import Snapshot

SAMPLES = Path(__file__).parent.parent / "samples"
CAPS = Caps(200, 25_000)
NOW_MS = 1_800_000_000_000
INDEX = "MEMORY.md"


def fact(description="about it", name="", kind="user", body="Text.\n"):
    """Give a fact's bytes in the form that ZCode writes."""
    named = f"name: {name}\n" if name else ""
    return f"---\n{named}description: {description}\nmetadata:\n  node_type: memory\n  type: {kind}\n---\n\n{body}".encode()


@dataclass
class Directory:
    """A memory directory in bytes, and what is remembered of it."""

    files: dict
    folds_case: bool = False
    strays: tuple = ()
    losses: tuple = ()
    kept: dict = field(default_factory=dict)
    caps: Caps = CAPS

    def __post_init__(self):
        self.files = {
            file: text.encode() if isinstance(text, str) else text for file, text in self.files.items()
        }

    def snapshot(self):
        """Read it as the disk's door does."""
        index, facts = None, {}
        for number, (file, raw) in enumerate(self.files.items()):
            stat = FileStat((NOW_MS - number * 1000) * 10**6, 0, len(raw), number + 1)
            if file == INDEX:
                index = parse_index(file, raw, stat, read_at_ns=0, caps=self.caps)
            else:
                facts[file] = parse_fact(file, raw, stat, read_at_ns=0)
        return Snapshot("/m", "zcode", index, facts, {s.file: s for s in self.strays}, self.folds_case)

    def findings(self):
        """Audit it, its past included."""
        snapshot = self.snapshot()
        scene = set_scene(snapshot, self.caps, NOW_MS)
        return (
            *audit(snapshot, self.caps, now_ms=NOW_MS),
            *history_findings(Past(losses=self.losses), scene),
        )

    def plan(self, codes=None, keys=None):
        return plan(
            self.snapshot(),
            self.findings(),
            self.losses,
            self.files,
            caps=self.caps,
            codes=None if codes is None else frozenset(codes),
            keys=None if keys is None else frozenset(keys),
            bytes_of=self.kept.get,
        )

    def after(self, repair):
        """Give the directory with a repair applied."""
        return Directory(
            {**self.files, **repair.contents}, self.folds_case, self.strays, self.losses, self.kept, self.caps
        )

    def codes(self):
        return sorted(finding.code for finding in self.findings() if finding.severity != "info")


def lost(target, line=None, title="T", hook="h", held_in=None):
    return Loss("entry-lost", NOW_MS - 5000, INDEX, target, title, hook, line, held_in=held_in)


A, B = fact("the a", "Aye"), fact("the b")
TWO = "- [A](a.md) — the a\n- [B](b.md) — the b\n"


# -- each code -----------------------------------------------------------------------------------------------

CASES = {
    "entry-dangling": [
        (
            {INDEX: "- [A](a-x.md) — the a\n- [B](b.md) — the b\n", "a_x.md": A, "b.md": B},
            "- [A](a_x.md) — the a\n- [B](b.md) — the b\n",
            "points the entry in line 1 to `a_x.md`, not `a-x.md`",
        ),
        (
            {INDEX: "* [A](sub/a.md#top): the a\r\nAlso [a](sub/a.md).", "moved/a.md": A},
            "* [A](moved/a.md#top): the a\r\nAlso [a](moved/a.md).",
            "points the entries in lines 1 and 2 to `moved/a.md`, not `sub/a.md`",
        ),
        (  # the file has an entry already: the one that is in order stays
            {INDEX: "- [A](A.md) — the a\n- [A](a.md) — the a, again\n", "a.md": A},
            "- [A](a.md) — the a, again\n",
            "takes `A.md` for `a.md`, keeps one entry for `a.md`, the first, in line 2, and takes out the entry in line 1",
        ),
        (  # ... unless it says nothing
            {INDEX: "- [A](a.md)\n- [A](A.md) — the a\n", "a.md": A},
            "- [A](a.md) — the a\n",
            "takes `A.md` for `a.md`, keeps one entry for `a.md`, the first that says something, in line 2, "
            "and takes out the entry in line 1",
        ),
    ],
    "entry-case": [
        (
            {INDEX: "- [A](A.md) — the a\n", "a.md": A},
            "- [A](a.md) — the a\n",
            "points the entry in line 1 to `a.md`, not `A.md`",
        ),
    ],
    "entry-duplicate": [
        (
            {INDEX: TWO + "- [A](a.md) — twice\n  more\n\n- [A](a.md) — thrice\n", "a.md": A, "b.md": B},
            TWO + "\n",
            "keeps one entry for `a.md`, the first, in line 1, and takes out the entries in lines 3 and 6 "
            "with what is indented below",
        ),
        (
            {INDEX: "- [A](a.md)\n- [B](b.md) — the b\n- [A](a.md) — the a\n", "a.md": A, "b.md": B},
            "- [B](b.md) — the b\n- [A](a.md) — the a\n",
            "keeps one entry for `a.md`, the first that says something, in line 3, and takes out the entry in line 1",
        ),
        (  # the line that names something else stays
            {INDEX: "- [A](a.md) — the a\n- [A](a.md) — the a, see [B](b.md)\n", "a.md": A, "b.md": B},
            "- [A](a.md) — the a, see [B](b.md)\n",
            "keeps one entry for `a.md`, the first that says something, in line 2, and takes out the entry in line 1",
        ),
    ],
    "warning-on-disk": [
        (
            {INDEX: "# M\n> WARNING: MEMORY.md is 300 lines (limit: 200).\n" + TWO, "a.md": A, "b.md": B},
            "# M\n" + TWO,
            "takes out the line that ZCode puts into the prompt only",
        ),
        (
            {INDEX: "> WARNING: MEMORY.md is x\r\n" + TWO + "\n> WARNING: MEMORY.md is y", "a.md": A, "b.md": B},
            TWO.rstrip("\n") + "\n",
            "takes out the 2 lines that ZCode puts into the prompt only",
        ),
    ],
    "fact-unindexed": [
        (
            {INDEX: "# M\r\n\r\n- [B](b.md) — the b\r\n\r\nprose", "a.md": A, "b.md": B},
            "# M\r\n\r\n- [B](b.md) — the b\r\n- [Aye](a.md) — the a\r\n\r\nprose",
            "adds an entry for `a.md` at the end of the list",
        ),
    ],
    "index-missing": [
        (
            {"b.md": B, "sub/c d.md": fact(""), ".trash/t.md": A, "bad.md": b"no front matter\n", "a.md": A},
            "- [Aye](a.md) — the a\n- [b](b.md) — the b\n- [c d](sub/c%20d.md)\n",
            "writes MEMORY.md with entries for 3 facts, in the order of their files",
        ),
    ],
    "entry-drift": [
        (
            {INDEX: "- [A](a.md) — completely different  \n", "a.md": A},
            "- [A](a.md) — the a  \n",
            "writes the fact's description into the entry for `a.md`",
        ),
    ],
    "index-swallowed": [
        (
            {INDEX: "---\r\n- [A](a.md) — the a\r\n---\r\n- [B](b.md) — the b\r\n", "a.md": A, "b.md": B},
            "\r\n---\r\n- [A](a.md) — the a\r\n---\r\n- [B](b.md) — the b\r\n",
            "puts a blank line before the `---` in line 1, so that nothing is dropped",
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("code", "case"), [(code, case) for code, cases in CASES.items() for case in cases])
def test_mends_of_the_index(code, case):
    """Each code has its smallest mend, told in a sentence; then the directory is as it should be."""
    files, index, does = case
    before = Directory(files, folds_case=code == "entry-case")
    assert code in {finding.code for finding in before.findings()}
    repair = before.plan(codes=[code])
    assert list(repair.contents) == [INDEX]
    assert repair.contents[INDEX].decode() == index
    assert {(fix.code, fix.file, fix.does) for fix in repair.fixes} == {(code, INDEX, does)}
    assert repair.skipped == ()
    after = before.after(repair)
    assert code not in {finding.code for finding in after.findings()}
    assert after.plan(codes=[code]) == Repair({}, (), ())
    if code in PLAIN_CODES:
        assert before.plan().contents == repair.contents
    else:
        assert before.plan().contents == {}


def front(lines):
    return f"---\n{lines}---\n\nText with trailing blanks  \r\n".encode()


@pytest.mark.parametrize(
    ("code", "before", "holds"),
    [
        ("front-matter-alias", "description: **the a**\nmetadata:\n  type: user\n", "**the a**"),
        ("description-multiline", 'description: "the a\\nb"\nmetadata:\n  type: user\n', "the a"),
        ("description-cut", "description: the a #1\nmetadata:\n  type: user\n", "the a #1"),
        ("type-flat", "description: the a\ntype: user\n", "metadata:"),
        ("name-empty", 'name: ""\ndescription: the a\nmetadata:\n  type: user\n', "name: a\n"),
    ],
)
def test_mends_of_facts(code, before, holds):
    """A fact is mended only when its code or key is named, and its body stays as it is."""
    case = Directory({INDEX: "- [A](a.md) — the a\n", "a.md": front(before)})
    (finding,) = [finding for finding in case.findings() if finding.code == code]
    assert case.plan() == Repair({}, (), ())
    for repair in (case.plan(codes=[code]), case.plan(keys=[finding.key])):
        assert list(repair.contents) == ["a.md"]
        assert holds in repair.contents["a.md"].decode()
        assert repair.contents["a.md"].endswith(b"---\n\nText with trailing blanks  \r\n")
        ((fix,), ()) = (repair.fixes, repair.skipped)
        assert (fix.key, fix.code, fix.file, fix.line) == (finding.key, code, "a.md", finding.line)
        assert fix.does
        assert code not in {finding.code for finding in case.after(repair).findings()}


def test_several_defects_of_a_fact():
    """Mends of one fact come one upon the other, and what it says by then goes into the index."""
    raw = front('name: ""\ndescription: **the a**\ntype: user\n')
    case = Directory({INDEX: "# M\n", "a.md": raw})
    repair = case.plan(codes=FIXABLE_CODES)
    after = case.after(repair)
    again = after.plan(codes=FIXABLE_CODES)
    after = after.after(again)
    assert not {f.code for f in after.findings()} & FIXABLE_CODES
    assert "**the a**" in repair.contents[INDEX].decode()


def test_entry_lost():
    """Lost entries come back where they were when the former index is kept, else at the list's end."""
    former = "# M\n\n- [A](a.md) — the a\n* [C](c.md): the c\n- [B](b.md) — the b\n".encode()
    files = {INDEX: "# M\n\n- [B](b.md) — the b\n", "a.md": A, "b.md": B, "c.md": fact("the c")}
    losses = (lost("c.md", 4, "C", "the c", "x"), lost("a.md", 3, "A", "the a", "x"))
    case = Directory(files, losses=losses, kept={"x": former})
    assert case.codes() == ["entry-lost"] * 2 + ["fact-unindexed"] * 2
    repair = case.plan()
    assert repair.contents == {INDEX: former}
    assert [fix.does for fix in repair.fixes if fix.code == "entry-lost"] == [
        "puts the entry for `a.md` back where it was",
        "puts the entry for `c.md` back where it was",
    ]
    assert {fix.does for fix in repair.fixes if fix.code == "fact-unindexed"} == {
        "is settled with another: the index reaches it again"
    }
    assert case.after(repair).codes() == []
    case = Directory(files, losses=losses)
    repair = case.plan(codes=["entry-lost"])
    assert repair.contents[INDEX].decode() == files[INDEX] + "- [A](a.md) — the a\n- [C](c.md) — the c\n"
    assert {fix.does.partition(" at ")[2] for fix in repair.fixes} == {
        "the end of the list, from what is remembered of it"
    }
    one = case.plan(keys=[repair.fixes[0].key])
    assert one.contents[INDEX].decode() == files[INDEX] + "- [A](a.md) — the a\n"


def test_a_lost_line_that_names_what_is_gone():
    """A lost line does not bring back a link to a file that is gone."""
    former = "- [A](a.md) — the a, see [gone](gone.md)\n".encode()
    case = Directory(
        {INDEX: "", "a.md": A},
        losses=(lost("a.md", 1, "A", "the a, see [gone](gone.md)", "x"),),
        kept={"x": former},
    )
    after = case.after(case.plan())
    assert after.codes() == []
    assert after.files[INDEX].decode() == "- [A](a.md) — the a, see [gone\\](gone.md)\n"


def test_what_is_chosen():
    """Codes and keys choose findings, both those that fit both; another code is told why it is left."""
    case = Directory({INDEX: "- [A](a.md) — the a\n- [A](a.md) — the a\n- [X](x.md)\n", "a.md": A, "b.md": B})
    key = next(finding.key for finding in case.findings() if finding.code == "fact-unindexed")
    assert {fix.code for fix in case.plan().fixes} == {"entry-duplicate", "fact-unindexed"}
    assert {fix.code for fix in case.plan(codes=["fact-unindexed"]).fixes} == {"fact-unindexed"}
    assert [fix.key for fix in case.plan(keys=[key]).fixes] == [key]
    assert case.plan(codes=["entry-duplicate"], keys=[key]) == Repair({}, (), ())
    long = Directory({INDEX: "- [A](a.md) — " + "the a " * 50 + "\n", "a.md": A})
    key = next(finding.key for finding in long.findings() if finding.code == "entry-long")
    ((skipped,), contents) = (long.plan(keys=[key]).skipped, long.plan(keys=[key]).contents)
    assert (skipped.key, skipped.code, contents) == (key, "entry-long", {})
    assert "person" in skipped.reason


@pytest.mark.parametrize(
    ("files", "code", "reason"),
    [
        ({INDEX: "- [A](x.md)\n"}, "entry-dangling", "no file comes near"),
        ({INDEX: "- [A](a.md)\n- [B](b/a.md)\n- [C](c/a.md)", "b/a.md": A, "c/a.md": A}, "entry-dangling", "2 files"),
        ({INDEX: "---\n- [A](x/a%2D--b.md)\n- [A](a.md)\n", "a.md": A, "y/a---b.md": A}, "entry-dangling", "read otherwise"),
        ({INDEX: "# M\n", "a.md": b"no front matter\n"}, "fact-unindexed", "front matter"),
        ({INDEX: "- [B](b.md)\n", "b.md": B, "b (1).md": B}, "fact-unindexed", "conflict copy"),
        ({INDEX: "# M\n", "a\\b.md": A}, "fact-unindexed", "can name"),
        ({"memory.md": A}, "index-missing", "rename"),
        ({"a.md": b"no front matter\n"}, "index-missing", "no fact has"),
        ({INDEX: "- [记忆](a.md)\n- [记](a.md)\n".encode("gbk"), "a.md": A}, "entry-duplicate", "not UTF-8"),
        (
            {INDEX: "- [A](a.md) — see [B](b.md)\n- [A](a.md) — see [C](c.md)\n", "a.md": A, "b.md": B, "c.md": B},
            "entry-duplicate",
            "also names",
        ),
        ({INDEX: "".join(f"- [F](f{n}.md)\n" for n in range(200)), "a.md": A}, "fact-unindexed", "201 lines"),
        ({INDEX: "- [F](a.md) — " + "x" * 24_980 + "\n", "a.md": A, "b.md": B}, "fact-unindexed", "UTF-16 units"),
    ],
)  # fmt: skip
def test_what_is_left(files, code, reason):
    """What cannot be mended safely, or would not fit, stays as it is, and it is said why."""
    repair = Directory(files).plan(codes=[code])
    assert repair.contents == {}
    assert repair.fixes == ()
    assert {skipped.code for skipped in repair.skipped} == {code}
    assert all(reason in skipped.reason for skipped in repair.skipped)


def test_a_removal_makes_room():
    """What takes lines out comes first: what it frees is used."""
    lines = [f"- [F{n}](f{n}.md) — the f{n}" for n in range(199)]
    files = {INDEX: "\n".join([*lines, lines[0]]) + "\n", "new.md": fact("the new")}
    files |= {f"f{n}.md": fact(f"the f{n}") for n in range(199)}
    after = Directory(files).after(Directory(files).plan())
    assert after.files[INDEX].decode().splitlines()[-1] == "- [new](new.md) — the new"
    assert inject(after.files[INDEX], CAPS).lines == 200


def test_an_index_of_more_facts_than_fit():
    """A built index stops at the cap, and it is said how many facts are not in it."""
    case = Directory({f"f{n:03}.md": fact(f"the f{n}") for n in range(207)})
    repair = case.plan()
    assert inject(repair.contents[INDEX], CAPS).lines == 200
    ((fix,), (skipped,)) = (repair.fixes, repair.skipped)
    assert "200 facts" in fix.does
    assert skipped.reason.startswith("7 facts do not fit")


def test_stale_findings():
    """Findings that are over by now are told as such, and nothing is written."""
    old = Directory(
        {
            INDEX: "- [A](A.md)\n- [B](b.md)\n- [B](b.md)\n> WARNING: MEMORY.md is x\n",
            "a.md": A,
            "b.md": B,
            "c.md": A,
        }
    )
    new = Directory(
        {INDEX: "- [A](a.md) — the a\n- [B](b.md) — the b\n- [C](c.md)\n", "a.md": A, "b.md": B, "c.md": A}
    )
    for contents in (new.files, {}):
        repair = plan(new.snapshot(), old.findings(), (lost("c.md"),), contents, caps=CAPS)
        if contents:
            assert repair.contents == {}
        assert repair.fixes == ()
        assert len(repair.skipped) == len([f for f in old.findings() if f.code in PLAIN_CODES])


def test_every_fixable_code_has_a_mend():
    """The codes that the rules call fixable are just those that a repair knows."""
    assert {code for code, rule in RULES.items() if rule.fixable} == FIXABLE_CODES
    assert PLAIN_CODES < FIXABLE_CODES


# -- samples and random directories --------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [None, FIXABLE_CODES])
@pytest.mark.parametrize(
    "name",
    [
        "blockquote-preamble",
        "en-one-unindexed",
        "es-no-front-matter",
        "flat-types",
        "index-one-level-up",
        "ko-clean",
    ],
)
def test_samples(name, codes, tmp_path):
    """On real directories a repair leaves what is in order alone, and undoes a clobber of their index."""
    shutil.copytree(SAMPLES / name, tmp_path, dirs_exist_ok=True)
    files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.md")}
    snapshot = read_snapshot(str(tmp_path), ZCODE)
    findings = audit(snapshot, CAPS, now_ms=NOW_MS)
    repair = plan(snapshot, findings, (), files, caps=CAPS, codes=codes)
    for file, content in repair.contents.items():
        (tmp_path / file).write_bytes(content)
    again = read_snapshot(str(tmp_path), ZCODE)
    left = audit(again, CAPS, now_ms=NOW_MS)
    chosen = PLAIN_CODES if codes is None else codes
    assert not [f for f in left if f.code in chosen and f.fixable]
    assert {f.key for f in left if f.severity != "info"} <= {f.key for f in findings}
    assert plan(again, left, (), {**files, **repair.contents}, caps=CAPS, codes=codes).contents == {}

    whole = (tmp_path / INDEX).read_bytes()
    entries = [e for e in again.index.entries if remove(whole, e.target) is not None][:4]
    clobbered = whole
    for entry in entries:
        clobbered = remove(clobbered, entry.target) or clobbered
    case = Directory(
        {**files, **repair.contents, INDEX: clobbered},
        losses=tuple(lost(e.target, e.line, e.title, e.hook, "x") for e in entries),
        kept={"x": whole},
    )
    assert case.plan(codes=["entry-lost"]).contents == {INDEX: whole}


STEMS = ("a", "b-c", "b_c", "B-C", "sub/a", "sub/d", "e", "E", "f g", ".trash/h", "i (1)", "i")
HOOKS = ("", " — words of it", " — other", ": colon", " — see [e](e.md)", " — [x](gone.md)")
PIECES = ("# Heading", "prose with [a](a.md) in it", "", "", "- plain", "> WARNING: MEMORY.md is 300 lines", "<!-- note -->",
          "  indented", "```", "---", "<!--", "-->", "| x | y |")  # fmt: skip
FRONTS = (
    "description: words of it\nmetadata:\n  type: user\n",
    "name: Named\ndescription: words of it\ntype: user\n",
    "name: ''\ndescription: other #words\nmetadata:\n  type: user\n",
    "description: **bold** words\nmetadata:\n  type: user\n",
    'description: "two\\nlines"\n',
    "a: b: c\n",
    "{}\n",
)


ENTRIES = [
    f"{sign} [T]({stem.replace(' ', '%20')}.md){hook}"
    for sign in ("-", "*", "  -", "1.")
    for stem in STEMS
    for hook in HOOKS
]
LINES = st.one_of(st.sampled_from(ENTRIES), st.sampled_from(ENTRIES), st.sampled_from(PIECES))


@st.composite
def directories(draw):
    """Draw a directory with all sorts of defects."""
    files = {}
    stems = draw(st.lists(st.sampled_from(STEMS), max_size=6, unique=True))
    for stem in stems:
        files[f"{stem}.md"] = (
            front(draw(st.sampled_from(FRONTS))) if draw(st.integers(0, 5)) else b"no front matter\n"
        )
    lines = draw(st.lists(LINES, max_size=10))
    if draw(st.integers(0, 7)) == 0:
        lines = ["---", *lines]
    end = draw(st.sampled_from(("\n", "\r\n")))
    index = end.join(lines) + draw(st.sampled_from(("", end)))
    if draw(st.integers(0, 7)):
        files[INDEX] = index.encode()
    former = (
        index + end + end.join(f"- [{stem}]({stem}.md) — it was" for stem in ("a", "e", "i") if stem in stems)
    ).encode()
    losses = tuple(
        lost(
            f"{stem}.md", index.count("\n") + 2 + at, stem, "it was", draw(st.sampled_from(("x", "y", None)))
        )
        for at, stem in enumerate(stem for stem in ("a", "e", "i") if stem in stems)
        if draw(st.booleans())
    )
    caps = draw(st.sampled_from((CAPS, CAPS, Caps(8, 25_000), Caps(200, 120))))
    return Directory(files, draw(st.booleans()), (), losses, {"x": former}, caps)


@settings(max_examples=120, deadline=None)
@given(directories(), st.sampled_from((None, None, FIXABLE_CODES)))
def test_random_directories(case, codes):
    """What a repair calls fixed is gone, nothing new is wrong, no cap is passed, and once is enough."""
    findings = {finding.key: finding for finding in case.findings()}
    repair = case.plan(codes)
    chosen = PLAIN_CODES if codes is None else codes
    assert {fix.key for fix in repair.fixes} | {s.key for s in repair.skipped} == {
        key for key, finding in findings.items() if finding.code in chosen
    }
    assert all(fix.does and fix.file in {INDEX, *case.files} for fix in repair.fixes)
    assert codes is not None or set(repair.contents) <= {INDEX}
    after = case.after(repair)
    now = {finding.key: finding for finding in after.findings()}
    told = [fix for fix in repair.fixes if fix.key in now]
    assert told == []
    new = [finding for key, finding in now.items() if key not in findings and finding.severity != "info"]
    built = any(fix.code == "index-missing" for fix in repair.fixes)
    opened = any(fix.code == "index-swallowed" for fix in repair.fixes)
    for finding in new:
        # Facts that no entry may be written for are spoken of once there is an index; a mended fact has a name, which
        # another may have; what was swallowed may be there twice; and what was added may bring the index near its cap.
        assert (
            (built and finding.code in {"fact-unindexed", "entry-lost"})
            or finding.code == "index-near-cap"
            or (opened and finding.code == "entry-duplicate")
            or (
                codes is not None and finding.code in {"name-duplicate", "description-missing", "entry-drift"}
            )
        ), finding
    if INDEX in repair.contents:
        was, made = inject(case.files.get(INDEX, b""), case.caps), inject(repair.contents[INDEX], case.caps)
        assert made.lines <= max(was.lines, case.caps.lines)
        assert made.units <= max(was.units, case.caps.units)
    # What comes to light by a repair is the next one's: what an entry that came back says may have moved on, what was
    # swallowed may be there twice, what was lost is told again once there is an index, and a shorter hook makes room.
    lit = {"entry-drift"} if case.caps == CAPS or codes is None else set(FIXABLE_CODES)
    lit |= {"entry-lost", "fact-unindexed"} if built else set()
    lit |= {"entry-duplicate", "fact-unindexed"} if opened else set()
    for _ in range(6):
        again = after.plan(codes)
        assert {fix.code for fix in again.fixes} <= lit
        after = after.after(again)
    assert (again.contents, again.fixes) == ({}, ())


# -- the diff ------------------------------------------------------------------------------------------------

BYTES = st.lists(
    st.sampled_from(["a", "b", "c", "é", "\r", "", "\u2028x", "\ufeff", "\x0c", "-- x", "@@"]), max_size=12
)


def patched(tmp_path, before, after, tool):
    """Apply a diff with the real tool and give the files."""
    shutil.rmtree(tmp_path, ignore_errors=True)
    for file, content in before.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)
    (tmp_path / "d.diff").write_text(diff(before, after), newline="")
    done = subprocess.run(
        [*tool, "d.diff"], cwd=tmp_path, capture_output=True, timeout=30, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr + diff(before, after)
    return {file: (tmp_path / file).read_bytes() for file in after}


TOOLS = [
    pytest.param(tool, marks=pytest.mark.skipif(shutil.which(tool[0]) is None, reason="not here"), id=tool[0])
    for tool in (["patch", "-p1", "-s", "--binary", "-i"], ["git", "apply", "--whitespace=nowarn"])
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({INDEX: b"a\nb\nc\n"}, {INDEX: b"a\nB\nc\n"}),
        ({INDEX: b"a\nb"}, {INDEX: b"a\nb\nc"}),
        ({INDEX: b"a\r\nb\r\n"}, {INDEX: b"a\r\nb\r\nc\r\n"}),
        ({INDEX: b"\xef\xbb\xbfa\n"}, {INDEX: b"\xef\xbb\xbfa\nb\n"}),
        ({INDEX: None}, {INDEX: b"a\nb\n"}),
        ({INDEX: None}, {INDEX: b"no end"}),
        ({INDEX: b"a\n" * 50 + b"x\n" + b"a\n" * 50}, {INDEX: b"a\n" * 50 + b"y\n" + b"a\n" * 50}),
        ({INDEX: b"a\n", "sub/b.md": b"1\n", "c.md": b"same"}, {INDEX: b"b\n", "sub/b.md": b"2\n", "c.md": b"same"}),
        ({"with blank.md": b"a\n"}, {"with blank.md": b"b\n"}),
        ({"记忆.md": b"a\n"}, {"记忆.md": b"b\n"}),
        ({'quo"te.md': b"a\n"}, {'quo"te.md': b"b\n"}),
        ({INDEX: b"l\n" * 9 + b"bytes \xff\n" + b"l\n" * 9}, {INDEX: b"new\n" + b"l\n" * 9 + b"bytes \xff\n" + b"l\n" * 9}),
    ],
)  # fmt: skip
def test_a_diff_applies(before, after, tool, tmp_path):
    """The real tools make of the old files just the new ones."""
    assert patched(tmp_path / "d", before, after, tool) == after


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch")
@settings(max_examples=60, deadline=None)
@given(BYTES, BYTES, st.booleans(), st.booleans())
def test_any_diff_applies(tmp_path_factory, one, two, one_ends, two_ends):
    """Whatever the lines are, `patch` makes the new bytes of the old ones."""
    before = ("\n".join(one) + "\n" * one_ends).encode()
    after = ("\n".join(two) + "\n" * two_ends).encode()
    path = tmp_path_factory.mktemp("d")
    if before and after and before != after:
        tool = ["patch", "-p1", "-s", "--binary", "-i"]
        assert patched(path / "d", {INDEX: before}, {INDEX: after}, tool) == {INDEX: after}


def test_a_diff_as_it_looks():
    """A diff is the usual one, with three lines around."""
    before = {INDEX: b"1\n2\n3\n4\n5\n6\n7\n8", "new.md": None}
    after = {INDEX: b"1\n2\n3\n4\n4b\n5\n6\n7\n8", "new.md": b"x"}
    assert diff(before, after) == (
        "--- a/MEMORY.md\n+++ b/MEMORY.md\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+4b\n 5\n 6\n 7\n"
        "--- /dev/null\n+++ b/new.md\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    )
    assert diff(before, {INDEX: before[INDEX]}) == ""


def test_a_diff_shows_what_it_cannot_say():
    """Bytes that are no UTF-8 leave the diff one that the wire can hold, and a name of odd bytes too."""
    text = diff({"a\udcff\n.md": b"\xff\n"}, {"a\udcff\n.md": b"\xfe\xed\n"})
    assert text.encode()
    assert re.search(r'^\+\+\+ "b/a\\377\\012\.md"$', text, re.MULTILINE)
    assert "-\ufffd\n+\ufffd\ufffd\n" in text
