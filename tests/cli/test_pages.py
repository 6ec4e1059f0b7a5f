"""Answers to text: what a person reads of `status`, `dirs`, `audit` and `memory`."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcsyncd.cli.pages import (
    at_least,
    audit_page,
    dirs_page,
    index_page,
    is_quiet,
    list_page,
    read_page,
    resolve_page,
    sessions_page,
    settings_page,
)
from zcsyncd.cli.render import Paint, width
from zcsyncd.cli.status_page import status_page

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault of what is tested."""
PLAIN = Paint(on=False)

STATUS = {
    "daemon": {
        "version": "1.2.3",
        "pid": 42,
        "uptimeS": 3725.4,
        "rssBytes": 40_000_000,
        "ready": True,
        "watcher": "inotify",
        "trees": [
            {
                "layout": "zcode",
                "base": "/home/u/.zcode/cli/memories/projects",
                "exists": True,
                "kind": "inotify",
                "watches": 5,
            },
            {"layout": "zcode", "base": "/home/user/x", "exists": False, "kind": "inotify", "watches": 1},
            {"layout": "zcode", "base": "/nfs", "exists": True, "kind": "polling", "watches": 0},
        ],
        "degraded": [],
        "lastEventAt": "2026-01-01T00:00:00.000Z",
        "lastScanAt": None,
        "driftFound": 0,
    },
    "bus": {"address": "/run/x.sock", "connections": 1, "subscriptions": 2, "published": 1234, "dropped": 0},
    "counts": {"directories": 2, "facts": 30, "findings": {"error": 1, "warning": 2, "info": 9}},
    "asked": [],
    "jobs": [{"name": "rescan", "nextRunAt": "T1", "lastRunAt": "T0", "lastError": None}],
    "environment": [],
}


def finding(**members):
    """Make a Finding of the wire."""
    return {
        "key": "k:1",
        "code": "some-code",
        "severity": "warning",
        "dir": "/m",
        "message": "what it says",
        "fixable": False,
        "since": "T",
        "pending": False,
        "dismissed": False,
        **members,
    }


def status(answer, *, home="/home/u", program="zcsyncd", cells=None, paint=PLAIN, version="1.2.3"):
    """Show `status` as text."""
    return status_page(answer, home=home, program=program, cells=cells, paint=paint, version=version)


def test_status_on_one_screen():
    """`status` says in a few lines how the daemon is."""
    assert status(STATUS) == [
        "daemon    ready, version 1.2.3, pid 42, up 1 h 2 min, 38.1 MiB",
        "watching  inotify",
        "tree      zcode  ~/.zcode/cli/memories/projects  inotify, 5 watches",
        "tree      zcode  /home/user/x  not there yet",
        "tree      zcode  /nfs  polled",
        "memory    2 directories, 30 facts, 1 error, 2 warnings",
        "bus       /run/x.sock, 1 connection, 2 subscriptions, 1,234 events told, 0 dropped",
        "last      event 2026-01-01T00:00:00.000Z",
        "job       rescan, next T1, last T0",
    ]


def test_status_tells_what_a_person_should_know():
    """Polling, a journal in trouble, other code, asked directories, other environments, complaints: a line each."""
    daemon = {
        **STATUS["daemon"],
        "ready": False,
        "driftFound": 3,
        "degraded": [
            {"base": "/nfs", "reason": "silent"},
            {"base": "/home/u/state/state.db", "reason": "disk full"},
        ],
        "packageSkew": "1.2.2",
        "complaints": ["/home/u/x.json is not UTF-8; it is passed over"],
    }
    answer = {
        **STATUS,
        "daemon": daemon,
        "jobs": [{"name": "retention", "lastError": "disk \x1b full"}],
        "asked": [{"dir": "/d", "reason": "a project's file names it"}, {"dir": "/e"}],
        "environment": [
            {"name": "ZCODE_STORAGE_DIR", "host": "pi", "session": "/s", "daemon": None},
            {"name": "ZCODE_STORAGE_DIR", "host": "omp", "session": "", "daemon": "/t"},
        ],
    }
    lines = status(answer, program=".venv/bin/zcsyncd")
    assert lines[0].startswith("daemon    first scan under way")
    assert lines[7].endswith("3 changes found by a scan only")
    assert lines[8] == "job       retention, failed: disk \\x1b full"
    assert [line.removeprefix("caution   ") for line in lines[9:]] == [
        "polled, so changes are found later: /nfs: silent",
        "does not work: ~/state/state.db: disk full",
        "the daemon runs other code than is installed now (1.2.2): `.venv/bin/zcsyncd stop`, and start it again",
        "asked for, not kept until `.venv/bin/zcsyncd dirs --allow DIR`: /d (a project's file names it)",
        "asked for, not kept until `.venv/bin/zcsyncd dirs --allow DIR`: /e",
        "sessions of pi have ZCODE_STORAGE_DIR=/s, the daemon has none: it looks for memory elsewhere than they",
        "sessions of omp have no ZCODE_STORAGE_DIR, the daemon has /t: it looks for memory elsewhere than they",
        "/home/u/x.json is not UTF-8; it is passed over",
    ]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "inotify, 2 watches"),
        ({"lastEventAt": None}, "inotify, 2 watches, no event yet"),
        ({"lastEventAt": None, "exists": False}, "not there yet"),
        (
            {"lastEventAt": "T1", "lastScanAt": "T2", "drift": 0},
            "inotify, 2 watches, event T1, scan T2",
        ),
        (
            {"kind": "polling", "lastEventAt": "T1", "lastScanAt": "T2", "drift": 1},
            "polled, event T1, scan T2, 1 change found by a scan only",
        ),
    ],
)
def test_each_root_tells_how_it_is_watched(tree, words):
    """How, the last event or that there never was one, the last scan, and what only that found."""
    whole = {"layout": "zcode", "base": "/b", "exists": True, "kind": "inotify", "watches": 2, **tree}
    (line,) = [
        line
        for line in status({**STATUS, "daemon": {**STATUS["daemon"], "trees": [whole]}})
        if line.startswith("tree")
    ]
    assert line == f"tree      zcode  /b  {words}"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.2.3", None),
        ("1.2.4", "the daemon is version 1.2.3, older than this command (1.2.4): `zcsyncd service restart`"),
        ("1.2.3rc1", "the daemon is version 1.2.3, newer than this command (1.2.3rc1): upgrade"),
        ("odd", "the daemon is version 1.2.3, this command is odd: "),
    ],
)
def test_a_daemon_of_another_version_is_told(version, words):
    """Both ways, each with what to do; once, where the daemon says itself that its package was replaced."""
    told = [line.removeprefix("caution   ") for line in status(STATUS, version=version) if "caution" in line]
    assert len(told) == (words is not None)
    assert all(line.startswith(words) for line in told)
    replaced = {**STATUS, "daemon": {**STATUS["daemon"], "packageSkew": "1.2.4"}}
    assert len([line for line in status(replaced, version=version) if "caution" in line]) == 1


def test_one_change_is_no_plural():
    """One change that only a scan found is `1 change`."""
    (last,) = [
        line
        for line in status({**STATUS, "daemon": {**STATUS["daemon"], "driftFound": 1}})
        if line.startswith("last")
    ]
    assert last.endswith(", 1 change found by a scan only")


@pytest.mark.parametrize("paint", [PLAIN, Paint(on=True)])
def test_status_keeps_to_the_terminal(paint):
    """On a narrow terminal a subject goes on under itself, with colour and without; only a path may be wider."""
    complaint = "the settings of a host are not as they should be and so they are passed over"
    answer = {**STATUS, "daemon": {**STATUS["daemon"], "complaints": [complaint]}}
    lines = status(answer, cells=30, paint=paint)
    too_wide = [line for line in lines if width(line) > 30]
    assert [line.strip() for line in too_wide] == ["~/.zcode/cli/memories/projects"]
    assert sum(line.startswith(" " * 10) for line in lines) > 5


SESSION = {
    "host": "pi",
    "id": "0198f1c2-7a53",
    "cwd": "/home/u/code/app",
    "firstAt": "T0",
    "lastContactAt": "T1",
    "index": "stale",
    "reads": 12,
    "news": 3,
}


def sessions(rows, cells=None):
    """Show `status --sessions` as text; times as 12:00:0x.123."""
    clock = {"T1": "12:00:01.123", "None": "None"}.__getitem__
    return sessions_page({"sessions": rows}, clock=clock, cells=cells, paint=PLAIN)


def test_sessions_one_a_line():
    """Who, when heard of last, how its index stands, how much it has read and has yet to be told, where it works."""
    other = {**SESSION, "host": "zcode", "id": "x\x1b", "index": "unread", "reads": 0, "news": 0}
    assert sessions([SESSION, other]) == [
        "HOST   ID             LAST HEARD OF  INDEX   READS  NEWS  WORKING DIRECTORY",
        "pi     0198f1c2-7a53  12:00:01       stale      12     3  /home/u/code/app",
        "zcode  x\\x1b          12:00:01       unread      0     0  /home/u/code/app",
    ]
    assert sessions([]) == ["no sessions yet: they appear here once a host's plugin says hello"]


def test_sessions_keep_to_the_terminal():
    """On a narrow terminal the id and the front of the working directory are cut, numbers are not."""
    row = {**SESSION, "id": "0" * 36, "cwd": "/a/long/way/down/to/the/app"}
    lines = sessions([row, {}], cells=70)
    assert all(width(line) <= 70 for line in lines)
    assert lines[1].endswith("the/app")


def test_a_finding_says_whose_write_it_was():
    """Where the writer is known, the head of a finding names it."""
    lines = audit_page([finding(by={"host": "pi", "id": "1"})], "/m", cells=None, paint=PLAIN)
    assert lines[0] == "warning some-code  by pi 1"


def test_a_finding_says_where_what_and_what_to_do():
    """Severity, code and place; the message; the hint; the key, which --dismiss takes."""
    told = finding(file="a.md", line=3, hint="do this", pending=True)
    assert audit_page([told], "/m", cells=None, paint=PLAIN) == [
        "warning some-code  a.md:3  (pending)",
        "    what it says",
        "    → do this",
        "    key k:1",
        "1 pending in /m",
    ]


def test_findings_are_counted_by_severity():
    """The last line counts what is open, and beside it what is pending or dismissed."""
    told = [
        finding(severity="error"),
        finding(),
        finding(),
        finding(severity="info"),
        finding(severity="error", dismissed=True),
        finding(pending=True),
    ]
    last = audit_page(told, "/m\n", cells=None, paint=PLAIN)[-1]
    assert last == "1 error, 2 warnings, 1 info, 1 pending, 1 dismissed in /m\\n"


def test_a_directory_in_order():
    """A terminal is told that all is well, a pipe gets silence."""
    assert audit_page([], "/m", cells=80, paint=PLAIN) == ["in order: nothing to say about /m"]
    assert audit_page([], "/m", cells=None, paint=PLAIN) == []


def test_long_messages_wrap_with_their_indent():
    """On a terminal a message is broken at blanks and stays indented."""
    told = finding(message="word " * 30 + "end")
    lines = audit_page([told], "/m", cells=40, paint=PLAIN)
    assert all(width(line) <= 40 for line in lines)
    assert all(line.startswith("    ") for line in lines[1:-1])


def test_heads_and_sums_wrap_too():
    """The first line of a finding and the last of all keep to the terminal; a path stays whole."""
    told = finding(file="a name with blanks " * 4 + ".md", line=3, pending=True, code="entry-dangling")
    where = "/a/path/that/is/longer/than/the/line/on/this/narrow/terminal"
    lines = audit_page([told], where, cells=40, paint=Paint(on=True))
    assert [line.strip() for line in lines if width(line) > 40] == [where]


@pytest.mark.parametrize(
    ("severity", "fail_on", "counts"),
    [
        ("error", "error", True),
        ("warning", "error", False),
        ("warning", "warning", True),
        ("info", "warning", False),
        ("info", "info", True),
        ("fatal", "info", False),
    ],
)
def test_gravity(severity, fail_on, counts):
    """A finding counts from the severity on that was asked for; an unknown one counts for nothing."""
    assert at_least(finding(severity=severity), fail_on) is counts


def test_pending_and_dismissed_are_quiet():
    """What is pending or dismissed counts for nothing."""
    assert [is_quiet(finding()), is_quiet(finding(pending=True)), is_quiet(finding(dismissed=True))] == [
        False,
        True,
        True,
    ]


def test_directories_as_a_table():
    """Each directory is a line; its findings are words."""
    row = {
        "dir": "/m",
        "layout": "zcode",
        "label": "a\u202e",
        "facts": 3,
        "entries": 2,
        "findings": {"error": 1, "warning": 2, "info": 5},
    }
    assert dirs_page({"dirs": [row]}, cells=None, paint=PLAIN) == [
        "PROJECT  LAYOUT  FACTS  ENTRIES  FINDINGS             DIRECTORY",
        "a\\u202e  zcode       3        2  1 error, 2 warnings  /m",
    ]


def test_resolving_says_why():
    """The directory, why it is that one, and what else there is to know."""
    answer = {
        "dir": "/m",
        "computedDir": "/c",
        "source": "only-match",
        "others": ["/o"],
        "warnings": ["odd\n", "first `zcsyncd dirs --allow /x`"],
    }
    assert resolve_page(answer, program="z", cells=None, paint=PLAIN) == [
        "/m  (the only directory with this project's name)",
        "also of this working directory: /o",
        "warning: odd\\n",
        "warning: first `z dirs --allow /x`",
    ]
    answer = {"dir": None, "computedDir": "/c", "source": "none", "others": [], "warnings": []}
    assert resolve_page(answer, program="z", cells=None, paint=PLAIN) == [
        "no memory yet",
        "a first fact would go to /c",
    ]


def test_facts_as_a_table():
    """Each fact is a line, with what is not in order."""
    row = {
        "file": "a.md",
        "type": None,
        "description": None,
        "indexed": False,
        "recalled": True,
        "malformed": True,
    }
    good = {
        "file": "b.md",
        "type": "user",
        "description": "记\n",
        "indexed": True,
        "recalled": True,
        "malformed": False,
    }
    assert list_page({"dir": "/m", "total": 2, "facts": [row, good]}, cells=None, paint=PLAIN) == [
        "FILE  TYPE  STATE                   DESCRIPTION",
        "a.md  -     malformed, not indexed  -",
        "b.md  user  ok                      记\\n",
        "2 facts in /m",
    ]


def test_a_fact_as_text():
    """Head, description, path, body; hidden characters of the body stand as escapes."""
    answer = {
        "file": "a.md",
        "absolutePath": "/m/a.md",
        "name": None,
        "description": "what",
        "type": None,
        "body": "one\n\ttwo \x1b[2J\n",
        "truncated": "both",
        "restLine": 9,
        "encoding": "gbk",
    }
    assert read_page(answer, paint=PLAIN) == [
        "a.md  no type",
        "what",
        "/m/a.md",
        "not UTF-8 but gbk",
        "",
        "one",
        "\ttwo \\x1b[2J",
        "",
        "(cut at 200 lines and 4,096 bytes, as recall shows it; `--full` or the file, from line 9, gives the rest)",
    ]


def test_the_index_as_text():
    """The index is shown as the model gets it; without one that is said."""
    assert index_page({"text": "- a\n- b\u200b", "revision": "r"}, paint=PLAIN) == ["- a", "- b\\u200b"]
    assert index_page({"text": "", "revision": None}, paint=PLAIN) == ["no index: the model is shown nothing"]


def test_settings_as_a_table():
    """Every setting with its value and its source; then the file, with a colour when one was named and is missing."""
    rows = [("a.b", 5, "default"), ("roots", {"zcode": ["/x"]}, "config.yaml line 2"), ("c", None, "default")]
    file = {"path": "/c.yaml", "exists": True, "named": False}
    assert settings_page(rows, file, cells=None, paint=PLAIN) == [
        "KEY    VALUE              FROM",
        "a.b    5                  default",
        'roots  {"zcode": ["/x"]}  config.yaml line 2',
        "c      -                  default",
        "the file is /c.yaml",
    ]
    missing = {"path": "/c.yaml", "exists": False, "named": True}
    said = "ZCSYNCD_CONFIG names /c.yaml but there is no such file"
    assert settings_page([], missing, cells=None, paint=PLAIN)[-1] == said
    usual = {**missing, "named": False}
    assert settings_page([], usual, cells=None, paint=PLAIN)[-1] == "there is no file /c.yaml"
    assert "\x1b[33m" in settings_page([], missing, cells=None, paint=Paint(on=True))[-1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ANSWERS = st.dictionaries(
    st.sampled_from(
        ["daemon", "bus", "counts", "asked", "jobs", "environment", "dirs", "facts", "total", "dir", "body"]
    ),
    JSON,
)


@UNHURRIED
@given(ANSWERS)
def test_an_odd_answer_is_shown_somehow(answer):
    """A daemon of another version, or none of ours, gives no traceback."""
    status(answer)
    status(answer, cells=20)
    dirs_page(answer, cells=50, paint=PLAIN)
    list_page(answer, cells=50, paint=PLAIN)
    read_page(answer, paint=PLAIN)
    index_page(answer, paint=PLAIN)
    resolve_page(answer, program="z", cells=50, paint=PLAIN)
