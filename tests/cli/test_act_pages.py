"""Answers of writes, repairs, searches and saved versions to text."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcsyncd.cli.act_pages import (
    forget_page,
    history_page,
    repair_page,
    restored_lines,
    search_page,
    show_page,
    why_lines,
    write_page,
)
from zcsyncd.cli.render import Paint, width

PLAIN = Paint(on=False)
FIX = {
    "key": "entry-lost:1",
    "code": "entry-lost",
    "file": "MEMORY.md",
    "line": 3,
    "does": "puts the entry back",
}
REPAIR = {
    "diff": "--- MEMORY.md\n+++ MEMORY.md\n@@ -1 +1,2 @@\n a\n+b\x1b\n",
    "fixes": [FIX],
    "skipped": [],
    "applied": False,
    "revision": "mtime:1:size:2",
    "saved": None,
    "heldBy": [],
}


def repair(answer, cells=None, paint=PLAIN):
    """Show a repair."""
    return repair_page(answer, again="z repair --apply", undo="z history undo", cells=cells, paint=paint)


@pytest.mark.parametrize(
    ("action", "index", "told"),
    [
        ("created", "inserted", "created a.md; its entry is in the index now"),
        ("overwrote", "unchanged", "overwrote a.md; the index is as it was"),
        ("overwrote", "updated", "overwrote a.md; its entry was updated"),
    ],
)
def test_what_was_written(action, index, told):
    """A write says what it did to file and index, where the file lies, and its revision."""
    answer = {
        "file": "a.md", "absolutePath": "/m/a.md", "action": action, "index": index, "revision": "mtime:1:size:2",
    }  # fmt: skip
    assert write_page(answer, cells=None, paint=PLAIN) == [told, "/m/a.md", "revision mtime:1:size:2"]


@pytest.mark.parametrize(
    ("saved", "purged", "told"),
    [
        (7, False, "`z history restore 7` brings it back"),
        (None, True, "nothing of what it said is kept"),
        (None, False, "it is not saved: it cannot be had back"),
    ],
)
def test_what_was_forgotten(saved, purged, told):
    """A forget says how the fact is had back, or that it is not."""
    answer = {"file": "a\u202e.md", "index": "removed", "saved": saved}
    assert forget_page(answer, purged=purged, program="z", cells=None, paint=PLAIN) == [
        "forgot a\\u202e.md; its entry is gone from the index",
        told,
    ]


def test_hits_of_a_search():
    """Each hit: project, file and line, description, the words in their place; what is missing is left out."""
    hits = [
        {
            "dir": "/m",
            "file": "a.md",
            "name": "a",
            "description": "what",
            "score": 2.5,
            "line": 7,
            "snippet": "x\x1b",
        },
        {
            "dir": "/m",
            "file": "b.md",
            "name": None,
            "description": None,
            "score": 1,
            "line": None,
            "snippet": "",
        },
    ]
    shown = search_page({"hits": hits}, label=lambda _: "app", cells=None, paint=PLAIN)
    assert shown == ["app  a.md:7", "    what", "    x\\x1b", "app  b.md"]


def test_a_search_without_hits():
    """Nothing found is said, and so is that the index of words is not complete."""
    assert search_page({"hits": []}, label=str, cells=None, paint=PLAIN) == ["nothing found"]
    shown = search_page({"hits": [], "complete": False}, label=str, cells=None, paint=PLAIN)
    assert shown == ["nothing found", "the index of words is still being built: there may be more"]


def test_why_a_fact_is_seen():
    """Each place with its reason, the finding's code, the line, and what to do."""
    reasons = [
        {"place": "index", "seen": True, "reason": "line 3 leads to it", "line": 3},
        {
            "place": "page",
            "seen": False,
            "reason": "it is a symlink",
            "code": "symlink",
            "hint": "put the file here",
        },
        {"place": "moon", "seen": False, "reason": "far"},
    ]
    assert why_lines({"visible": {}, "reasons": reasons}, cells=None, paint=PLAIN) == [
        "seen in the index: line 3 leads to it",
        "not seen on ZCode's page: it is a symlink (symlink)",
        "    → put the file here",
        "not seen moon: far",
    ]
    assert why_lines({}, cells=None, paint=PLAIN) == []


def test_a_repair_that_is_only_shown():
    """The diff, harmless; each fix; what is left and why; the command that writes it."""
    skipped = [{"key": "entry-drift:2", "code": "entry-drift", "reason": "--fix entry-drift rewrites it"}]
    assert repair({**REPAIR, "skipped": skipped}) == [
        "--- MEMORY.md",
        "+++ MEMORY.md",
        "@@ -1 +1,2 @@",
        " a",
        "+b\\x1b",
        "",
        "fix entry-lost  MEMORY.md:3  puts the entry back",
        "left entry-drift  --fix entry-drift rewrites it  key entry-drift:2",
        "1 fix, nothing is written yet; this does it:",
        "    z repair --apply",
    ]


def test_a_repair_that_was_written():
    """What was done, the saved version, the way back, who still has the old index."""
    answer = {
        **REPAIR,
        "applied": True,
        "saved": 12,
        "heldBy": [{"host": "pi", "id": "0198f0000000"}, {"host": "omp", "id": "2"}],
    }
    assert repair(answer)[6:] == [
        "mended entry-lost  MEMORY.md:3  puts the entry back",
        "still with the old index before their model: pi 0198f000, omp 2",
        "1 fix written; what was there before is saved as 12; this takes it back:",
        "    z history undo",
    ]
    unsaved = repair({**answer, "saved": None, "heldBy": []})
    assert unsaved[-1] == "1 fix written; what was there before is not saved"


@pytest.mark.parametrize(
    ("skipped", "told"),
    [
        ([], ["nothing to mend"]),
        (
            [{"key": "k", "code": "c", "reason": "two files match"}],
            ["left c  two files match  key k", "nothing that can be mended"],
        ),
    ],
)
def test_nothing_to_mend_is_said(skipped, told):
    """A directory in order gets a line; one in which nothing can be mended is told why."""
    assert repair({**REPAIR, "diff": "", "fixes": [], "skipped": skipped}) == told


def test_a_cut_diff_is_marked():
    """A diff that was too long for its line says so."""
    assert "… the diff is longer; the list of fixes is whole" in repair({**REPAIR, "diffCut": True})


@pytest.mark.parametrize("paint", [PLAIN, Paint(on=True)])
def test_a_repair_keeps_to_the_terminal(paint):
    """Sentences are broken at blanks, with colour and without; the diff is left whole."""
    fix = {**FIX, "does": "many words " * 12}
    lines = repair({**REPAIR, "diff": "", "fixes": [fix], "applied": True, "saved": 1}, cells=40, paint=paint)
    assert len(lines) > 4
    assert all(width(line) <= 40 for line in lines)


def version(**members):
    """Make a saved version of the wire."""
    return {
        "saved": 3, "file": "a.md", "at": "T", "sizeBytes": 2048, "contentHash": "0" * 64, "reason": "updated",
        "mtimeMs": 1, **members,
    }  # fmt: skip


def test_saved_versions_as_a_table():
    """Number, until when, what replaced it, who wrote it, size, file; a file that was not there says so."""
    rows = [
        version(saved=12, reason="write", by={"host": "pi", "id": "1"}, batch=4),
        version(contentHash=None, sizeBytes=0, file="b\n.md", reason="restore"),
        version(reason="later"),
    ]
    shown = history_page({"versions": rows}, "/m", clock=lambda _: "12:00", cells=None, paint=PLAIN)
    assert shown == [
        "SAVED  UNTIL  REPLACED BY      WRITTEN BY     SIZE  FILE",
        "   12  12:00  memory write     pi          2.0 KiB  a.md",
        "    3  12:00  history restore  -           no file  b\\n.md",
        "    3  12:00  later            -           2.0 KiB  a.md",
        "3 versions in /m",
    ]
    empty = history_page({"versions": []}, "/m\x1b", clock=str, cells=None, paint=PLAIN)
    assert empty == ["no saved versions in /m\\x1b"]


def test_a_saved_version_is_shown_as_it_is():
    """The text and nothing else; hidden characters stand as escapes; an empty file is nothing."""
    assert show_page({"file": "a.md", "text": "---\n\x1b\n\n"}) == ["---", "\\x1b", ""]
    assert show_page({"file": "a.md", "text": ""}) == []


def test_what_was_restored():
    """Each file with what became of it, and of its entry where something did."""
    answers = [
        {"file": "MEMORY.md", "action": "overwrote", "index": "unchanged", "revision": "r"},
        {"file": "a.md", "action": "created", "index": "inserted", "revision": "r"},
        {"file": "b.md", "action": "removed", "index": "removed", "revision": None},
    ]
    assert restored_lines(answers, cells=None, paint=PLAIN) == [
        "restored MEMORY.md",
        "brought back a.md; its entry is in the index now",
        "removed again b.md; its entry is gone from the index",
    ]
    assert restored_lines([], cells=None, paint=PLAIN) == ["all is as it was before"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ANSWERS = st.dictionaries(
    st.sampled_from(
        [
            "diff",
            "fixes",
            "skipped",
            "heldBy",
            "saved",
            "hits",
            "versions",
            "reasons",
            "text",
            "applied",
            "file",
        ]
    ),
    JSON
    | st.lists(
        st.dictionaries(st.sampled_from(["by", "at", "line", "code", "snippet", "saved"]), JSON), max_size=2
    ),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANSWERS)
def test_an_odd_answer_is_shown_somehow(answer):
    """A daemon of another version, or none of ours, gives no traceback and nothing hidden."""
    shown = [
        *repair(answer, cells=50),
        *write_page(answer, cells=50, paint=PLAIN),
        *forget_page(answer, purged=False, program="z", cells=50, paint=PLAIN),
        *search_page(answer, label=str, cells=50, paint=PLAIN),
        *why_lines(answer, cells=50, paint=PLAIN),
        *history_page(answer, "/m", clock=str, cells=50, paint=PLAIN),
        *restored_lines([answer], cells=50, paint=PLAIN),
        *show_page(answer),
    ]
    assert not any("\x1b" in line for line in shown)
