"""How answers about the service are shown."""

import pytest

from zcsyncd.cli.render import Paint
from zcsyncd.cli.service_pages import changes_page, done_page, plan_page, service_page

PLAIN = {"cells": None, "paint": Paint(on=False), "program": "z"}

RUNNING = {
    "manager": "systemd",
    "unit": "/u/zcsyncd.service",
    "installed": True,
    "enabled": True,
    "running": True,
    "state": "active (running)",
    "pid": 7,
    "since": "Tue 2026-12-01",
    "says": "3 directories",
    "restarts": 2,
    "socket": True,
    "command": ["/p", "-m", "zcsyncd"],
    "cautions": [],
    "notes": ["try `zcsyncd status`"],
}


def test_a_service_that_runs():
    """Each subject is a line; commands are shown as they can be typed here."""
    assert service_page(RUNNING, **PLAIN) == [
        "service    runs, active (running), pid 7, since Tue 2026-12-01, restarted 2 times by itself",
        "says       3 directories",
        "unit       /u/zcsyncd.service",
        "runs       /p -m zcsyncd",
        "starts     at log-in",
        "socket     held by the service manager",
        "note       try `z status`",
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"installed": False}, "service    not installed; `z service install` does it"),
        (
            {"running": False, "pid": None, "since": None, "restarts": 0, "state": "failed"},
            "service    does not run, failed",
        ),
        ({"enabled": False}, "starts     not by itself"),
        (
            {"cautions": ["the unit is odd: `zcsyncd service install`"]},
            "caution    the unit is odd: `z service install`",
        ),
        ({"says": "a\x1b[2Jb"}, "says       a\\x1b[2Jb"),
    ],
)
def test_a_service_in_other_states(change, line):
    """What is not so is said; what the daemon or a file says is made harmless."""
    assert line in service_page({**RUNNING, **change}, **PLAIN)


def test_an_answer_of_another_version():
    """An answer with nothing in it, or with other kinds of members, is shown without an error."""
    assert service_page({}, **PLAIN)
    assert service_page({**RUNNING, "command": 1, "pid": "x", "notes": None}, **PLAIN)
    assert done_page({}, **PLAIN) == ["nothing to do: it is so already"]
    assert plan_page({}, **PLAIN) == []


def test_what_was_done():
    """Acts come first, then notes."""
    assert done_page({"did": ["written: /u", "started"], "notes": ["n"]}, **PLAIN) == [
        "written: /u",
        "started",
        "note       n",
    ]


def test_a_plan():
    """What is found, what would be done, what stays with its size."""
    plan = {
        "found": [{"name": "host pi", "path": "/h/.pi"}],
        "would": [{"name": "service", "path": "/u", "says": "install it"}],
        "stays": [{"name": "state", "path": "/s", "sizeBytes": 2048}],
        "notes": ["n"],
    }
    assert plan_page(plan, **PLAIN) == [
        "found      host pi: /h/.pi",
        "would      service: /u: install it",
        "stays      state: /s: 2.0 KiB",
        "note       n",
    ]


def test_what_a_reload_changed():
    """Each setting with both values; what waits for a start says so; nothing is said in words."""
    rows = [
        {"key": "a", "from": 1, "to": None, "restart": False},
        {"key": "b", "from": "x\n", "to": 2, "restart": True},
    ]
    assert changes_page({"changed": rows}, program="z", cells=None) == [
        "a: 1 → none",
        "b: x\\n → 2, from the next start on",
    ]
    assert changes_page({}, program="z", cells=None) == ["nothing has changed"]


def test_pages_keep_to_the_terminal():
    """On a narrow terminal lines are broken at blanks, and go on under what they name."""
    lines = service_page({**RUNNING, "notes": ["word " * 30]}, cells=40, paint=Paint(on=False), program="z")
    assert max(map(len, lines)) <= 40
    assert any(line.startswith(" " * 11 + "word") for line in lines)
