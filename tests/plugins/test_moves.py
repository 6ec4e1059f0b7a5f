"""What a hook makes of an event, and of the daemon's answers: tables without a daemon."""

import pytest

from tests.plugins.hooks import OUTPUT, SPELLINGS, name_of, recorded
from zcsyncd.plugins.moves import (
    EVENTS,
    Event,
    Glance,
    Kept,
    asks_daemon,
    event_of,
    glance,
    outcome,
    questions,
)

MEMORY = "/home/u/.zcode/cli/memories/projects/app-0123456789abcdef/memory"
NOTHING = Kept()


def event(name="PostToolUse", tool="read", path=f"{MEMORY}/a.md", **more):
    return Event("zcode", name, "s-1", "/home/u/app", tool=tool, path=path, **more)


def methods(asked):
    return [method for method, _ in asked]


@pytest.mark.parametrize("host", ["zcode", "claude-code"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_recorded_event_is_understood(host, spelling):
    """In each spelling the same; what no hook of ours answers is none."""
    plain = [event_of(host, said, {}) for said in recorded("snake")]
    for said, expected in zip(recorded(spelling), plain, strict=True):
        got = event_of(host, said, {})
        assert (got is not None) == (name_of(said) in EVENTS)
        if got is not None:
            for name in ("host", "name", "session", "cwd", "source", "tool", "path"):
                assert getattr(got, name) == getattr(expected, name)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        {},
        {"hook_event_name": "Stop"},
        {"hook_event_name": "Stop", "session_id": "", "cwd": "/a"},
        {"hook_event_name": "Stop", "session_id": 5, "cwd": "/a"},
        {"hook_event_name": "Stop", "session_id": "x" * 300, "cwd": "/a"},
        {"hook_event_name": "Stop", "session_id": "s", "cwd": "relative"},
        {"hook_event_name": "SubagentStop", "session_id": "s", "cwd": "/a"},
        {"hook_event_name": "Stop", "session_id": "s", "cwd": "/a", "agent_id": "sub-1"},
    ],
)
def test_what_is_odd_is_no_event(said):
    """Nor what a sub-agent did: its reads are not the session's."""
    assert event_of("zcode", said, {}) is None


def test_the_environment_tells_the_project_and_the_session():
    """A shell may have gone elsewhere; another host's variables are not ours."""
    said = {"hookEventName": "Stop", "cwd": "/home/u/app/src"}
    env = {
        "ZCODE_PROJECT_DIR": "/home/u/app",
        "ZCODE_SESSION_ID": "z-1",
        "ZCODE_STORAGE_DIR": "/z",
        "OTHER": "1",
    }
    got = event_of("zcode", said, env)
    assert (got.cwd, got.session, got.env) == ("/home/u/app", "z-1", {"ZCODE_STORAGE_DIR": "/z"})
    assert event_of("claude-code", said, env) is None
    got = event_of("claude-code", {**said, "sessionId": "c-1"}, {**env, "CLAUDE_PROJECT_DIR": "nowhere"})
    assert (got.cwd, got.session, got.env) == ("/home/u/app/src", "c-1", {})


def test_a_host_that_has_no_hooks_is_none():
    """Only those that are known."""
    assert event_of("vim", {"hook_event_name": "Stop", "session_id": "s", "cwd": "/a"}, {}) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.md", "/home/u/app/a.md"),
        ("./memory/a.md", "/home/u/app/memory/a.md"),
        ("/x/a.md", "/x/a.md"),
        ("C:\\x\\a.md", "C:\\x\\a.md"),
        ("", ""),
    ],
)
def test_a_path_counts_from_the_working_directory(path, expected):
    """Models write relative ones, too."""
    said = {"hook_event_name": "PostToolUse", "session_id": "s", "cwd": "/home/u/app"}
    said |= {"tool_name": "Read", "tool_input": {"file_path": path}}
    assert event_of("zcode", said, {}).path == expected


@pytest.mark.parametrize(
    ("one", "kept", "asks"),
    [
        (event(path="/home/u/app/README.md"), NOTHING, False),
        (event(path="/home/u/app/src/main.py"), Kept("t", MEMORY), False),
        (event(path=""), NOTHING, False),
        (event(), NOTHING, True),
        (event(path="/home/u/app/.claude/Memory/a.md"), NOTHING, True),
        (event(path="/notes/of/mine/a.md"), NOTHING, False),
        (event(path="/notes/of/mine/a.md"), Kept("", "/notes/of/mine"), True),
        (event(tool="bash"), NOTHING, False),
        (event(tool="edit"), NOTHING, True),
        (event("PreToolUse", "read"), NOTHING, False),
        (event("PreToolUse", "write"), NOTHING, True),
        (event("Stop"), NOTHING, False),
        (event("Stop"), Kept("t"), True),
        (event("SessionStart"), NOTHING, True),
        (event("UserPromptSubmit"), NOTHING, True),
    ],
)
def test_the_daemon_is_asked_only_where_it_may_matter(one, kept, asks):
    """A tool outside of memory directories, and a stop with nothing to confirm, end at once."""
    assert asks_daemon(one, kept) is asks


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("startup", "start"),
        ("resume", "start"),
        ("clear", "start"),
        ("compact", "compact"),
        ("else", "attach"),
        ("", "attach"),
    ],
)
def test_a_start_says_hello_with_its_reason(source, reason):
    """And nothing else: what was said before it counts no more."""
    [(method, params)] = questions(event("SessionStart", source=source), Kept("t"), None, "1", 2)
    assert method == "hello"
    assert params["session"]["reason"] == reason


@pytest.mark.parametrize(
    ("one", "kept", "seen", "expected"),
    [
        (event("UserPromptSubmit"), NOTHING, None, ["hello", "session.news"]),
        (event("UserPromptSubmit"), Kept("t"), None, ["hello", "session.confirm", "session.news"]),
        (event("Stop"), Kept("t"), None, ["hello", "session.confirm"]),
        (event(), NOTHING, Glance("full"), ["hello", "readState.report", "session.news"]),
        (event(), NOTHING, None, ["hello", "session.news"]),
        (
            event(tool="write"),
            Kept("t"),
            Glance("full"),
            ["hello", "session.confirm", "write.intent", "readState.report", "session.news"],
        ),
        (
            event("PreToolUse", "write"),
            Kept("t"),
            None,
            ["hello", "session.confirm", "write.intent", "session.list"],
        ),
    ],
)
def test_what_is_asked_in_which_order(one, kept, seen, expected):
    """The news that were said before are confirmed first; a Stop does nothing else."""
    asked = questions(one, kept, seen, "1", 2)
    assert methods(asked) == expected
    assert asked[0][1]["session"]["reason"] == "attach"
    for method, params in asked:
        if method == "session.confirm":
            assert params == {"token": "t", "told": True}


def test_a_hook_beside_another_only_reports():
    """The one that was first says the news, and confirms those before."""
    asked = questions(event(tool="write"), Kept("t"), Glance("full"), "1", 2, speaks=False)
    assert methods(asked) == ["hello", "write.intent", "readState.report"]
    assert methods(questions(event("UserPromptSubmit"), Kept("t"), None, "1", 2, speaks=False)) == ["hello"]


READ = {
    "type": "text",
    "file": {"filePath": "x", "content": "a\nb\n", "numLines": 2, "startLine": 1, "totalLines": 2},
}


@pytest.mark.parametrize(
    ("told", "given", "expected"),
    [
        ({}, {}, ("full", None)),
        ({"offset": 3, "limit": 2}, {}, ("partial", (3, 4))),
        ({"limit": 2}, {}, ("partial", (1, 2))),
        ({"offset": 3}, {}, ("partial", None)),
        ({}, READ, ("full", None)),
        ({"limit": 500}, READ, ("full", None)),
        ({}, {"file": {**READ["file"], "totalLines": 90}}, ("partial", (1, 2))),
        ({"offset": 5}, {"file": {"startLine": 5, "numLines": 3, "totalLines": 9}}, ("partial", (5, 7))),
        ({}, {"truncated": True}, ("truncated", None)),
        ({}, {"file": {"truncated": True}}, ("truncated", None)),
        ({"offset": "x", "limit": True}, {"file": "odd"}, ("full", None)),
    ],
)
def test_how_much_was_read(told, given, expected):
    """What the answer shows counts more than what was asked for."""
    seen = glance(event(told=told, given=given), 5, 4, b"a\nb\n")
    assert (seen.kind, seen.lines) == expected


@pytest.mark.parametrize(
    ("tool", "told", "given", "raw", "same"),
    [
        ("read", {}, READ, b"a\nb\n", True),
        ("read", {}, READ, b"a\r\nb", True),
        ("read", {}, READ, b"\xef\xbb\xbfa\nb\n", True),
        ("read", {}, READ, b"a\nother\n", False),
        ("read", {}, {}, b"anything", True),
        ("write", {"content": "x\n"}, {}, b"x\n", True),
        ("write", {"content": "x\n"}, {}, b"y\n", False),
        ("write", {"content": "x\n"}, {}, None, True),
        ("edit", {"new_string": "x"}, {}, b"y\n", True),
    ],
)
def test_what_is_no_longer_on_disk_is_reported_without_a_stamp(tool, told, given, raw, same):
    """The daemon takes what is there now for unread."""
    seen = glance(event(tool=tool, told=told, given=given), 5, 4, raw)
    assert (seen.mtime_ms, seen.size_bytes) == ((5, 4) if same else (None, None))


HELLO = {"dir": MEMORY}


def test_news_are_said_and_wait_for_the_next_hook():
    """The token is kept with them; what was confirmed is not kept."""
    answers = {"hello": HELLO, "session.confirm": {}, "session.news": {"token": "t2", "text": "News."}}
    for name in ("UserPromptSubmit", "PostToolUse"):
        found = outcome(event(name), Kept("t1"), answers)
        OUTPUT.validate(found.output)
        assert found.output["hookSpecificOutput"] == {"hookEventName": name, "additionalContext": "News."}
        assert found.kept == Kept("t2", MEMORY)


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_news_say_nothing(text):
    """Not even an empty object."""
    found = outcome(
        event("UserPromptSubmit"), Kept("t1"), {"hello": HELLO, "session.news": {"token": "t2", "text": text}}
    )
    assert (found.output, found.kept) == (None, Kept("t2", MEMORY))


def test_a_confirmation_that_failed_is_tried_again():
    """The token stays where the daemon did not take it."""
    assert outcome(event("Stop"), Kept("t1"), {"hello": HELLO}).kept == Kept("t1", MEMORY)
    assert outcome(event("Stop"), Kept("t1"), {"hello": HELLO, "session.confirm": {}}).kept == Kept(
        "", MEMORY
    )
    assert outcome(event("SessionStart"), Kept("t1"), {"hello": HELLO}).kept == Kept("", MEMORY)


@pytest.mark.parametrize(
    ("path", "tool", "stale", "index", "asks"),
    [
        (f"{MEMORY}/MEMORY.md", "write", True, "current", True),
        (f"{MEMORY}/MEMORY.md", "write", False, "stale", True),
        (f"{MEMORY}/MEMORY.md", "write", False, "current", False),
        (f"{MEMORY}/MEMORY.md", "edit", True, "stale", False),
        (f"{MEMORY}/a.md", "write", True, "stale", False),
        ("/else/memory/MEMORY.md", "write", False, "stale", False),
    ],
)
def test_the_person_is_asked_before_an_outdated_index_is_written_over(path, tool, stale, index, asks):
    """Whole files only, and never a no."""
    answers = {
        "hello": HELLO,
        "write.intent": {"stale": stale, "conflicts": []},
        "session.list": {"sessions": [{"index": index}]},
    }
    output = outcome(event("PreToolUse", tool, path), NOTHING, answers).output
    assert (output is not None) == asks
    if output is not None:
        OUTPUT.validate(output)


@pytest.mark.parametrize(
    "answers",
    [
        {"hello": {}},
        {"hello": {"dir": None}, "session.list": {"sessions": "x"}},
        {"hello": {"dir": 5}, "session.news": {"text": 5}},
    ],
)
@pytest.mark.parametrize("name", EVENTS)
def test_odd_answers_say_nothing(name, answers):
    """A daemon of another version may leave out what we look for."""
    assert outcome(event(name, "write", f"{MEMORY}/MEMORY.md"), NOTHING, answers).output is None
