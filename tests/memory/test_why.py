"""Why a fact is or is not seen: a real directory for each reason."""

import os
from dataclasses import dataclass, replace

import pytest

from zcsyncd.errors import NotFound
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.audit import audit, indexed
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.disk import read_snapshot
from zcsyncd.memory.fact import FileStat, unreadable_fact
from zcsyncd.memory.injection import inject
from zcsyncd.memory.recall import recalled
from zcsyncd.memory.snapshot import Snapshot, Stray
from zcsyncd.memory.why import PLACES, why

CAPS = ZCODE.caps
NEW_NS = 1_700_000_000_000_000_000
LINE = "- [Alpha](alpha.md) — the first letter\n"
BETA = "- [Beta](beta.md) — the second letter\n"
LONG = "".join(f"- [N{number}](n{number}.md) — a number\n" for number in range(200))
WIDE = "x" * 24_990 + "\n"


def front(description="description: the first letter\n", kind="  type: feedback\n", body="Text.\n"):
    """Give a fact's text in the form that ZCode writes."""
    return f"---\nname: alpha\n{description}metadata:\n  node_type: memory\n{kind}---\n\n{body}"


ALPHA = front()
GOOD = {"MEMORY.md": LINE + BETA, "alpha.md": ALPHA, "beta.md": ALPHA.replace("alpha", "beta")}


@dataclass(frozen=True)
class Case:
    """What is changed in a directory in order, and what is then said of `file` in one place."""

    place: str
    seen: bool
    codes: tuple
    """Of the reasons of that place, in order; None: a reason without one."""
    says: tuple
    """What stands in those reasons, one word of each."""
    changes: dict
    line: int | None = None
    """Of the first reason."""
    file: str = "alpha.md"
    links: tuple = ()
    """Files that are symlinks to a file outside."""
    last: tuple = ()
    """The oldest files."""
    folds_case: bool = False
    findings: tuple = ()


def write(directory, case):
    """Write the case's directory, the newest file first, a second apart."""
    directory.mkdir()
    outside = directory.parent / "outside.md"
    outside.write_text(ALPHA)
    files = dict(sorted({**GOOD, **case.changes}.items(), key=lambda file: file[0] in case.last))
    for number, (file, content) in enumerate(files.items()):
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is ...:
            continue
        if file in case.links:
            path.symlink_to(outside)
            continue
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, ns=(NEW_NS, NEW_NS - number * 10**9))


def said(case, tmp_path):
    """Give the whole answer for a case."""
    write(tmp_path / "memory", case)
    snapshot = read_snapshot(str(tmp_path / "memory"), ZCODE)
    return why(replace(snapshot, folds_case=case.folds_case), case.file, CAPS, case.findings)


def finding(code, **members):
    """Make a finding as another part of the daemon would."""
    given = {
        "file": None,
        "target": None,
        "line": None,
        "hint": "do it",
        "message": f"told of {code}",
        **members,
    }
    return Finding(f"{code}:0", code, "error", fixable=True, graced=False, **given)


def facts(count):
    """Give more facts."""
    return {f"n{number:03d}.md": ALPHA for number in range(count)}


HUB = {"MEMORY.md": BETA, "beta.md": ALPHA + "See [the first](alpha.md).\n"}
SWALLOWED = "---\n" + LINE + "---\n" + BETA
CASES = {
    # -- the index
    "entry": Case("index", True, (None,), ("line 1 of MEMORY.md has an entry",), {}, line=1),
    "entry past the cap": Case("index", True, (None,), ("line 201",), {"MEMORY.md": LONG + LINE}, line=201),
    "entry twice": Case(
        "index",
        True,
        (None, "entry-duplicate"),
        ("line 1", "already"),
        {"MEMORY.md": LINE + BETA + LINE},
        line=1,
    ),
    "entry in other case": Case(
        "index",
        True,
        (None, "entry-case"),
        ("line 1", "Alpha.md"),
        {"MEMORY.md": LINE.replace("(a", "(A")},
        line=1,
        folds_case=True,
    ),
    "entry that drifted": Case(
        "index",
        True,
        (None, "entry-drift"),
        ("line 1", "share no word"),
        {"MEMORY.md": "- [Alpha](alpha.md) — quite different\n"},
        line=1,
    ),
    "entry and a hidden one": Case(
        "index",
        True,
        (None, "entry-hidden"),
        ("line 3", "comment"),
        {"MEMORY.md": f"<!-- {LINE}-->\n{LINE}"},
        line=3,
    ),
    "hub": Case("index", True, (None,), ("hub file `beta.md` links to it, and line 1",), HUB, line=1),
    "hidden": Case(
        "index", False, ("entry-hidden",), ("code fence",), {"MEMORY.md": f"```\n{LINE}```\n"}, line=2
    ),
    "no entry": Case("index", False, ("fact-unindexed",), ("no entry",), {"MEMORY.md": BETA}),
    "entry that nearly names it": Case(
        "index", False, ("fact-unindexed",), ("no entry",), {"MEMORY.md": LINE.replace("(a", "(A")}
    ),
    "lost entry": Case(
        "index",
        False,
        ("entry-lost",),
        ("told of entry-lost",),
        {"MEMORY.md": BETA},
        line=7,
        findings=(finding("entry-lost", file="MEMORY.md", target="alpha.md", line=7),),
    ),
    "put away": Case(
        "index", False, (None,), ("put away in `.trash`",), {".trash/x.md": ALPHA}, file=".trash/x.md"
    ),
    "no index": Case("index", False, ("index-missing",), ("there is no MEMORY.md",), {"MEMORY.md": ...}),
    "index that cannot be decoded": Case(
        "index", False, ("index-unreadable",), ("MEMORY.md cannot be read",), {"MEMORY.md": b"\0\1\2"}
    ),
    # -- the prompt
    "given": Case("prompt", True, (None,), ("the model gets its entry, line 1",), {}, line=1),
    "given in GBK": Case(
        "prompt",
        True,
        (None,),
        ("line 1",),
        {"MEMORY.md": "- [甲](alpha.md) — 第一个字母\n".encode("gbk")},
        line=1,
    ),
    "given, but garbled": Case(
        "prompt",
        True,
        (None, "index-unreadable"),
        ("line 1", "garbled"),
        {"MEMORY.md": "- [Alpha](alpha.md)\n登录流程".encode()[:-1]},
        line=1,
    ),
    "given once, swallowed once": Case(
        "prompt", True, (None,), ("line 4",), {"MEMORY.md": f"---\n{LINE}---\n{LINE}{BETA}"}, line=4
    ),
    "given once, cut off once": Case(
        "prompt", True, (None,), ("line 1",), {"MEMORY.md": LINE + LONG + LINE}, line=1
    ),
    "given within a line that is cut": Case(
        "prompt", True, (None,), ("line 1",), {"MEMORY.md": LINE.strip() + "x" * 26_000}, line=1
    ),
    "swallowed": Case(
        "prompt", False, ("index-swallowed",), ("`---` in line 1",), {"MEMORY.md": SWALLOWED}, line=2
    ),
    "past the lines": Case(
        "prompt",
        False,
        ("index-over-lines",),
        ("behind the 200 lines",),
        {"MEMORY.md": LONG + LINE},
        line=201,
    ),
    "past the units": Case(
        "prompt",
        False,
        ("index-over-units",),
        ("behind the 25000 UTF-16 units",),
        {"MEMORY.md": WIDE + LINE},
        line=2,
    ),
    "hub in the prompt": Case(
        "prompt", False, (None,), ("the model gets the entry of the hub",), HUB, line=1
    ),
    "hub that is cut off too": Case(
        "prompt",
        False,
        (None,),
        ("does not get the entry of the hub file `beta.md` (line 201) either",),
        {**HUB, "MEMORY.md": LONG + BETA},
        line=201,
    ),
    "of two hubs one is given": Case(
        "prompt",
        False,
        (None,),
        ("hub file `gamma.md` (line 4)",),
        {
            **HUB,
            "gamma.md": HUB["beta.md"],
            "MEMORY.md": f"---\n{BETA}---\n- [Gamma](gamma.md) — the third\n",
        },
        line=4,
    ),
    "hidden from the prompt": Case(
        "prompt", False, ("entry-hidden",), ("as an entry",), {"MEMORY.md": f"<!--\n{LINE}-->\n"}, line=2
    ),
    "nothing in the prompt": Case("prompt", False, ("fact-unindexed",), ("no entry",), {"MEMORY.md": BETA}),
    "no index for the prompt": Case("prompt", False, ("index-missing",), ("no fact",), {"MEMORY.md": ...}),
    # -- recall
    "recalled": Case(
        "recall",
        True,
        (None, None),
        ("number 1 of 2 facts", "its description, its type `feedback`, and its whole body"),
        {},
    ),
    "recalled in part": Case(
        "recall",
        True,
        (None, None, "body-over-recall"),
        ("number 1", "the beginning of its body, at most 200 lines and 4,096 bytes", "bytes"),
        {"alpha.md": front(body="word " * 1000)},
    ),
    "recalled without front matter": Case(
        "recall",
        True,
        (None, None, "front-matter-missing"),
        ("number 1", "no description, no type", "front matter"),
        {"alpha.md": "Text.\n"},
    ),
    "recalled with front matter that is not closed": Case(
        "recall",
        True,
        (None, None, "front-matter-unclosed"),
        ("", "no type", ""),
        {"alpha.md": "---\nname: x\n"},
    ),
    "recalled with front matter that is no YAML": Case(
        "recall",
        True,
        (None, None, "front-matter-invalid"),
        ("", "no type", ""),
        {"alpha.md": front('name: "a" b\n')},
    ),
    "recalled with an alias": Case(
        "recall",
        True,
        (None, None, "front-matter-alias"),
        ("", "no description", ""),
        {"alpha.md": front("description: *note*\n")},
    ),
    "recalled without description": Case(
        "recall",
        True,
        (None, None, "description-missing"),
        ("", "no description, its type", ""),
        {"alpha.md": front("")},
    ),
    "recalled with a description that is cut": Case(
        "recall",
        True,
        (None, None, "description-cut"),
        ("", "its description", ""),
        {"alpha.md": front("description: the first #1 letter\n")},
    ),
    "recalled with a description of two lines": Case(
        "recall",
        True,
        (None, None, "description-multiline"),
        ("", "its description", ""),
        {"alpha.md": front('description: "one\\ntwo"\n')},
    ),
    "recalled without type": Case(
        "recall", True, (None, None, "type-missing"), ("", "no type", ""), {"alpha.md": front(kind="")}
    ),
    "recalled with another type": Case(
        "recall",
        True,
        (None, None, "type-unknown"),
        ("", "no type", ""),
        {"alpha.md": front(kind="  type: note\n")},
    ),
    "recalled in GBK": Case(
        "recall",
        True,
        (None, None, "fact-encoding"),
        ("", "its description", "GBK"),
        {"alpha.md": front("description: 第一个字母\n").encode("gbk")},
    ),
    "recalled, but garbled": Case(
        "recall",
        True,
        (None, None, "fact-unreadable"),
        ("", "its body, garbled", "inside a character"),
        {"alpha.md": (ALPHA + "登录流程").encode()[:-1]},
    ),
    "recalled though put away": Case(
        "recall",
        True,
        (None, None, "hidden-dir-recalled"),
        ("", "", "`.trash`"),
        {".trash/x.md": ALPHA},
        file=".trash/x.md",
    ),
    "recalled though a symlink": Case("recall", True, (None, None), ("", "whole"), {}, links=("alpha.md",)),
    "not among the newest": Case(
        "recall",
        False,
        ("fact-not-recalled",),
        ("number 201 of 202 facts by time of change, the newest first: recall looks at the newest 200",),
        {"beta.md": ..., **facts(201)},
        last=("alpha.md", "n000.md"),
    ),
    "not decodable": Case("recall", False, ("fact-unreadable",), ("NUL",), {"alpha.md": b"a\0b"}),
    # -- ZCode's memory page
    "on the page": Case("page", True, (None,), ("nothing is known that hides it",), {}),
    "on one of two pages": Case(
        "page",
        True,
        (None, "split-root"),
        ("nothing", "told of split-root"),
        {},
        findings=(finding("split-root"),),
    ),
    "not on the page": Case("page", False, ("symlink",), ("symlink",), {}, links=("alpha.md",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_reason(case, tmp_path):
    """Of each thing that shows or hides a fact the answer tells place, code, line and why."""
    answer = said(case, tmp_path)
    reasons = [reason for reason in answer["reasons"] if reason["place"] == case.place]
    assert answer["visible"][case.place] is case.seen
    assert {reason["seen"] for reason in reasons} == {case.seen}
    assert tuple(reason.get("code") for reason in reasons) == case.codes
    for reason, word in zip(reasons, case.says, strict=True):
        assert word in reason["reason"]
    assert reasons[0].get("line") == case.line


def test_every_answer_has_every_place_in_order(tmp_path):
    """Whatever is wrong, each of the four places has a verdict and a reason, in their order."""
    for number, case in enumerate(CASES.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        answer = said(case, folder)
        places = [reason["place"] for reason in answer["reasons"]]
        assert list(dict.fromkeys(places)) == list(PLACES)
        assert places == sorted(places, key=PLACES.index)
        assert list(answer["visible"]) == list(PLACES)
        for reason in answer["reasons"]:
            assert set(reason) <= {"place", "seen", "reason", "code", "line", "hint"}
            assert None not in reason.values()
            assert "\n" not in reason["reason"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_verdicts_are_those_of_the_other_answers(case, tmp_path):
    """`index` and `recall` agree with what `memory.list` says, `prompt` with what `memory.index` gives."""
    write(tmp_path / "memory", case)
    snapshot = replace(read_snapshot(str(tmp_path / "memory"), ZCODE), folds_case=case.folds_case)
    reached, listed = indexed(snapshot), recalled(snapshot.facts.values())
    path = tmp_path / "memory" / "MEMORY.md"
    injection = inject(path.read_bytes(), CAPS) if path.exists() else None
    for file in snapshot.facts:
        visible = why(snapshot, file, CAPS, case.findings)["visible"]
        assert visible["index"] == (file in reached and snapshot.index.encoding is not None)
        assert visible["recall"] == (file in listed)
        if visible["prompt"]:
            assert visible["index"]
            assert f"]({file})".lower() in injection.text.lower()


def test_a_directory_in_order_gives_no_code(tmp_path):
    """Where nothing is wrong every fact is seen everywhere, and no finding is named."""
    answer = said(CASES["entry"], tmp_path)
    assert answer["visible"] == dict.fromkeys(PLACES, True)
    assert not [reason for reason in answer["reasons"] if "code" in reason or "hint" in reason]


def test_the_callers_findings_come_first(tmp_path):
    """What the daemon knows (an entry that was removed at some time) is told before what the snapshot shows."""
    told = finding("fact-unindexed", file="alpha.md", hint="removed at noon")
    answer = said(Case("index", False, (), (), {"MEMORY.md": BETA}, findings=(told,)), tmp_path)
    assert [reason["hint"] for reason in answer["reasons"] if reason["place"] == "index"] == [
        "removed at noon"
    ]


def test_the_audits_findings_are_not_told_twice(tmp_path):
    """A finding that the daemon has and that the snapshot shows as well is one reason."""
    case = CASES["entry twice"]
    write(tmp_path / "memory", case)
    snapshot = read_snapshot(str(tmp_path / "memory"), ZCODE)
    found = audit(snapshot, CAPS, now_ms=0)
    assert why(snapshot, "alpha.md", CAPS, found) == why(snapshot, "alpha.md", CAPS)


def test_a_hint_says_what_the_entry_should_be(tmp_path):
    """A fact that an entry nearly names is told with that entry's line."""
    answer = said(CASES["entry that nearly names it"], tmp_path)
    assert "line 1 seems to mean it" in answer["reasons"][0]["hint"]


def test_facts_of_one_time_have_no_number_of_their_own():
    """Among facts of one time nobody knows the order but ZCode: the answer gives the range."""
    stat = FileStat(NEW_NS, 0, 1, 1)
    tied = {file: unreadable_fact(file, stat, "", read_at_ns=0, listed=True) for file in ("a.md", "b.md")}
    reasons = why(Snapshot("/m", "zcode", None, tied), "a.md", CAPS)["reasons"]
    assert any("one of the numbers 1 to 2 of 2 facts" in reason["reason"] for reason in reasons)


def test_of_a_file_that_only_we_do_not_read_nothing_is_claimed():
    """A file over our bound may be in recall: the answer says that it is not known what stands there."""
    fact = unreadable_fact("a.md", FileStat(NEW_NS, 0, 1, 1), "larger than 5 MiB", read_at_ns=0, listed=True)
    answer = why(Snapshot("/m", "zcode", None, {"a.md": fact}), "a.md", CAPS)
    recall = [reason for reason in answer["reasons"] if reason["place"] == "recall"]
    assert answer["visible"]["recall"]
    assert "not known" in recall[1]["reason"]
    assert "5 MiB" in recall[2]["reason"]


def test_a_file_that_recall_does_not_look_at():
    """A fact that is neither listed nor unreadable has a name that recall passes over."""
    fact = unreadable_fact("a.md", FileStat(NEW_NS, 0, 1, 1), "", read_at_ns=0)
    bare = Snapshot("/m", "zcode", None, {"a.md": replace(fact, remarks=())})
    reasons = why(bare, "a.md", CAPS)["reasons"]
    assert "recall does not look at files of this name" in [reason["reason"] for reason in reasons]


@pytest.mark.parametrize(
    ("kind", "says"),
    [("broken-link", "MEMORY.md is a symlink to nothing"), ("special", "not a regular file")],
)
def test_an_index_that_is_no_file(kind, says):
    """An index that is a link to nothing, or a directory, is told as unreadable in both places."""
    fact = unreadable_fact("a.md", FileStat(NEW_NS, 0, 1, 1), "", read_at_ns=0)
    snapshot = Snapshot("/m", "zcode", None, {"a.md": fact}, {"MEMORY.md": Stray("MEMORY.md", kind)})
    for reason in why(snapshot, "a.md", CAPS)["reasons"][:2]:
        assert says in reason["reason"]
        assert reason["code"] == "index-unreadable"


def test_one_directory_that_cannot_be_read_empties_recall():
    """Also a fact that is known from before, below that directory, is in recall no more."""
    fact = unreadable_fact("closed/a.md", FileStat(NEW_NS, 0, 1, 1), "", read_at_ns=0, listed=True)
    strays = {"closed": Stray("closed", "unreadable-directory")}
    answer = why(Snapshot("/m", "zcode", None, {fact.file: fact}, strays), fact.file, CAPS)
    recall = [reason for reason in answer["reasons"] if reason["place"] == "recall"]
    assert [reason["code"] for reason in recall] == ["dir-unreadable"]
    assert "`closed`" in recall[0]["reason"]


def test_a_lost_entry_in_other_case_is_that_facts(tmp_path):
    """Where the file system takes two spellings for one, a loss under the other spelling is told too."""
    lost = finding("entry-lost", file="MEMORY.md", target="Alpha.md")
    answer = said(
        Case("index", False, (), (), {"MEMORY.md": BETA}, findings=(lost,), folds_case=True), tmp_path
    )
    assert answer["reasons"][0]["code"] == "entry-lost"


def test_what_cannot_be_read_is_told(tmp_path, as_ordinary_user):
    """A sub-directory without permission takes every fact out of recall; an index without permission, all entries."""
    directory = tmp_path / "memory"
    write(directory, Case("recall", False, (), (), {"closed/x.md": ALPHA}))
    (directory / "MEMORY.md").chmod(0)
    (directory / "closed").chmod(0)

    def check():
        snapshot = read_snapshot(str(directory), ZCODE)
        answer = why(snapshot, "alpha.md", CAPS)
        codes = {reason["place"]: reason.get("code") for reason in answer["reasons"]}
        assert codes == {
            "index": "index-unreadable",
            "prompt": "index-unreadable",
            "recall": "dir-unreadable",
            "page": None,
        }
        assert any(
            "`closed`" in reason["reason"] for reason in answer["reasons"] if reason["place"] == "recall"
        )
        with pytest.raises(NotFound) as caught:
            why(snapshot, "closed/x.md", CAPS)
        assert "`closed` cannot be read" in caught.value.hint

    try:
        as_ordinary_user(check, tmp_path)
    finally:
        (directory / "closed").chmod(0o700)


def test_a_fact_below_a_symlinked_directory_is_not_known(tmp_path):
    """What lies below a symlinked directory is no fact; the answer says that the link is why."""
    directory = tmp_path / "memory"
    write(directory, Case("recall", False, (), (), {}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.md").write_text(ALPHA)
    (directory / "linked").symlink_to(tmp_path / "other")
    snapshot = read_snapshot(str(directory), ZCODE)
    with pytest.raises(NotFound) as caught:
        why(snapshot, "linked/x.md", CAPS)
    assert "`linked` is a symlink" in caught.value.hint
    with pytest.raises(NotFound) as caught:
        why(snapshot, "none.md", CAPS)
    assert caught.value.hint is None
