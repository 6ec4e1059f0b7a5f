"""Records to the wire's words: bounded, whole, and fit for one line."""

from __future__ import annotations

import json

import pytest

from zcsyncd.bus.limits import LINE_BYTES
from zcsyncd.daemon.docket import Docket, FindingRow
from zcsyncd.daemon.words import (
    MAX_CHANGES,
    MAX_ENTRIES,
    MAX_FINDINGS,
    audit_data,
    changed_data,
    index_data,
    told,
)
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.changes import Change
from zcsyncd.memory.fact import FileStat
from zcsyncd.memory.index import parse_index

LONG_NAME = "名" * 80 + ".md"
"""243 bytes: the longest name that a file system takes, nearly; each character is six on the wire."""


def index_of(text: str):
    content = text.encode()
    return parse_index("MEMORY.md", content, FileStat(5, 5, len(content), 1), read_at_ns=9, caps=ZCODE.caps)


@pytest.mark.parametrize(
    ("number", "events"), [(0, []), (1, [1]), (500, [500]), (501, [500, 1]), (1200, [500, 500, 200])]
)
def test_changes_come_in_events_of_500(number, events):
    """All of them, in order; `more` on all events but the last."""
    data = [json.loads(text) for text in changed_data([Change("deleted", f"{n}.md") for n in range(number)])]
    assert [len(one["changes"]) for one in data] == events
    assert [change["file"] for one in data for change in one["changes"]] == [f"{n}.md" for n in range(number)]
    assert ["more" in one for one in data] == [True] * (len(events) - 1) + [False] * bool(events)
    assert MAX_CHANGES == 500


def test_a_change_has_only_what_is_known():
    """What a change does not have is not there, rather than null; `from` is the wire's word."""
    (text,) = changed_data([Change("renamed", "b.md", from_="a.md", name="", content_hash="c")])
    assert json.loads(text)["changes"] == [
        {"kind": "renamed", "file": "b.md", "from": "a.md", "name": "", "contentHash": "c"}
    ]


@pytest.mark.parametrize("number", [1, 500, 501, 3000])
def test_entries_are_at_most_500_of_a_kind(number):
    """The first 500, and a word that there are more; the index itself tells the rest."""
    page = "".join(f"- [T{n}](f{n}.md) — h\n" for n in range(number))
    data = json.loads(index_data(None, index_of(page), ZCODE.caps))
    assert len(data["added"]) == min(number, MAX_ENTRIES)
    assert data["added"][0] == {"target": "f0.md", "title": "T0", "hook": "h", "line": 1}
    assert data.get("more", False) is (number > 500)
    assert len(data["caps"]["beyond"]) == min(max(0, number - 200), MAX_ENTRIES)
    gone = json.loads(index_data(index_of(page), None, ZCODE.caps))
    assert len(gone["removed"]) == min(number, MAX_ENTRIES)
    assert (gone["revision"], gone["contentHash"], gone["textHash"]) == (None, None, None)
    assert (gone["caps"]["lines"], gone["caps"]["units"]) == (0, 0)


def test_an_event_of_odd_names_fits_one_line():
    """However long names are, each event fits a line with what stands around its data."""
    change = Change(
        "renamed",
        LONG_NAME,
        from_="\udce9" * 250,
        name="n" * 60,
        description="\u2028" * 100,
        type="reference",
        revision="1796055660123-123456",
        content_hash="0" * 64,
    )
    for text in changed_data([change] * MAX_CHANGES):
        assert text.isascii()
        assert len(text) < LINE_BYTES - 4096


def test_the_largest_index_event_fits_one_line():
    """A page full of entries with titles and hooks of all 5 MiB that may be: the event fits a line all the same."""
    hook = "名" * 300
    page = "".join(f"- [{'T' * 100}{n}]({'d' * 100}{n}.md) — {hook}\n" for n in range(4000))
    before = index_of(page.replace("T", "U"))
    text = index_data(before, index_of(page), ZCODE.caps)
    assert len(text) < LINE_BYTES - 4096


def test_the_largest_change_event_fits_one_line():
    """500 facts with descriptions as long as front matter may hold fit a line."""
    change = Change("added", "a.md", name="n" * 200, description="名" * 5000, type="user", revision="1-1")
    for text in changed_data([change] * MAX_CHANGES):
        assert len(text) < LINE_BYTES - 4096


def test_findings_are_at_most_200_of_a_kind():
    """The first 200, a word that there are more, and counts of all; it fits a line."""
    rows = [
        FindingRow(
            1000,
            True,
            Finding(
                f"c:{n}",
                "c",
                "error",
                LONG_NAME,
                LONG_NAME,
                n,
                "m" * 900,
                "h" * 500,
                fixable=True,
                graced=False,
            ),
        )
        for n in range(MAX_FINDINGS + 1)
    ]
    docket = Docket({}, tuple(rows), tuple(rows), (MAX_FINDINGS + 1, 0, 0), None)
    text = audit_data("/home/u/memory", docket)
    data = json.loads(text)
    assert 100 < len(data["appeared"]) <= MAX_FINDINGS
    assert 100 < len(data["cleared"]) <= MAX_FINDINGS
    assert data["more"] is True
    assert data["counts"] == {"error": 201, "warning": 0, "info": 0}
    assert len(text) < LINE_BYTES - 4096


def test_a_finding_has_its_directory_and_its_history():
    """On the wire a finding tells where it is, since when, and how it stands."""
    row = FindingRow(
        0, True, Finding("c:1", "c", "error", None, None, None, "m", None, fixable=False, graced=True)
    )
    said = told("/m", row, pending=True, dismissed=True)
    assert said["dir"] == "/m"
    assert said["since"] == "1970-01-01T00:00:00.000Z"
    assert (said["pending"], said["dismissed"]) == (True, True)
    assert not {"file", "target", "line", "hint"} & said.keys()
