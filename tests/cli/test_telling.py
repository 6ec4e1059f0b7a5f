"""Events to words: every topic of the protocol, and those that are not known yet."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcsyncd.cli.render import Paint, width
from zcsyncd.cli.telling import MOST_LINES, event_lines

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault of what is tested."""
PLAIN = Paint(on=False)
FINDING = {
    "key": "entry-dangling:0123456789ab",
    "code": "entry-dangling",
    "severity": "error",
    "dir": "/m",
    "file": "MEMORY.md",
    "target": "gone.md",
    "line": 3,
    "message": "the target does not exist",
    "hint": "did it move?",
    "fixable": False,
    "since": "2026-01-01T00:00:00.000Z",
    "pending": False,
    "dismissed": False,
}
COUNTS = {"error": 1, "warning": 0, "info": 2}


def tell(topic, data, label="app", cells=None, paint=PLAIN):
    """Tell one event at a fixed time."""
    event = {"cursor": "a:1", "time": "…", "topic": topic, "dir": "/m", "data": data}
    return event_lines(event, label=label, clock="12:00:00.000", cells=cells, paint=paint)


CASES = [
    (
        "memory/changed",
        {"changes": [{"kind": "added", "file": "a.md", "description": "What"}]},
        ["added a.md — What"],
    ),
    (
        "memory/changed",
        {
            "changes": [
                {"kind": "renamed", "file": "b.md", "from": "a.md"},
                {"kind": "file", "file": "c.md", "description": "same"},
                {"kind": "deleted", "file": "d.md"},
            ],
            "by": {"host": "pi", "id": "1"},
            "more": True,
        },
        [
            "3 changes by pi 1, more to come",
            "    renamed b.md (was a.md)",
            "    file c.md (bytes only: its meaning is the same)",
            "    deleted d.md",
        ],
    ),
    (
        "memory/changed",
        {"changes": [{"kind": "renamed", "file": "x", "unit": ["A", "B"], "from": ["A", "C"]}]},
        ["renamed x › A › B (was A › C)"],
    ),
    (
        "memory/changed",
        {"changes": [{"kind": "added", "file": "a\x1b\u202e.md"}]},
        ["added a\\x1b\\u202e.md"],
    ),
    (
        "memory/index",
        {
            "revision": "mtime:1:size:2",
            "added": [{"target": "a.md", "title": "A", "hook": "why", "line": 1}],
            "removed": [{"target": "b.md", "title": "B", "hook": "", "line": 2}],
            "changed": [],
            "caps": {"lines": 210, "linesCap": 200, "units": 1234, "unitsCap": 25000, "beyond": ["z.md"]},
        },
        [
            "1 entry added; 1 entry removed; 210 of 200 lines, 1,234 of 25,000 units",
            "    added a.md  [A] — why",
            "    removed b.md  [B]",
            "    past the cap, never seen by the model: z.md",
        ],
    ),
    ("memory/index", {"revision": None, "added": [], "removed": [], "changed": []}, ["the index is gone"]),
    (
        "memory/audit",
        {"appeared": [FINDING], "cleared": [FINDING], "counts": COUNTS},
        [
            "open now: 1 error",
            "    error entry-dangling  MEMORY.md:3",
            "        the target does not exist",
            "        → did it move?",
            "    cleared entry-dangling  MEMORY.md",
        ],
    ),
    ("memory/audit", {"appeared": [], "cleared": [], "counts": {}}, ["open now: none"]),
    (
        "read-state/read",
        {"absolutePath": "/m/a.md", "kind": "truncated", "session": {"host": "pi", "id": "0123456789"}},
        ["pi 01234567 read, cut: /m/a.md"],
    ),
    (
        "read-state/read",
        {
            "absolutePath": "/m/a.md",
            "kind": "partial",
            "range": [3, 7],
            "session": {"host": "pi", "id": "1"},
        },
        ["pi 1 read in part, lines 3 to 7: /m/a.md"],
    ),
    (
        "read-state/stale",
        {
            "absolutePath": "/m/a.md",
            "session": {"host": "pi", "id": "1"},
            "read": {},
            "now": {},
            "stamp": True,
        },
        ["what pi 1 had read has changed: /m/a.md (bytes only: its meaning is the same)"],
    ),
    (
        "read-state/stale",
        {"absolutePath": "/m/a.md", "session": {"host": "pi", "id": "1"}, "read": {}, "now": None},
        ["what pi 1 had read is gone: /m/a.md"],
    ),
    (
        "read-state/stale",
        {"absolutePath": "/m/a.md", "session": {"host": "pi", "id": "1"}, "read": {}, "now": {}},
        ["what pi 1 had read has changed: /m/a.md"],
    ),
    ("memory/dir-added", {"layout": "zcode", "label": "app"}, ["layout zcode"]),
    (
        "bus/gap",
        {"reason": "expired", "missed": 1200},
        ["events are gone from the journal, 1,200 missed: what you knew may be old"],
    ),
    (
        "bus/gap",
        {"reason": "journal-reset", "missed": None},
        ["the journal began anew: what you knew may be old"],
    ),
    ("daemon/started", {"version": "1.0", "pid": 7}, ["version=1.0 pid=7"]),
    ("daemon/rescanned", {"drift": 3, "why": ["a"]}, ['drift=3 why=["a"]']),
    ("daemon/degraded", {"base": "/m\u202e"}, ["base=/m\\u202e"]),
    ("future/topic", {"x": {"y": 1}}, ['x={"y": 1}']),
]


@pytest.mark.parametrize(("topic", "data", "told"), CASES)
def test_every_topic_in_words(topic, data, told):
    """Each event is told as one line of what happened, and a line for each thing that changed."""
    first, *rest = told
    assert tell(topic, data) == [f"12:00:00.000  app  {topic}  {first}", *rest]


def test_no_directory_no_label():
    """An event of the daemon itself has no project's name."""
    assert tell("daemon/stopping", {}, label="") == ["12:00:00.000  daemon/stopping"]


def test_many_changes_are_counted():
    """More changes than fit a screen are counted at the end."""
    lines = tell("memory/changed", {"changes": [{"kind": "added", "file": f"{n}.md"} for n in range(500)]})
    assert len(lines) == MOST_LINES + 2
    assert lines[-1] == "    … and 480 more (--json tells them all)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    [
        "changes",
        "added",
        "removed",
        "changed",
        "caps",
        "appeared",
        "cleared",
        "counts",
        "session",
        "by",
        "now",
        "beyond",
    ]
)


@UNHURRIED
@given(st.sampled_from([case[0] for case in CASES]), st.dictionaries(MEMBERS, JSON, max_size=4) | JSON)
def test_odd_data_is_told_somehow(topic, data):
    """Whatever a daemon sends, following goes on, and nothing hidden is shown."""
    for line in tell(topic, data):
        assert "\n" not in line
        assert "\x1b" not in line


@pytest.mark.parametrize("paint", [PLAIN, Paint(on=True)])
def test_an_event_keeps_to_the_terminal(paint):
    """With colour and without, lines are broken at blanks, go on further in, and nothing is lost."""
    description = "a description of many words " * 4 + "记" * 50
    changes = [{"kind": "added", "file": f"{number}.md", "description": description} for number in (1, 2)]
    lines = tell("memory/changed", {"changes": changes}, label="a label", cells=40, paint=paint)
    assert all(width(line) <= 40 for line in lines)
    assert all(line.startswith("      ") or "added" in line for line in lines[1:] if "change" not in line)
    assert "".join(lines).count("记") == 100


def test_a_finding_keeps_to_the_terminal():
    """A finding that an event tells is broken to the terminal's width as well."""
    told = {**FINDING, "message": "many words " * 12, "hint": "and what to do about them " * 5}
    lines = tell("memory/audit", {"appeared": [told], "cleared": [], "counts": COUNTS}, cells=50)
    assert all(width(line) <= 50 for line in lines)
