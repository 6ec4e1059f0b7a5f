"""The table of what can be asked and what is told: methods and topics with their JSON Schemas. Pure.

Rule 1: the table is the protocol (docs/protocol.md says the same in words): a method that is not in it does not
exist, and `describe` gives it to clients as it stands.
Rule 2: members that the table does not know are left out, so that a newer client can talk to us.
Rule 3: a mistake is told with the parameter's name, what was expected, and what came.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from zcsyncd import errors
from zcsyncd.bus.events import CURSOR_PATTERN
from zcsyncd.bus.limits import LINE_BYTES, PAGE, PROTOCOL, SUBSCRIPTIONS
from zcsyncd.errors import InvalidParams, UnknownMethod

Schema = dict[str, object]
"""A JSON Schema (draft 2020-12) of the few keywords that `_check` knows. `format: path` is ours: an absolute path
in the system's own spelling, as a file system can hold it."""

REVISION_PATTERN = "^mtime:-?[0-9]+:size:[0-9]+$"
TIME_PATTERN = (
    r"^(19[7-9]|2[0-9]{2})[0-9](-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
"""RFC 3339, from 1970 on: every time that passes can be told in milliseconds."""

HASH_PATTERN = "^[0-9a-f]{64}$"

BODY_BYTES = 524_288
"""Largest body of a fact that `memory.write` takes, as UTF-8: half a line, so that JSON's escapes have room, too."""
DIFF_BYTES = 700_000
"""A longer diff of `memory.repair` is cut: the rest of the answer has to fit on its line, too."""
SEARCH_HITS = 100
"""Most hits of one search: who needs more needs another question."""

LAYOUTS = ("zcode", "pi", "claude-code", "dsh", "unknown")
SEVERITIES = ("error", "warning", "info")
TYPES = ("user", "feedback", "project", "reference")
PLACES = ("index", "prompt", "recall", "page")
"""Where a fact may be seen: in the index, in the part of it that the model gets, in recall's list, on ZCode's page."""
REASONS = ("updated", "file", "deleted", "renamed", "write", "forget", "repair", "restore")
"""What a saved version was replaced by: another pen (the first four), or an act of ours."""
READS = ("full", "partial", "truncated")
"""How much of a file a session has read: all, some lines of it, or what the host's own caps left of it."""
STATES = ("current", "stale", "truncated", "partial", "unread", "gone")
"""How what a session has read stands to what is on disk."""
CHECKED_PATHS = PAGE
"""Most paths of one `readState.check`."""
INTENT_MS = 60_000
"""Longest that an announced write stays announced: who takes longer announces it again."""


# -- words of the schemas -------------------------------------------------------------------------------------


def _say(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _or_null(schema: Schema) -> Schema:
    kinds: dict[str, object] = {"type": [schema["type"], "null"]}
    if "enum" in schema:
        allowed = schema["enum"]
        kinds["enum"] = [*allowed, None] if isinstance(allowed, list) else allowed
    return {**schema, **kinds}


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    made: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        made["required"] = list(required)
    return made


def _array(items: Schema, **bounds: object) -> Schema:
    return {"type": "array", "items": items, **bounds}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def _text(most: int, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def _with_default(schema: Schema, value: object) -> Schema:
    return {**schema, "default": value}


_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_PATH: Schema = {"type": "string", "format": "path", "minLength": 1, "maxLength": 32_767}
_TIME: Schema = {"type": "string", "format": "date-time"}
_HASH: Schema = {"type": "string", "pattern": HASH_PATTERN}
_REVISION: Schema = {"type": "string", "pattern": REVISION_PATTERN}
_MOMENT: Schema = {"type": "string", "format": "date-time", "pattern": TIME_PATTERN}
_SAVED: Schema = _say(
    {"type": "integer", "minimum": 1, "maximum": 9_007_199_254_740_991}, "number of a saved version"
)
_FACT_NAME: Schema = _say(_text(4_096), "exact file name, file name without .md, or the front matter's name")
_FILE: Schema = _say(_text(4_096), "relative to the directory, with `/`")
_CURSOR: Schema = _say({"type": "string", "pattern": CURSOR_PATTERN}, "<journal id>:<sequence>")
_NOTHING: Schema = _object({})

_COUNTS = _object(dict.fromkeys(SEVERITIES, _COUNT))
_SESSION_NAME = _object({"host": _STRING, "id": _STRING})
_LINES: Schema = _say(
    _array({"type": "integer", "minimum": 1}, minItems=2, maxItems=2), "first and last line, counted from 1"
)

_WHERE: dict[str, Schema] = {
    "dir": _say(_PATH, "a memory directory; with neither `dir` nor `cwd` the session's"),
    "cwd": _say(_PATH, "a working directory, resolved as dirs.resolve does; `dir` goes first"),
}
_PAGING: dict[str, Schema] = {
    "limit": _with_default({"type": "integer", "minimum": 0, "maximum": PAGE}, PAGE),
    "offset": _with_default(_COUNT, 0),
}

FINDING = _object(
    {
        "key": _STRING,
        "code": _STRING,
        "severity": _one_of(*SEVERITIES),
        "dir": _PATH,
        "message": _STRING,
        "fixable": _BOOLEAN,
        "since": _TIME,
        "pending": _BOOLEAN,
        "dismissed": _BOOLEAN,
    },
    {
        "file": _or_null(_STRING),
        "target": _or_null(_STRING),
        "line": _or_null(_INTEGER),
        "hint": _or_null(_STRING),
        "by": _say(_SESSION_NAME, "whose write brought it about, where that is known"),
    },
)
"""One thing that the audit says."""

_CHANGED: dict[str, Schema] = {
    "kind": _one_of("added", "updated", "renamed", "deleted", "removed", "file"),
    "file": _STRING,
}
_CHANGED_TO: dict[str, Schema] = {
    "unit": _array(_STRING),
    "from": {"type": ["string", "array"]},
    "name": _or_null(_STRING),
    "description": _or_null(_STRING),
    "type": _or_null(_STRING),
    "revision": _or_null(_REVISION),
    "contentHash": _or_null(_HASH),
}

CHANGE = _object(_CHANGED, _CHANGED_TO)
"""One file that is not what it was."""
NEWS_CHANGE = _object(
    {"dir": _PATH, **_CHANGED},
    {
        **_CHANGED_TO,
        "updated": _say(_BOOLEAN, "with `renamed`: it says something else, too"),
        "by": _say(_SESSION_NAME, "who wrote it last, where that is known"),
    },
)
"""The same, told by `session.news`: since the session was told last, and with its directory."""

_ENTRY = _object({"target": _STRING, "title": _STRING, "hook": _STRING, "line": _INTEGER})

_MORE: Schema = _say(_BOOLEAN, "true: there is more of it than fits an event")
_WAS_READ = _object({"revision": _or_null(_REVISION), "contentHash": _or_null(_HASH)})
"""What a session has read; null where the host did not tell."""
_IS_NOW = _object({"revision": _REVISION, "contentHash": _or_null(_HASH)})
_STAMP: Schema = _say(_BOOLEAN, "true: other bytes, same meaning (ZCode has set a stamp in the front matter)")


# -- the table ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """One thing that can be asked."""

    summary: str
    params: Schema = field(default_factory=lambda: _NOTHING)
    result: Schema = field(default_factory=lambda: _NOTHING)
    waits_for_ready: bool = False
    """It is about memory: it waits for the first scan, at most limits.READY_WAIT_S, then it is `not-ready`."""
    needs_session: bool = False
    """It is about the session of the connection: `refused` before a `hello` with one."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that is told."""

    summary: str
    data: Schema = field(default_factory=lambda: _NOTHING)


_HELLO = Method(
    "say who speaks and agree on a version",
    _object(
        {},
        {
            "protocol": _with_default(_array(_INTEGER, minItems=1, maxItems=64), [PROTOCOL]),
            "client": _object({}, {"name": _text(256), "version": _text(256), "pid": _COUNT}),
            "session": _object(
                {"host": _text(64), "id": _text(256), "cwd": _PATH},
                {
                    "reason": _with_default(_one_of("start", "attach", "compact", "fork"), "attach"),
                    "parent": _say(_text(256), "id of the session that a fork comes from"),
                    "dirs": _array(_PATH, maxItems=PAGE),
                    "env": {"type": "object", "additionalProperties": _text(32_767, 0), "maxProperties": 64},
                    "scope": _with_default(_one_of("session", "all"), "session"),
                },
            ),
        },
    ),
    _object(
        {
            "protocol": _INTEGER,
            "server": _object(
                {"name": _STRING, "version": _STRING, "pid": _INTEGER, "startedAt": _TIME},
                {"packageSkew": _say(_or_null(_STRING), "as in `status`")},
            ),
            "cursor": _CURSOR,
            "dir": _say(_or_null(_PATH), "the session's memory directory, if there is one"),
            "ready": _say(_BOOLEAN, "false while the first scan runs"),
            "limits": _object({"lineBytes": _INTEGER}),
            "layouts": _array(_STRING),
        }
    ),
)

_STATUS = Method(
    "how the daemon does",
    result=_object(
        {
            "daemon": _object(
                {
                    "version": _STRING,
                    "pid": _INTEGER,
                    "uptimeS": _NUMBER,
                    "rssBytes": _or_null(_COUNT),
                    "ready": _BOOLEAN,
                    "watcher": _say(_STRING, "what tells of changes: inotify, polling, …"),
                    "degraded": _array(_object({"base": _STRING, "reason": _STRING})),
                    "lastEventAt": _or_null(_TIME),
                    "lastScanAt": _or_null(_TIME),
                    "driftFound": _say(_COUNT, "changes that only a rescan found"),
                    "packageSkew": _say(
                        _or_null(_STRING),
                        "version of the package that is installed now, if it is not the running one",
                    ),
                    "startedAt": _TIME,
                },
                {
                    "trees": _say(
                        _array(
                            _object(
                                {
                                    "layout": _STRING,
                                    "base": _STRING,
                                    "exists": _BOOLEAN,
                                    "kind": _STRING,
                                    "watches": _COUNT,
                                    "lastEventAt": _or_null(_TIME),
                                    "reason": _or_null(_STRING),
                                },
                                {
                                    "lastScanAt": _or_null(_TIME),
                                    "drift": _say(_COUNT, "changes that only a rescan found here"),
                                },
                            )
                        ),
                        "what is watched, and how; not told to a session",
                    ),
                    "complaints": _say(_array(_STRING), "what is wrong in settings; not told to a session"),
                    "variables": _say(
                        {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
                        "variables that move places, as the daemon has them; not told to a session",
                    ),
                },
            ),
            "bus": _object(
                {
                    "address": _STRING,
                    "connections": _COUNT,
                    "subscriptions": _COUNT,
                    "published": _COUNT,
                    "dropped": _COUNT,
                }
            ),
            "counts": _object({"directories": _COUNT, "facts": _COUNT, "findings": _COUNTS}),
            "asked": _say(
                _array(_object({"dir": _PATH, "reason": _STRING})), "directories that wait for dirs.allow"
            ),
            "jobs": _array(
                _object(
                    {
                        "name": _STRING,
                        "nextRunAt": _or_null(_TIME),
                        "lastRunAt": _or_null(_TIME),
                        "lastError": _or_null(_STRING),
                    }
                )
            ),
            "environment": _say(
                _array(
                    _object(
                        {"name": _STRING, "host": _STRING, "session": _STRING, "daemon": _or_null(_STRING)}
                    )
                ),
                "variables that sessions have set differently from the daemon",
            ),
        }
    ),
)

_DIRS_LIST = Method(
    "the memory directories that are kept",
    _object({}, {"layout": _one_of(*LAYOUTS), **_PAGING}),
    _object(
        {
            "total": _COUNT,
            "dirs": _array(
                _object(
                    {
                        "dir": _PATH,
                        "layout": _one_of(*LAYOUTS),
                        "label": _STRING,
                        "cwds": _array(_PATH),
                        "aliases": _array(_PATH),
                        "facts": _COUNT,
                        "entries": _COUNT,
                        "findings": _COUNTS,
                        "revision": _say(_or_null(_REVISION), "the index's; null without one"),
                        "changedAt": _or_null(_TIME),
                    }
                )
            ),
        }
    ),
    waits_for_ready=True,
)

_DIRS_RESOLVE = Method(
    "which memory directory belongs to a working directory",
    _object({}, {"cwd": _say(_PATH, "without it the session's"), "layout": _one_of(*LAYOUTS)}),
    _object(
        {
            "dir": _or_null(_PATH),
            "computedDir": _PATH,
            "source": _one_of("config", "computed", "only-match", "none"),
            "others": _say(_array({}), "directories of the same cwd in other layouts"),
            "warnings": _array({}),
        }
    ),
)

_MEMORY_LIST = Method(
    "the facts of a directory",
    _object(
        {}, {**_WHERE, **_PAGING, "type": _one_of(*TYPES), "sort": _one_of("name", "file", "mtime", "size")}
    ),
    _object(
        {
            "dir": _PATH,
            "total": _COUNT,
            "facts": _array(
                _object(
                    {
                        "file": _STRING,
                        "name": _or_null(_STRING),
                        "description": _or_null(_STRING),
                        "type": _or_null(_STRING),
                        "mtimeMs": _INTEGER,
                        "sizeBytes": _COUNT,
                        "revision": _REVISION,
                        "indexed": _BOOLEAN,
                        "recalled": _BOOLEAN,
                        "malformed": _BOOLEAN,
                    }
                )
            ),
        }
    ),
    waits_for_ready=True,
)

_MEMORY_READ = Method(
    "one fact",
    _object(
        {"name": _FACT_NAME},
        {
            **_WHERE,
            "full": _with_default(_say(_BOOLEAN, "not cut as the host would cut it"), False),
            "why": _with_default(_say(_BOOLEAN, "tell where it is seen, and for which reasons"), False),
        },
    ),
    _object(
        {
            "file": _STRING,
            "absolutePath": _PATH,
            "name": _or_null(_STRING),
            "description": _or_null(_STRING),
            "type": _or_null(_STRING),
            "body": _STRING,
            "truncated": _or_null(_one_of("lines", "bytes", "both")),
            "sizeBytes": _COUNT,
            "mtimeMs": _INTEGER,
            "revision": _REVISION,
            "contentHash": _HASH,
        },
        {
            "encoding": _say(_STRING, "only when it is not UTF-8"),
            "restLine": _say(_INTEGER, "line of the file with which the part that was cut off begins"),
            "visible": _say(_object(dict.fromkeys(PLACES, _BOOLEAN)), "with `why`: where it is seen"),
            "reasons": _say(
                _array(
                    _object(
                        {"place": _one_of(*PLACES), "seen": _BOOLEAN, "reason": _STRING},
                        {"code": _or_null(_STRING), "line": _or_null(_INTEGER), "hint": _or_null(_STRING)},
                    )
                ),
                "with `why`: for which reasons",
            ),
        },
    ),
    waits_for_ready=True,
)

_MEMORY_INDEX = Method(
    "the index as the host puts it before its model",
    _object({}, _WHERE),
    _object(
        {
            "text": _STRING,
            "truncated": _BOOLEAN,
            "lines": _COUNT,
            "units": _say(_COUNT, "UTF-16 code units"),
            "textHash": _or_null(_HASH),
            "contentHash": _or_null(_HASH),
            "revision": _or_null(_REVISION),
        }
    ),
    waits_for_ready=True,
)

_WRITTEN = {
    "file": _STRING,
    "absolutePath": _PATH,
    "index": _say(_one_of("inserted", "updated", "unchanged", "removed"), "what became of its entry"),
}

_MEMORY_WRITE = Method(
    "write a fact and its entry",
    _object(
        {
            "name": _say(_text(4_096), "finds a fact as memory.read does, else it becomes the file's name"),
            "description": _say(_text(32_767), "line breaks become blanks"),
            "type": _one_of(*TYPES),
            "body": _say(_STRING, f"at most {BODY_BYTES} bytes as UTF-8"),
            "mode": _say(_one_of("create", "upsert"), "create: `already-exists` when it does"),
        },
        {**_WHERE, "ifRevision": _say(_REVISION, "a `revision-conflict` unless the fact has this one")},
    ),
    _object(
        {
            **_WRITTEN,
            "action": _one_of("created", "overwrote"),
            "index": _one_of("inserted", "updated", "unchanged"),
            "revision": _REVISION,
        }
    ),
    waits_for_ready=True,
)

_MEMORY_FORGET = Method(
    "take a fact and its entry away",
    _object(
        {"name": _FACT_NAME},
        {
            **_WHERE,
            "ifRevision": _say(_REVISION, "a `revision-conflict` unless the fact has this one"),
            "purge": _with_default(_say(_BOOLEAN, "keep no trace of it"), False),
        },
    ),
    _object(
        {
            "file": _STRING,
            "index": _one_of("removed", "unchanged"),
            "saved": _say(_or_null(_SAVED), "what history.restore takes; null: it cannot be had back"),
        }
    ),
    waits_for_ready=True,
)

_MEMORY_SEARCH = Method(
    "facts that hold the words, the best first",
    _object(
        {"query": _text(1_024)},
        {
            "dir": _say(_PATH, "only here; with neither `dir` nor `cwd` everywhere in reach"),
            "cwd": _WHERE["cwd"],
            "limit": _with_default({"type": "integer", "minimum": 0, "maximum": SEARCH_HITS}, 20),
        },
    ),
    _object(
        {
            "hits": _array(
                _object(
                    {
                        "dir": _PATH,
                        "file": _STRING,
                        "name": _or_null(_STRING),
                        "description": _or_null(_STRING),
                        "score": _say(_NUMBER, "greater is better; of this answer only"),
                        "line": _say(_or_null(_INTEGER), "of the file; null: the words are in no line of it"),
                        "snippet": _STRING,
                    }
                )
            )
        },
        {"complete": _say(_BOOLEAN, "false: the index of words is still being built")},
    ),
    waits_for_ready=True,
)

_MEMORY_REPAIR = Method(
    "the smallest changes that end fixable findings; without `apply` nothing is written",
    _object(
        {},
        {
            **_WHERE,
            "apply": _with_default(_BOOLEAN, False),
            "codes": _say(
                _array(_text(64), maxItems=64), "only these; those that write facts or hooks need it"
            ),
            "keys": _say(_array(_text(4_096), maxItems=PAGE), "only the findings with these keys"),
        },
    ),
    _object(
        {
            "diff": _say(_STRING, "unified; empty: nothing to mend"),
            "fixes": _array(
                _object(
                    {"key": _STRING, "code": _STRING, "file": _STRING, "does": _STRING},
                    {"target": _or_null(_STRING), "line": _or_null(_INTEGER)},
                )
            ),
            "skipped": _array(_object({"key": _STRING, "code": _STRING, "reason": _STRING})),
            "applied": _BOOLEAN,
            "revision": _say(_or_null(_REVISION), "the index's; null without one"),
            "saved": _say(_or_null(_SAVED), "the index before, else the first file before"),
            "heldBy": _say(_array(_SESSION_NAME), "sessions that still hold the old index"),
        },
        {"diffCut": _say(_BOOLEAN, f"true: the diff is longer than {DIFF_BYTES} bytes")},
    ),
    waits_for_ready=True,
)

_HISTORY_LIST = Method(
    "what files were before, the newest first",
    _object(
        {},
        {
            **_WHERE,
            "file": _FILE,
            "limit": _with_default({"type": "integer", "minimum": 0, "maximum": PAGE}, 100),
        },
    ),
    _object(
        {
            "versions": _array(
                _object(
                    {
                        "saved": _SAVED,
                        "file": _STRING,
                        "at": _say(_TIME, "when it was replaced"),
                        "sizeBytes": _COUNT,
                        "contentHash": _say(_or_null(_HASH), "null: there was no such file"),
                        "reason": _say(_one_of(*REASONS), "what replaced it"),
                        "mtimeMs": _INTEGER,
                    },
                    {
                        "by": _say(_SESSION_NAME, "who wrote it, where that is known"),
                        "batch": _say(_INTEGER, "number of our own act; the same for all of its files"),
                    },
                )
            )
        }
    ),
    waits_for_ready=True,
)

_HISTORY_SHOW = Method(
    "the text of a saved version",
    _object({"saved": _SAVED}),
    _object(
        {"dir": _PATH, "file": _STRING, "text": _STRING},
        {"encoding": _say(_or_null(_STRING), "only when it is not UTF-8; null: it is no text")},
    ),
    waits_for_ready=True,
)

_RESTORED = _object(
    {
        **_WRITTEN,
        "action": _one_of("created", "overwrote", "removed"),
        "revision": _say(_or_null(_REVISION), "null: it was removed"),
    }
)

_HISTORY_RESTORE = Method(
    "make a file again what it was",
    _object(
        {"saved": _SAVED},
        {"ifRevision": _say(_REVISION, "a `revision-conflict` unless the file has this one")},
    ),
    _RESTORED,
    waits_for_ready=True,
)

_HISTORY_UNDO = Method(
    "take back our last act on a directory; that is an act, too",
    _object({}, _WHERE),
    _object({"files": _say(_array(_RESTORED), "each as history.restore answers")}),
    waits_for_ready=True,
)

_HISTORY_PURGE = Method(
    "remove saved versions and all that we keep of them, for good",
    _object({}, {**_WHERE, "file": _FILE, "before": _say(_MOMENT, "only those that were replaced earlier")}),
    _object({"removed": _COUNT}),
    waits_for_ready=True,
)

_AUDIT_GET = Method(
    "what is wrong, errors first",
    _object(
        {},
        {
            **_WHERE,
            "fresh": _with_default(_say(_BOOLEAN, "read the disk again first"), False),
            "severity": _with_default(_say(_one_of(*SEVERITIES), "the least one told"), "warning"),
            **_PAGING,
        },
    ),
    _object({"total": _COUNT, "findings": _array(FINDING)}),
    waits_for_ready=True,
)

_SUBSCRIBE = Method(
    "be sent events; they begin after the answer",
    _object(
        {},
        {
            "topics": _with_default(
                _say(_array(_text(128), minItems=1, maxItems=64), "globs; `*` crosses `/`"),
                ["*"],
            ),
            "dirs": _array(_PATH, maxItems=PAGE),
            **_WHERE,
            "since": _say(_CURSOR, "be sent what came after it first"),
        },
    ),
    _object({"subscription": _INTEGER, "cursor": _CURSOR}),
)

_SESSION_LIST = Method(
    "the sessions that are known, the last heard of first",
    _object({}, _PAGING),
    _object(
        {
            "total": _COUNT,
            "sessions": _array(
                _object(
                    {
                        "host": _STRING,
                        "id": _STRING,
                        "cwd": _PATH,
                        "firstAt": _TIME,
                        "lastContactAt": _TIME,
                        "index": _say(
                            _one_of("current", "stale", "unread"),
                            "how the index that it was given stands to the one on disk",
                        ),
                        "reads": _say(_COUNT, "files that it has read"),
                        "news": _say(_COUNT, "changes that it was not told of"),
                    },
                    {"dirs": _say(_array(_PATH), "its directories")},
                )
            ),
        }
    ),
    waits_for_ready=True,
)

_SESSION_NEWS = Method(
    "what happened since this session was told last, merged",
    _object({}, {"commit": _with_default(_say(_BOOLEAN, "confirm it at once"), False)}),
    _object(
        {
            "token": _say(_text(256), "what session.confirm takes"),
            "index": _say(
                _object(
                    {
                        "stale": _say(_BOOLEAN, "the text that it was given is not the one on disk"),
                        "added": _array(_ENTRY),
                        "changed": _array(_ENTRY),
                        "removed": _array(_ENTRY),
                    }
                ),
                "of the directory that hello named",
            ),
            "changes": _array(NEWS_CHANGE, maxItems=PAGE),
            "alarms": _say(_array(FINDING), "what a person should know, told once"),
            "text": _say(_STRING, "ready to be put before the model; empty: nothing to say"),
        },
        {"more": _say(_BOOLEAN, "true: there is more than fits")},
    ),
    waits_for_ready=True,
    needs_session=True,
)

_SESSION_CONFIRM = Method(
    "whether an answer of session.news has reached the model",
    _object(
        {"told": _say(_BOOLEAN, "false: it is said again")},
        {"token": _say(_text(256), "without it the last one given to this session")},
    ),
    _object({"confirmed": _say(_BOOLEAN, "false: no such answer waits")}),
    needs_session=True,
)

_READ_STATE_REPORT = Method(
    "this session has read a file with its host's own tool",
    _object(
        {"path": _PATH, "kind": _one_of(*READS)},
        {
            "contentHash": _say(_HASH, "of the file's bytes as they were read"),
            "mtimeMs": _INTEGER,
            "sizeBytes": _COUNT,
            "range": _LINES,
        },
    ),
    waits_for_ready=True,
    needs_session=True,
)

_READ_STATE_CHECK = Method(
    "whether this session knows files as they are now",
    _object({"paths": _array(_PATH, maxItems=CHECKED_PATHS)}),
    _object(
        {
            "states": _array(
                _object(
                    {"path": _say(_PATH, "as it was asked for"), "state": _one_of(*STATES)},
                    {
                        "read": _say(_WAS_READ, "what the session has read; not with `unread`"),
                        "now": _say(_or_null(_IS_NOW), "what is on disk; not with `gone`"),
                        "stamp": _STAMP,
                    },
                )
            )
        }
    ),
    waits_for_ready=True,
    needs_session=True,
)

_WRITE_INTENT = Method(
    "this session is about to write a file: the change will be attributed to it",
    _object(
        {"path": _PATH},
        {
            "baseRevision": _say(_REVISION, "what it is about to replace; without it what it has read"),
            "ttlMs": _with_default({"type": "integer", "minimum": 1, "maximum": INTENT_MS}, 5_000),
        },
    ),
    _object(
        {
            "stale": _say(_BOOLEAN, "the file is not what the write is based on"),
            "conflicts": _say(
                _array(
                    _object({"host": _STRING, "id": _STRING}, {"until": _say(_TIME, "when its word ends")})
                ),
                "other sessions that have announced a write to the same file",
            ),
        }
    ),
    waits_for_ready=True,
    needs_session=True,
)

METHODS: Mapping[str, Method] = {
    "hello": _HELLO,
    "ping": Method("everything up to the cursor has been sent", result=_object({"cursor": _CURSOR})),
    "describe": Method(
        "this table", result=_object({"methods": {"type": "object"}, "topics": {"type": "object"}})
    ),
    "status": _STATUS,
    "session.list": _SESSION_LIST,
    "session.news": _SESSION_NEWS,
    "session.confirm": _SESSION_CONFIRM,
    "session.end": Method("forget this session", needs_session=True),
    "dirs.list": _DIRS_LIST,
    "dirs.resolve": _DIRS_RESOLVE,
    "dirs.allow": Method(
        "let an asked directory be kept, or no longer", _object({"dir": _PATH, "allow": _BOOLEAN})
    ),
    "memory.list": _MEMORY_LIST,
    "memory.read": _MEMORY_READ,
    "memory.index": _MEMORY_INDEX,
    "memory.write": _MEMORY_WRITE,
    "memory.forget": _MEMORY_FORGET,
    "memory.search": _MEMORY_SEARCH,
    "memory.repair": _MEMORY_REPAIR,
    "history.list": _HISTORY_LIST,
    "history.show": _HISTORY_SHOW,
    "history.restore": _HISTORY_RESTORE,
    "history.undo": _HISTORY_UNDO,
    "history.purge": _HISTORY_PURGE,
    "audit.get": _AUDIT_GET,
    "audit.dismiss": Method(
        "do not tell this finding again",
        _object({"key": _text(4_096)}, {"undo": _with_default(_BOOLEAN, False)}),
        waits_for_ready=True,
    ),
    "readState.report": _READ_STATE_REPORT,
    "readState.check": _READ_STATE_CHECK,
    "write.intent": _WRITE_INTENT,
    "events.subscribe": _SUBSCRIBE,
    "events.unsubscribe": Method(
        "be sent no more", _object({"subscription": {"type": "integer", "minimum": 1}})
    ),
    "daemon.flush": Method(
        "answered once everything that was on disk before has been announced",
        _object({}, {"rescan": _with_default(_BOOLEAN, False)}),
        _object({"cursor": _CURSOR}),
    ),
    "daemon.reload": Method(
        "read the configuration again; a file with mistakes changes nothing, and is told as they are",
        _NOTHING,
        _object(
            {
                "changed": _array(
                    _object(
                        {
                            "key": _STRING,
                            "from": _say({}, "what it was"),
                            "to": _say({}, "what it is"),
                            "restart": _say(_BOOLEAN, "it applies from the next start on only"),
                        }
                    )
                )
            }
        ),
        waits_for_ready=True,
    ),
    "daemon.probe": Method(
        "send a canary the way of an event; once it has come through, publish `daemon/probed`",
        _object({}, {"token": _say(_text(64), "comes back in the answer and in the event")}),
        _object(
            {
                "token": _STRING,
                "alive": _say(
                    _BOOLEAN, "false: it did not come through within 10 s, and nothing is published"
                ),
                "wrote": _say(_BOOLEAN, "a file of the daemon's own went through the system's events"),
                "ms": _say(_NUMBER, "how long that took inside the daemon"),
            }
        ),
        waits_for_ready=True,
    ),
    "daemon.stop": Method("answered once everything is down but this connection"),
}
"""Every method that this daemon answers, by name."""

ACTS = frozenset(
    {
        "hello", "dirs.allow", "memory.write", "memory.forget", "memory.repair", "history.restore", "history.undo",
        "history.purge", "audit.dismiss", "readState.report", "write.intent", "session.confirm", "session.end",
        "daemon.reload", "daemon.stop",
    }
)  # fmt: skip
"""Methods that do something: these are carried out even when the client has gone meanwhile; the others only answer."""

TOPICS: Mapping[str, Topic] = {
    "memory/changed": Topic(
        "what a settled batch did to a directory",
        _object(
            {"changes": _array(CHANGE, maxItems=PAGE)},
            {"more": _say(_BOOLEAN, "another event of the same batch follows"), "by": _SESSION_NAME},
        ),
    ),
    "memory/index": Topic(
        "the index says something else now",
        _object(
            {
                "revision": _or_null(_REVISION),
                "contentHash": _or_null(_HASH),
                "textHash": _or_null(_HASH),
                "added": _array(_ENTRY),
                "removed": _array(_ENTRY),
                "changed": _array(_ENTRY),
                "caps": _object(
                    {
                        "lines": _COUNT,
                        "linesCap": _COUNT,
                        "units": _COUNT,
                        "unitsCap": _COUNT,
                        "beyond": _say(_array(_STRING), "targets past the cap"),
                    }
                ),
            },
            {"more": _MORE},
        ),
    ),
    "memory/audit": Topic(
        "findings came and went (warning and above)",
        _object(
            {"appeared": _array(FINDING), "cleared": _array(FINDING), "counts": _COUNTS}, {"more": _MORE}
        ),
    ),
    "memory/dir-added": Topic("a memory directory appeared", _object({"layout": _STRING, "label": _STRING})),
    "memory/dir-removed": Topic("a memory directory went", _object({"layout": _STRING, "label": _STRING})),
    "read-state/read": Topic(
        "a session has read a file",
        _object(
            {
                "absolutePath": _PATH,
                "kind": _one_of("full", "partial", "truncated"),
                "mtimeMs": _INTEGER,
                "sizeBytes": _COUNT,
                "session": _SESSION_NAME,
            },
            {
                "contentHash": _say(_HASH, "only with kind `full`"),
                "range": _LINES,
                "replayed": _say(
                    _BOOLEAN, "true: it happened before the subscription; never relay it to a guard"
                ),
            },
        ),
    ),
    "read-state/stale": Topic(
        "what a session had read is no longer what is on disk",
        _object(
            {
                "absolutePath": _PATH,
                "session": _SESSION_NAME,
                "read": _WAS_READ,
                "now": _say(_or_null(_IS_NOW), "null: the file is gone"),
            },
            {"stamp": _STAMP},
        ),
    ),
    "daemon/started": Topic("the daemon answers from now on", _object({"version": _STRING, "pid": _INTEGER})),
    "daemon/stopping": Topic("the daemon leaves", _object({"pid": _INTEGER})),
    "daemon/rescanned": Topic(
        "a full scan is done",
        _object(
            {
                "reason": _say(_STRING, "asked, schedule, overflow, base-added, …"),
                "base": _say(_or_null(_STRING), "the tree that was scanned; null: all"),
                "drift": _say(_COUNT, "changes that only it found"),
            }
        ),
    ),
    "daemon/probed": Topic(
        "a canary that `daemon.probe` sent has come through",
        _object({"token": _STRING, "wrote": _BOOLEAN, "ms": _NUMBER}),
    ),
    "daemon/degraded": Topic(
        "a watch was lost or refused; polling took over", _object({"base": _STRING, "reason": _STRING})
    ),
    "bus/gap": Topic(
        "events are gone: read the state anew",
        _object({"reason": _one_of("expired", "journal-reset"), "missed": _or_null(_COUNT)}),
    ),
}
"""Every topic that this daemon publishes."""

_EVENT = _object(
    {
        "subscription": _INTEGER,
        "cursor": _CURSOR,
        "time": _TIME,
        "topic": _STRING,
        "dir": _or_null(_PATH),
        "data": {"type": "object"},
    },
    {"replayed": _BOOLEAN},
)
"""The `params` of every notification `event`."""


def describe() -> dict[str, object]:
    """Give the table as `describe` answers it."""
    return {
        "protocol": PROTOCOL,
        "limits": {"lineBytes": LINE_BYTES, "subscriptions": SUBSCRIPTIONS, "page": PAGE},
        "methods": {
            name: {
                "summary": method.summary,
                "params": method.params,
                "result": method.result,
                "waitsForReady": method.waits_for_ready,
                "needsSession": method.needs_session,
            }
            for name, method in METHODS.items()
        },
        "event": _EVENT,
        "topics": {name: {"summary": topic.summary, "data": topic.data} for name, topic in TOPICS.items()},
        "errors": _error_words(errors.ZcsyncdError),
    }


def _error_words(root: type[errors.ZcsyncdError]) -> dict[str, object]:
    words: dict[str, object] = {root.word: root.wire_code}
    for child in root.__subclasses__():
        words |= _error_words(child)
    return words


# -- checking -------------------------------------------------------------------------------------------------


def check_params(method: str, params: Mapping[str, object]) -> dict[str, object]:
    """Check a request against the table; give its parameters with defaults, without unknown members.

    An optional parameter that is null counts as not given.

    Raises: UnknownMethod; InvalidParams for the first parameter that does not fit.
    """
    known = METHODS.get(method)
    if known is None:
        raise UnknownMethod(
            f"no method {_shown(method)}",
            hint="`describe` lists the methods of this daemon",
            method=method[:128],
        )
    return _check_object(known.params, params, "")


def _check_object(schema: Schema, value: Mapping[str, object], name: str) -> dict[str, object]:
    properties = schema.get("properties")
    required = schema.get("required")
    known: Mapping[str, Schema] = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    checked: dict[str, object] = {}
    for member, inner in known.items():
        given = value.get(member)
        inner_name = f"{name}.{member}" if name else member
        if given is None and not _takes(inner, None):
            if member in needed:
                raise _wrong(inner_name, inner, "null" if member in value else "nothing")
            if "default" in inner:
                default = inner["default"]
                checked[member] = list(default) if isinstance(default, list) else default
            continue
        if member in value:
            checked[member] = _check(inner, given, inner_name)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        most = schema.get("maxProperties")
        if isinstance(most, int) and len(value) > most:
            raise _wrong(name, schema, f"{len(value)} members")
        for member, given in value.items():
            if member not in known:
                checked[member] = _check(others, given, f"{name}.{member}")
    return checked


def _check(schema: Schema, value: object, name: str) -> object:
    if isinstance(value, float) and value.is_integer() and _takes(schema, 0) and not _takes(schema, 0.5):
        value = int(value)  # JSON has one kind of number: 5.0 is an integer
    if not _takes(schema, value):
        raise _wrong(name, schema, _kind(value))
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        raise _wrong(name, schema, _shown(value))
    if isinstance(value, str):
        _check_text(schema, value, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        if not _within(schema, value, "minimum", "maximum"):
            raise _wrong(name, schema, _shown(value))
    elif isinstance(value, list):
        if not _within(schema, len(value), "minItems", "maxItems"):
            raise _wrong(name, schema, f"{len(value)} items")
        items = schema.get("items")
        if isinstance(items, dict):
            return [_check(items, item, f"{name}[{place}]") for place, item in enumerate(value)]
    elif isinstance(value, dict):
        return _check_object(schema, value, name)
    return value


def _check_text(schema: Schema, value: str, name: str) -> None:
    if not _within(schema, len(value), "minLength", "maxLength"):
        raise _wrong(name, schema, f"{len(value)} characters")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and (re.search(pattern, value, re.ASCII) is None or value.endswith("\n")):
        raise _wrong(name, schema, _shown(value))
    if schema.get("format") == "date-time" and not _is_moment(value):
        raise _wrong(name, schema, _shown(value))
    if schema.get("format") == "path":
        if not _is_absolute(value):
            raise _wrong(name, schema, _shown(value))
        if not _is_storable(value):
            raise _wrong(name, schema, "a path that no file system can hold")


def _is_moment(text: str) -> bool:
    """Tell whether a time that looks like one is one: there is no thirtieth of February."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_absolute(path: str) -> bool:
    if sys.platform == "win32":
        return ntpath.isabs(path)
    return posixpath.isabs(path)


def _is_storable(path: str) -> bool:
    """Tell whether the system could be asked for the path: no NUL, no surrogates but those of undecodable bytes."""
    if "\0" in path:
        return False
    try:
        path.encode("utf-8", "surrogatepass" if sys.platform == "win32" else "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _takes(schema: Schema, value: object) -> bool:
    kinds = schema.get("type")
    if kinds is None:
        return True
    return any(_is_kind(value, kind) for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _is_kind(value: object, kind: object) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return value is None


def _within(schema: Schema, size: int, least: str, most: str) -> bool:
    low, high = schema.get(least), schema.get(most)
    return (not isinstance(low, int) or size >= low) and (not isinstance(high, int) or size <= high)


def _wrong(name: str, schema: Schema, got: str) -> InvalidParams:
    expected = _expected(schema)
    return InvalidParams(f"`{name}`: expected {expected}, got {got}", parameter=name, expected=expected)


_ARTICLES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


def _expected(schema: Schema) -> str:
    """Say in words what a schema wants."""
    allowed = schema.get("enum")
    if isinstance(allowed, list):
        return "one of " + ", ".join(str(each) for each in allowed)
    if schema.get("format") == "path":
        return "an absolute path"
    if schema.get("pattern") == CURSOR_PATTERN:
        return "a cursor `<journal id>:<sequence>`"
    if schema.get("pattern") == REVISION_PATTERN:
        return "a revision `mtime:<milliseconds>:size:<bytes>`"
    if schema.get("pattern") == HASH_PATTERN:
        return "a SHA-256 in lower-case hex"
    if schema.get("pattern") == TIME_PATTERN:
        return "a time as `2026-11-30T16:21:00Z`"
    kind = str(schema.get("type"))
    if kind == "array":
        items = schema.get("items")
        inner = _expected(items) if isinstance(items, dict) else "anything"
        return f"an array{_span(schema, 'minItems', 'maxItems', ' items')} (each {inner})"
    if kind == "object":
        return f"an object{_span(schema, 'minProperties', 'maxProperties', ' members')}"
    if kind == "string":
        return f"a string{_span(schema, 'minLength', 'maxLength', ' characters')}"
    return _ARTICLES.get(kind, kind) + _span(schema, "minimum", "maximum", "")


def _span(schema: Schema, least: str, most: str, unit: str) -> str:
    low, high = schema.get(least), schema.get(most)
    joint = " of" if unit else ""
    if unit and low is not None and low == high:
        return f" of {low}{unit}"
    if low is not None and high is not None:
        return f"{joint} {low} to {high}{unit}" if unit else f" from {low} to {high}"
    if low is not None:
        return f"{joint} at least {low}{unit}"
    return f"{joint} at most {high}{unit}" if high is not None else ""


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else "a number"


def _shown(value: object) -> str:
    """Show a value in a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
