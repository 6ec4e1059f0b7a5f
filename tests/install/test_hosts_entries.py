"""Our entries in the settings of hosts: put in and taken out again, whatever else is there."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import Refused
from zcsyncd.install.hosts_command import Program, hook, server
from zcsyncd.install.hosts_entries import (
    SHAPES,
    has_ours,
    hooks_in,
    is_ours,
    is_switched_off,
    server_in,
    with_hooks,
    with_server,
    without_hooks,
    without_server,
)

PROGRAM = Program("/opt/py", "/opt/lib/zcsyncd/plugins/run_hook.py", "1.0")
THEIRS = {"type": "command", "command": "/home/u/their-hook"}
HOOK_HOSTS = ("zcode", "claude-code")


def groups(host, version="1.0"):
    one = hook(Program(PROGRAM.python, PROGRAM.script, version), host)
    return {"Stop": [{"hooks": [one]}], "PostToolUse": [{"matcher": "Read", "hooks": [one]}]}


def nest(events, host):
    return {"hooks": {"enabled": True, "events": events}} if host == "zcode" else {"hooks": events}


@pytest.mark.parametrize("host", HOOK_HOSTS)
def test_hooks_are_put_beside_others_and_taken_out_again(host):
    """Theirs stay, in their order; a second time changes nothing."""
    shape = SHAPES[host]
    before = {
        "theme": "dark",
        **nest({"Stop": [{"hooks": [THEIRS]}], "Notification": [{"matcher": "", "hooks": [THEIRS]}]}, host),
    }
    kept = copy.deepcopy(before)
    made = with_hooks("f", before, shape, groups(host))
    assert before == kept
    assert hooks_in("f", made, shape) == groups(host)
    assert with_hooks("f", made, shape, groups(host)) is made
    newer = with_hooks("f", made, shape, groups(host, "2.0"))
    assert hooks_in("f", newer, shape) == groups(host, "2.0")
    assert without_hooks("f", newer, shape, before) == before


@pytest.mark.parametrize("host", HOOK_HOSTS)
def test_a_hook_of_ours_within_their_group_is_taken_alone(host):
    """A person may have moved it."""
    shape = SHAPES[host]
    ours = hook(PROGRAM, host)
    value = nest({"Stop": [{"matcher": "x", "hooks": [THEIRS, ours]}]}, host)
    assert without_hooks("f", value, shape, value) == nest(
        {"Stop": [{"matcher": "x", "hooks": [THEIRS]}]}, host
    )


def test_zcodes_switch():
    """Made where it is missing, taken with us where it was ours, left alone where a person has set it."""
    shape = SHAPES["zcode"]
    made = with_hooks("f", {}, shape, groups("zcode"))
    assert made["hooks"]["enabled"] is True
    assert without_hooks("f", made, shape) == {}
    off = {"hooks": {"enabled": False}}
    made = with_hooks("f", off, shape, groups("zcode"))
    assert is_switched_off(made, shape)
    assert without_hooks("f", made, shape, off) == off
    on = {"hooks": {"enabled": True, "timeoutMs": 5}}
    assert without_hooks("f", with_hooks("f", on, shape, groups("zcode")), shape, on) == on


@pytest.mark.parametrize("client", ["zcode", "claude-code", "pi", "omp"])
def test_a_server_is_put_in_and_taken_out(client):
    """Under our name; what a person added to the entry stays."""
    shape = SHAPES[client]
    wanted = server(PROGRAM, client, news=False, write=False)
    before = {"a": 1}
    made = with_server("f", before, shape, wanted)
    entry = server_in("f", made, shape)
    assert entry["args"] == ["-P", "-m", "zcsyncd", "mcp", "--no-news"]
    assert ("exposure" in entry) == (client == "pi")
    assert has_ours("f", made, shape)
    entry["enabled"] = False
    again = with_server("f", made, shape, server(PROGRAM, client, news=True, write=True))
    assert server_in("f", again, shape)["enabled"] is False
    assert server_in("f", again, shape)["args"][-1] == "--write"
    assert without_server("f", again, shape) == before
    assert not has_ours("f", before, shape)


@pytest.mark.parametrize(
    "value",
    [
        {"hooks": []},
        {"hooks": "x"},
        {"hooks": {"Stop": {}}},
        {"hooks": {"Stop": "x"}},
    ],
)
def test_another_shape_is_refused(value):
    """Nobody knows what it means."""
    for act in (
        lambda: with_hooks("/x/s.json", value, SHAPES["claude-code"], groups("claude-code")),
        lambda: hooks_in("/x/s.json", value, SHAPES["claude-code"]),
    ):
        with pytest.raises(Refused, match=r"/x/s\.json"):
            act()
    with pytest.raises(Refused, match=r"mcp\.servers"):
        with_server("f", {"mcp": {"servers": 5}}, SHAPES["zcode"], {})


@pytest.mark.parametrize(
    "odd", [None, 5, "x", {}, {"command": 5}, {"args": "run_hook.py"}, {"command": "/x/run_hook.py"}]
)
def test_what_is_not_ours(odd):
    """Nor what is no hook at all."""
    assert not is_ours(odd)


def test_ours_on_windows():
    """With its separators."""
    program = Program("C:\\py\\python.exe", "C:\\lib\\zcsyncd\\plugins\\run_hook.py", "1", platform="win32")
    for host in HOOK_HOSTS:
        assert is_ours(hook(program, host))
    assert "\\" not in hook(program, "claude-code")["command"]


ODD_GROUPS = st.lists(st.fixed_dictionaries({"hooks": st.lists(st.just(THEIRS), max_size=2)}), max_size=2)


@given(
    st.dictionaries(st.sampled_from(["Stop", "PostToolUse", "Other"]), ODD_GROUPS),
    st.sampled_from(HOOK_HOSTS),
)
def test_whatever_is_there_comes_back(events, host):
    """In and out again leaves what was there; only an event without any group may be gone."""
    shape = SHAPES[host]
    before = nest(events, host)
    made = without_hooks("f", with_hooks("f", before, shape, groups(host)), shape, before)
    plain = {event: each for event, each in events.items() if each}
    place = made.get("hooks", {}).get("events", {}) if host == "zcode" else made.get("hooks", {})
    assert {event: each for event, each in place.items() if each} == plain
