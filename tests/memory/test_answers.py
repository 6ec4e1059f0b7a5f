"""Answers about one directory: the shapes of the wire, from a snapshot or from a file's bytes."""

import hashlib

import pytest

from zcsyncd.errors import Ambiguous, NotFound, Refused, Unreadable
from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.answers import (
    absolute,
    find_fact,
    finding_answer,
    index_answer,
    list_answer,
    read_answer,
    time_text,
)
from zcsyncd.memory.audit.finding import Finding
from zcsyncd.memory.fact import FileStat, parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.snapshot import Snapshot

CAPS = Caps(200, 25_000)


def text(name=None, kind="user", body="body\n"):
    """Give a fact file's text."""
    named = f"name: {name}\n" if name else ""
    return f"---\n{named}description: d\nmetadata:\n  type: {kind}\n---\n{body}".encode()


def fact(file, content, mtime_ms=0):
    """Parse a fact file."""
    return parse_fact(file, content, FileStat(mtime_ms * 10**6, 0, len(content), 1), read_at_ns=0)


def snapshot(*facts, index=None):
    """Make a snapshot of facts and an index's text."""
    parsed = index and parse_index("MEMORY.md", index, FileStat(0, 0, len(index), 1), read_at_ns=0, caps=CAPS)
    return Snapshot("/m", "zcode", parsed, {each.file: each for each in facts})


FACTS = (
    fact("b.md", text("zeta", "project"), 3),
    fact("a.md", text("Alpha", body="longer body\n"), 1),
    fact("c.md", text(None), 2),
)


def test_a_row_has_every_member():
    """A fact of `memory.list` has exactly the members of the protocol."""
    shot = snapshot(FACTS[0], index=b"- [Z](b.md) \xe2\x80\x94 d\n")
    content = text("zeta", "project")
    assert list_answer(shot, {"b.md"}) == {
        "dir": "/m",
        "total": 1,
        "facts": [
            {
                "file": "b.md",
                "name": "zeta",
                "description": "d",
                "type": "project",
                "mtimeMs": 3,
                "sizeBytes": len(content),
                "revision": f"mtime:3:size:{len(content)}",
                "indexed": True,
                "recalled": True,
                "malformed": False,
            }
        ],
    }


@pytest.mark.parametrize(
    ("sort", "files"),
    [
        ("file", ["a.md", "b.md", "c.md"]),
        ("name", ["a.md", "b.md", "c.md"]),
        ("mtime", ["b.md", "c.md", "a.md"]),
        ("size", ["a.md", "b.md", "c.md"]),
    ],
)
def test_sorting(sort, files):
    """By file, by name without case and nameless last, newest first, or largest first."""
    assert [row["file"] for row in list_answer(snapshot(*FACTS), (), sort=sort)["facts"]] == files


def test_pages_and_types():
    """`total` counts all facts of the type, whatever page is asked for."""
    answer = list_answer(snapshot(*FACTS), (), limit=1, offset=1, type="user")
    assert answer["total"] == 2
    assert [row["file"] for row in answer["facts"]] == ["c.md"]
    assert list_answer(snapshot(*FACTS), (), limit=0)["facts"] == []
    assert list_answer(snapshot(*FACTS), (), offset=9)["facts"] == []


def test_reading_gives_what_the_bytes_say():
    """`memory.read` tells name, body, size, time and hash of one and the same bytes."""
    content = text("n", body="one\r\ntwo\n")
    answer = read_answer("/m", "sub/a.md", content, 1_700_000_000_123_999_999)
    assert answer["absolutePath"] == "/m/sub/a.md"
    assert (answer["name"], answer["type"], answer["truncated"]) == ("n", "user", None)
    assert answer["contentHash"] == hashlib.sha256(content).hexdigest()
    assert answer["sizeBytes"] == len(content)
    assert answer["revision"] == f"mtime:{answer['mtimeMs']}:size:{len(content)}"
    assert "encoding" not in answer
    assert "restLine" not in answer


def test_a_cut_body_says_where_the_rest_is():
    """What recall cuts is told with the line at which the rest begins; `full` gives all."""
    content = text("n", body="".join(f"{n}\n" for n in range(1, 251)))
    cut = read_answer("/m", "a.md", content, 0)
    assert cut["truncated"] == "lines"
    lines = content.decode().split("\n")
    assert lines[cut["restLine"] - 1] == "201"
    full = read_answer("/m", "a.md", content, 0, full=True)
    assert full["truncated"] is None
    assert "250" in full["body"]


def test_another_encoding_is_told():
    """A fact that is not UTF-8 is read as ZCode reads it, and carries its encoding."""
    answer = read_answer("/m", "a.md", "---\nname: 记忆\n---\n正文\n".encode("gbk"), 0)
    assert (answer["name"], answer["encoding"]) == ("记忆", "gbk")


def test_bytes_that_are_no_text_are_unreadable():
    """What ZCode cannot decode is an error, never an empty text; the file is named."""
    with pytest.raises(Unreadable, match=r"/m/a\.md"):
        read_answer("/m", "a.md", bytes(range(256)), 0)
    with pytest.raises(Unreadable, match=r"/m/MEMORY\.md"):
        index_answer("/m", b"\x00\x01\x02", 0, CAPS)


def test_the_index_as_it_is_injected():
    """Text after the strip, its counts before the caps, and both hashes."""
    content = b"---\nx: 1\n---\n\n- [A](a.md)\r\n- [B](b.md)\n\n"
    answer = index_answer("/m", content, 5 * 10**6, CAPS)
    assert answer == {
        "text": "- [A](a.md)\n- [B](b.md)",
        "truncated": False,
        "lines": 2,
        "units": 23,
        "textHash": hashlib.sha256(b"- [A](a.md)\n- [B](b.md)").hexdigest(),
        "contentHash": hashlib.sha256(content).hexdigest(),
        "revision": f"mtime:5:size:{len(content)}",
    }
    assert index_answer("/m", content, 0, Caps(1, 25_000))["truncated"] is True


def test_no_index_is_empty():
    """Without an index the text is empty and the hashes are null."""
    answer = index_answer("/m", None, 0, CAPS)
    assert (answer["text"], answer["textHash"], answer["contentHash"], answer["revision"]) == (
        "",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a.md", "a.md"),
        ("a", "a.md"),
        ("alpha", "sub/x.md"),
        ("sub/x", "sub/x.md"),
        ("sub/x.md", "sub/x.md"),
        ("b", "b.md"),
        ("c", "a.md"),
        ("../odd", "o.md"),
    ],
)
def test_finding_a_fact(name, file):
    """A file name goes before a stem, a stem before a front matter name; names may look like paths."""
    shot = snapshot(
        fact("a.md", text("c")),
        fact("b.md", text("a")),
        fact("sub/x.md", text("alpha")),
        fact("o.md", text("../odd")),
    )
    assert find_fact(shot, name).file == file


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("MEMORY.md", Refused),
        ("MEMORY", Refused),
        ("../a", Refused),
        ("/m/a.md", Refused),
        ("x/../../y", Refused),
        ("twin", Ambiguous),
        ("nothing", NotFound),
        ("", NotFound),
    ],
)
def test_not_finding_a_fact(name, kind):
    """The index, a path outside, an ambiguous and an unknown name are told apart."""
    shot = snapshot(fact("a.md", text("twin")), fact("b.md", text("twin")))
    with pytest.raises(kind) as told:
        find_fact(shot, name)
    assert type(told.value) is kind


def test_errors_help():
    """An ambiguous name lists the files, an unknown one those like it, the index its own method."""
    shot = snapshot(fact("b.md", text("twin")), fact("a.md", text("twin")), fact("deploy_window.md", text()))
    with pytest.raises(Ambiguous) as ambiguous:
        find_fact(shot, "twin")
    assert ambiguous.value.data["files"] == ["a.md", "b.md"]
    with pytest.raises(NotFound) as missing:
        find_fact(shot, "deploy-window")
    assert missing.value.data["near"] == ["deploy_window.md"]
    assert "deploy_window.md" in str(missing.value.hint)
    assert "/m" in missing.value.message
    with pytest.raises(Refused) as index:
        find_fact(shot, "MEMORY.md")
    assert index.value.hint == "memory.index"


def test_a_finding_leaves_out_what_does_not_apply():
    """File, target, line and hint are there only when there is one."""
    bare = Finding("k", "c", "error", None, None, None, "m", None, fixable=False, graced=True)
    assert finding_answer(bare, "/m", 1_700_000_000_000, pending=True, dismissed=False) == {
        "key": "k",
        "code": "c",
        "severity": "error",
        "dir": "/m",
        "message": "m",
        "fixable": False,
        "since": "2023-11-14T22:13:20.000Z",
        "pending": True,
        "dismissed": False,
    }
    whole = Finding("k", "c", "info", "f.md", "t", 3, "m", "h", fixable=True, graced=False)
    answer = finding_answer(whole, "/m", 0, pending=False, dismissed=True)
    assert (answer["file"], answer["target"], answer["line"], answer["hint"]) == ("f.md", "t", 3, "h")


@pytest.mark.parametrize(
    ("epoch_ms", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_of_the_wire(epoch_ms, shown):
    """RFC 3339 in UTC, always with three digits of milliseconds."""
    assert time_text(epoch_ms) == shown


@pytest.mark.parametrize(
    ("directory", "file", "path"),
    [
        ("/m", "a/b.md", "/m/a/b.md"),
        ("C:\\u\\memory", "a/b.md", "C:\\u\\memory\\a\\b.md"),
        ("\\\\host\\share\\m", "b.md", "\\\\host\\share\\m\\b.md"),
        ("//m", "b.md", "//m/b.md"),
    ],
)
def test_absolute_paths_in_the_systems_spelling(directory, file, path):
    """A relative file joins its directory with that system's separator."""
    assert absolute(directory, file) == path
