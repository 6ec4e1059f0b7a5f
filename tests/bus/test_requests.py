"""The table: what is checked, how mistakes are told, what `describe` gives."""

from __future__ import annotations

import json
import sys

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.bus.client import PATIENCE_S
from zcsyncd.bus.limits import LINE_BYTES
from zcsyncd.bus.requests import METHODS, TOPICS, check_params, describe
from zcsyncd.errors import InvalidParams, UnknownMethod

HERE = "C:\\m" if sys.platform == "win32" else "/m"

BUILT = {
    "hello", "ping", "describe", "status", "dirs.list", "dirs.resolve", "dirs.allow", "memory.list", "memory.read",
    "memory.index", "memory.write", "memory.forget", "memory.search", "memory.repair", "history.list", "history.show",
    "history.restore", "history.undo", "history.purge", "audit.get", "audit.dismiss", "events.subscribe",
    "events.unsubscribe", "daemon.flush", "daemon.reload", "daemon.probe", "daemon.stop", "session.list", "session.news", "session.confirm", "session.end",
    "readState.report", "readState.check", "write.intent",
}  # fmt: skip


def test_the_table_is_what_is_built() -> None:
    """No method is promised that does not exist yet."""
    assert set(METHODS) == BUILT


@pytest.mark.parametrize(
    "method", ["", "memory.erase", "session.begin", "daemon.restart", "Ping", "__class__", "x" * 5000]
)
def test_unknown_methods(method: str) -> None:
    """What is not in the table is unknown-method, in a short message."""
    with pytest.raises(UnknownMethod) as caught:
        check_params(method, {})
    assert len(caught.value.message) < 200


FACT = {"name": "a", "description": "what", "type": "user", "body": "text\n", "mode": "upsert"}

GOOD = [
    ("ping", {}, {}),
    ("ping", {"unknown": 1}, {}),
    ("hello", {}, {"protocol": [1]}),
    (
        "hello",
        {"session": {"host": "pi", "id": "1", "cwd": HERE, "later": True}, "client": {"name": "x", "pid": 3}},
        {
            "protocol": [1],
            "client": {"name": "x", "pid": 3},
            "session": {"host": "pi", "id": "1", "cwd": HERE, "reason": "attach", "scope": "session"},
        },
    ),
    (
        "hello",
        {"session": {"host": "pi", "id": "1", "cwd": HERE, "env": {"A": "b"}, "dirs": [HERE], "parent": None}},
        {
            "protocol": [1],
            "session": {
                "host": "pi", "id": "1", "cwd": HERE, "reason": "attach", "scope": "session", "env": {"A": "b"}, "dirs": [HERE],
            },
        },
    ),
    ("dirs.list", {}, {"limit": 500, "offset": 0}),
    ("dirs.list", {"limit": 5.0, "layout": "zcode"}, {"limit": 5, "offset": 0, "layout": "zcode"}),
    ("dirs.resolve", {"cwd": HERE}, {"cwd": HERE}),
    ("dirs.allow", {"dir": HERE, "allow": False}, {"dir": HERE, "allow": False}),
    ("memory.read", {"name": "a"}, {"name": "a", "full": False, "why": False}),
    ("memory.read", {"name": "a", "why": True}, {"name": "a", "full": False, "why": True}),
    ("memory.write", {**FACT, "dir": HERE, "ifRevision": "mtime:-1:size:0"}, {**FACT, "dir": HERE, "ifRevision": "mtime:-1:size:0"}),
    ("memory.write", {**FACT, "body": "", "ifRevision": None}, {**FACT, "body": ""}),
    ("memory.write", {**FACT, "body": "x" * 600_000}, {**FACT, "body": "x" * 600_000}),  # its handler says too-large
    ("memory.forget", {"name": "a"}, {"name": "a", "purge": False}),
    ("memory.search", {"query": "\u8bb0"}, {"query": "\u8bb0", "limit": 20}),
    ("memory.repair", {}, {"apply": False}),
    ("memory.repair", {"codes": ["entry-lost"], "keys": []}, {"apply": False, "codes": ["entry-lost"], "keys": []}),
    ("history.list", {"file": "sub/a.md"}, {"file": "sub/a.md", "limit": 100}),
    ("history.show", {"saved": 7.0}, {"saved": 7}),
    ("history.restore", {"saved": 7}, {"saved": 7}),
    ("history.undo", {"cwd": HERE}, {"cwd": HERE}),
    ("history.purge", {"before": "2026-11-30T16:21:00.5+02:00"}, {"before": "2026-11-30T16:21:00.5+02:00"}),
    ("history.purge", {}, {}),
    ("memory.list", {"dir": None, "type": "user"}, {"type": "user", "limit": 500, "offset": 0}),
    ("audit.get", {}, {"fresh": False, "severity": "warning", "limit": 500, "offset": 0}),
    ("audit.dismiss", {"key": "k"}, {"key": "k", "undo": False}),
    ("events.subscribe", {}, {"topics": ["*"]}),
    ("events.subscribe", {"since": "9f:1", "topics": ["a/*"]}, {"topics": ["a/*"], "since": "9f:1"}),
    ("daemon.flush", {}, {"rescan": False}),
    ("session.list", {}, {"limit": 500, "offset": 0}),
    ("session.news", {}, {"commit": False}),
    ("session.news", {"commit": True}, {"commit": True}),
    ("session.confirm", {"told": False, "token": None}, {"told": False}),
    ("session.confirm", {"told": True, "token": "t"}, {"told": True, "token": "t"}),
    ("session.end", {}, {}),
    (
        "readState.report",
        {"path": HERE, "kind": "partial", "range": [1.0, 200], "contentHash": None, "mtimeMs": -1, "sizeBytes": 0},
        {"path": HERE, "kind": "partial", "range": [1, 200], "mtimeMs": -1, "sizeBytes": 0},
    ),
    ("readState.check", {"paths": []}, {"paths": []}),
    ("readState.check", {"paths": [HERE, HERE]}, {"paths": [HERE, HERE]}),
    ("write.intent", {"path": HERE}, {"path": HERE, "ttlMs": 5000}),
    (
        "write.intent",
        {"path": HERE, "baseRevision": "mtime:1:size:2", "ttlMs": 60_000},
        {"path": HERE, "baseRevision": "mtime:1:size:2", "ttlMs": 60_000},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "params", "expected"), GOOD)
def test_good_params(method: str, params: dict[str, object], expected: dict[str, object]) -> None:
    """Defaults are filled in, unknown members and null options left out."""
    assert check_params(method, params) == expected


BAD = [
    ("hello", {"protocol": 1}, "protocol", "an array of 1 to 64 items (each an integer)", "a number"),
    ("hello", {"protocol": []}, "protocol", "an array of 1 to 64 items (each an integer)", "0 items"),
    ("hello", {"protocol": ["1"]}, "protocol[0]", "an integer", "a string"),
    ("hello", {"session": "x"}, "session", "an object", "a string"),
    ("hello", {"session": {"host": "pi", "id": "1"}}, "session.cwd", "an absolute path", "nothing"),
    ("hello", {"session": {"host": "pi", "id": 1, "cwd": HERE}}, "session.id", "a string of 1 to 256 characters", "a number"),
    (
        "hello",
        {"session": {"host": "pi", "id": "1", "cwd": HERE, "reason": "restart"}},
        "session.reason",
        "one of start, attach, compact, fork",
        "'restart'",
    ),
    (
        "hello",
        {"session": {"host": "pi", "id": "1", "cwd": HERE, "env": {"A": 1}}},
        "session.env.A",
        "a string of 0 to 32767 characters",
        "a number",
    ),
    (
        "hello",
        {"session": {"host": "pi", "id": "1", "cwd": HERE, "env": {str(n): "" for n in range(65)}}},
        "session.env",
        "an object of at most 64 members",
        "65 members",
    ),
    ("dirs.list", {"limit": 501}, "limit", "an integer from 0 to 500", "501"),
    ("dirs.list", {"limit": "5"}, "limit", "an integer from 0 to 500", "a string"),
    ("dirs.list", {"limit": True}, "limit", "an integer from 0 to 500", "true"),
    ("dirs.list", {"limit": 1.5}, "limit", "an integer from 0 to 500", "a number"),
    ("dirs.list", {"offset": -1}, "offset", "an integer at least 0", "-1"),
    ("dirs.list", {"layout": "vim"}, "layout", "one of zcode, pi, claude-code, dsh, unknown", "'vim'"),
    ("dirs.resolve", {"cwd": "relative"}, "cwd", "an absolute path", "'relative'"),
    ("dirs.resolve", {"cwd": ""}, "cwd", "an absolute path", "0 characters"),
    ("dirs.resolve", {"cwd": HERE + "\0"}, "cwd", "an absolute path", "a path that no file system can hold"),
    ("dirs.resolve", {"cwd": 5}, "cwd", "an absolute path", "a number"),
    ("dirs.allow", {"dir": HERE}, "allow", "true or false", "nothing"),
    ("dirs.allow", {"dir": HERE, "allow": None}, "allow", "true or false", "null"),
    ("dirs.allow", {"dir": HERE, "allow": 1}, "allow", "true or false", "a number"),
    ("memory.read", {}, "name", "a string of 1 to 4096 characters", "nothing"),
    ("memory.read", {"name": ["x"]}, "name", "a string of 1 to 4096 characters", "an array"),
    ("memory.read", {"name": {}}, "name", "a string of 1 to 4096 characters", "an object"),
    ("memory.write", {**FACT, "mode": None}, "mode", "one of create, upsert", "null"),
    ("memory.write", {**FACT, "mode": "append"}, "mode", "one of create, upsert", "'append'"),
    ("memory.write", {**FACT, "type": "note"}, "type", "one of user, feedback, project, reference", "'note'"),
    ("memory.write", {**FACT, "description": ""}, "description", "a string of 1 to 32767 characters", "0 characters"),
    ("memory.write", {**FACT, "description": "x" * 32_768}, "description", "a string of 1 to 32767 characters", "32768 characters"),
    ("memory.write", {**FACT, "body": None}, "body", "a string", "null"),
    ("memory.write", {**FACT, "ifRevision": "3"}, "ifRevision", "a revision `mtime:<milliseconds>:size:<bytes>`", "'3'"),
    ("memory.search", {"query": ""}, "query", "a string of 1 to 1024 characters", "0 characters"),
    ("memory.search", {"query": "a", "limit": 101}, "limit", "an integer from 0 to 100", "101"),
    (
        "memory.repair", {"codes": "entry-lost"}, "codes", "an array of at most 64 items (each a string of 1 to 64 characters)", "a string",
    ),
    ("history.list", {"limit": 501}, "limit", "an integer from 0 to 500", "501"),
    ("history.show", {"saved": 0}, "saved", "an integer from 1 to 9007199254740991", "0"),
    ("history.show", {"saved": 2**63}, "saved", "an integer from 1 to 9007199254740991", str(2**63)),
    ("history.restore", {}, "saved", "an integer from 1 to 9007199254740991", "nothing"),
    ("history.purge", {"before": "yesterday"}, "before", "a time as `2026-11-30T16:21:00Z`", "'yesterday'"),
    ("history.purge", {"before": "2026-02-30T00:00:00Z"}, "before", "a time as `2026-11-30T16:21:00Z`", "'2026-02-30T00:00:00Z'"),
    ("history.purge", {"before": "0001-01-01T00:00:00Z"}, "before", "a time as `2026-11-30T16:21:00Z`", "'0001-01-01T00:00:00Z'"),
    ("audit.get", {"severity": "fatal"}, "severity", "one of error, warning, info", "'fatal'"),
    ("events.subscribe", {"topics": "*"}, "topics", "an array of 1 to 64 items (each a string of 1 to 128 characters)", "a string"),
    ("events.subscribe", {"dirs": ["x"]}, "dirs[0]", "an absolute path", "'x'"),
    ("events.subscribe", {"since": "yesterday"}, "since", "a cursor `<journal id>:<sequence>`", "'yesterday'"),
    ("events.subscribe", {"since": "a:1\n"}, "since", "a cursor `<journal id>:<sequence>`", "'a:1\\n'"),
    ("events.unsubscribe", {"subscription": 0}, "subscription", "an integer at least 1", "0"),
    ("session.confirm", {"token": "t"}, "told", "true or false", "nothing"),
    ("readState.report", {"path": HERE}, "kind", "one of full, partial, truncated", "nothing"),
    ("readState.report", {"path": HERE, "kind": "some"}, "kind", "one of full, partial, truncated", "'some'"),
    (
        "readState.report", {"path": HERE, "kind": "partial", "range": [1]}, "range",
        "an array of 2 items (each an integer at least 1)", "1 items",
    ),
    ("readState.report", {"path": HERE, "kind": "partial", "range": [0, 1]}, "range[0]", "an integer at least 1", "0"),
    (
        "readState.report", {"path": HERE, "kind": "full", "contentHash": "ab"}, "contentHash", "a SHA-256 in lower-case hex", "'ab'",
    ),
    ("readState.check", {"paths": HERE}, "paths", "an array of at most 500 items (each an absolute path)", "a string"),
    ("readState.check", {"paths": ["x"]}, "paths[0]", "an absolute path", "'x'"),
    ("write.intent", {"path": HERE, "ttlMs": 0}, "ttlMs", "an integer from 1 to 60000", "0"),
    ("write.intent", {"path": HERE, "baseRevision": "1"}, "baseRevision", "a revision `mtime:<milliseconds>:size:<bytes>`", "'1'"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "params", "name", "expected", "got"), BAD)
def test_bad_params(method: str, params: dict[str, object], name: str, expected: str, got: str) -> None:
    """A mistake is told with the parameter, what was expected and what came."""
    with pytest.raises(InvalidParams) as caught:
        check_params(method, params)
    assert caught.value.message == f"`{name}`: expected {expected}, got {got}"
    assert caught.value.data == {"parameter": name, "expected": expected}


@pytest.mark.skipif(sys.platform == "win32", reason="file names are UTF-16 there")
def test_paths_that_are_not_utf8() -> None:
    """A path with undecodable bytes is taken as the file system gave it; a surrogate that no bytes give is not."""
    assert check_params("dirs.resolve", {"cwd": "/caf\udce9"}) == {"cwd": "/caf\udce9"}
    with pytest.raises(InvalidParams):
        check_params("dirs.resolve", {"cwd": "/caf\ud800"})


@pytest.mark.parametrize(("method", "params"), [(row[0], row[1]) for row in BAD])
def test_jsonschema_agrees_that_bad_is_bad(method: str, params: dict[str, object]) -> None:
    """What we refuse, a client that checks by the described schema would refuse as well (paths are our format)."""
    validator = jsonschema.Draft202012Validator(METHODS[method].params)
    errors = list(validator.iter_errors(params))
    about_paths = any(word in json.dumps(params) for word in ("relative", "\\u0000", '["x"]'))
    assert (
        errors
        or about_paths
        or params.get("since") == "a:1\n"
        or params.get("before", "").startswith("2026-02-30")
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({name for method in METHODS.values() for name in method.params["properties"]})


@given(st.sampled_from(sorted(METHODS)), st.dictionaries(st.sampled_from(NAMES), json_values, max_size=6))
@settings(max_examples=150, deadline=None)
def test_anything_is_checked_or_refused(method: str, params: dict[str, object]) -> None:
    """Whatever comes, the answer is checked parameters that fit the schema, or one clear error."""
    told = None
    try:
        jsonschema.validate(check_params(method, params), METHODS[method].params)
    except InvalidParams as error:
        told = error.message
    assert told is None or (told.startswith("`") and "\n" not in told)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_schemas_are_json_schemas(name: str) -> None:
    """Every method's schemas are valid draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(METHODS[name].params)
    jsonschema.Draft202012Validator.check_schema(METHODS[name].result)


@pytest.mark.parametrize("name", sorted(TOPICS))
def test_topic_schemas_are_json_schemas(name: str) -> None:
    """Every topic's schema is valid draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(TOPICS[name].data)


def test_describe() -> None:
    """`describe` names every method, topic and error word, and fits on a line."""
    told = describe()
    text = json.dumps(told)
    assert len(text) < LINE_BYTES // 4
    assert set(told["methods"]) == BUILT
    assert "bus/gap" in told["topics"]
    assert told["errors"]["not-found"] == -32000
    jsonschema.validate(told, METHODS["describe"].result)


def test_defaults_are_not_shared() -> None:
    """Who changes the parameters that a handler got does not change the table."""
    topics = check_params("events.subscribe", {})["topics"]
    topics.append("x")
    assert check_params("events.subscribe", {})["topics"] == ["*"]


def test_the_client_is_patient_where_the_daemon_may_wait() -> None:
    """Methods that wait for the first scan, and those that may take a scan, are the ones the client waits longer for."""
    waiting = {name for name, method in METHODS.items() if method.waits_for_ready}
    assert set(PATIENCE_S) == waiting | {"daemon.flush", "daemon.stop"}


ABOUT_A_SESSION = {
    "session.news", "session.confirm", "session.end", "readState.report", "readState.check", "write.intent",
}  # fmt: skip


def test_what_is_about_a_session_says_so() -> None:
    """`describe` tells which methods need a session, so that a client knows it before it asks."""
    told = {name for name, method in describe()["methods"].items() if method["needsSession"]}
    assert told == ABOUT_A_SESSION


def test_example_answers_fit_their_schemas() -> None:
    """The answers that docs/protocol.md shows are what the table says."""
    hello = {
        "protocol": 1,
        "server": {"name": "zcsyncd", "version": "0.1.0", "pid": 99, "startedAt": "2026-11-30T16:21:00.123Z"},
        "cursor": "9f2c:1812",
        "dir": None,
        "ready": True,
        "limits": {"lineBytes": LINE_BYTES},
        "layouts": ["zcode"],
    }
    jsonschema.validate(hello, METHODS["hello"].result)
    jsonschema.validate({"reason": "journal-reset", "missed": None}, TOPICS["bus/gap"].data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**hello, "dir": 5}, METHODS["hello"].result)


ANSWERS = [
    ("memory.write", {"file": "a.md", "absolutePath": HERE, "action": "created", "index": "inserted", "revision": "mtime:1:size:2"}, ("action", "removed")),
    ("memory.forget", {"file": "a.md", "index": "removed", "saved": None}, ("saved", "7")),
    (
        "memory.search",
        {"hits": [{"dir": HERE, "file": "a", "name": None, "description": None, "score": 1.5, "line": None, "snippet": ""}], "complete": False},
        ("hits", [{}]),
    ),
    (
        "memory.repair",
        {
            "diff": "", "fixes": [{"key": "k", "code": "c", "file": "f", "does": "d", "line": 3}], "skipped": [], "applied": True,
            "revision": None, "saved": 3, "heldBy": [{"host": "pi", "id": "1"}], "diffCut": True,
        },
        ("heldBy", ["pi"]),
    ),
    (
        "history.list",
        {
            "versions": [
                {
                    "saved": 1, "file": "a", "at": "2026-11-30T16:21:00.123Z", "sizeBytes": 0, "contentHash": None, "reason": "write",
                    "mtimeMs": 0, "by": {"host": "pi", "id": "1"}, "batch": 2,
                },
            ],
        },
        ("versions", [{"saved": 1}]),
    ),
    ("history.show", {"dir": HERE, "file": "a", "text": "", "encoding": None}, ("text", None)),
    ("history.undo", {"files": [{"file": "a", "absolutePath": HERE, "action": "removed", "index": "removed", "revision": None}]}, ("files", [1])),
    ("history.purge", {"removed": 0}, ("removed", -1)),
    (
        "session.list",
        {
            "total": 1,
            "sessions": [
                {
                    "host": "pi", "id": "1", "cwd": HERE, "firstAt": "2026-11-30T16:21:00.123Z",
                    "lastContactAt": "2026-11-30T16:21:00.123Z", "index": "unread", "reads": 0, "news": 0,
                },
            ],
        },
        ("sessions", [{"host": "pi", "id": "1"}]),
    ),
    (
        "session.news",
        {
            "token": "1", "index": {"stale": False, "added": [], "changed": [], "removed": []},
            "changes": [{"dir": HERE, "kind": "renamed", "file": "b.md", "from": "a.md", "by": {"host": "pi", "id": "1"}}],
            "alarms": [], "text": "", "more": True,
        },
        ("changes", [{"kind": "added", "file": "a.md"}]),
    ),
    ("session.confirm", {"confirmed": True}, ("confirmed", None)),
    (
        "readState.check",
        {
            "states": [
                {"path": HERE, "state": "unread", "now": {"revision": "mtime:1:size:2", "contentHash": None}},
                {"path": HERE, "state": "gone", "read": {"revision": None, "contentHash": "0" * 64}, "now": None},
                {"path": HERE, "state": "stale", "stamp": True},
            ],
        },
        ("states", [{"path": HERE, "state": "new"}]),
    ),
    ("write.intent", {"stale": True, "conflicts": [{"host": "pi", "id": "1"}]}, ("conflicts", ["pi"])),
    (
        "memory.read",
        {
            "file": "a.md", "absolutePath": HERE, "name": "a", "description": None, "type": None, "body": "", "truncated": None, "sizeBytes": 0,
            "mtimeMs": 0, "revision": "mtime:0:size:0", "contentHash": "0" * 64,
            "visible": {"index": True, "prompt": True, "recall": False, "page": True},
            "reasons": [{"place": "recall", "seen": False, "reason": "too old", "code": "fact-not-recalled"}],
        },
        ("visible", {"index": 1}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "answer", "odd"), ANSWERS)
def test_answers_of_our_own_pen_have_one_shape(
    method: str, answer: dict[str, object], odd: tuple[str, object]
) -> None:
    """What a method answers is described; another kind of member is none of its answers."""
    jsonschema.validate(answer, METHODS[method].result)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer, odd[0]: odd[1]}, METHODS[method].result)
