"""What a hook does: a host's event to questions for the daemon, its answers to what the host is told. Pure.

    event_of ─► asks_daemon ─► glance ─► questions ═► answers ─► outcome

Rule 1: whether a path may lie in a memory directory is decided before anything else, and in doubt with yes: the
daemon knows better, but most calls need not wake it.
Rule 2: what was told counts as told with the session's next hook, not before: a host cuts output, or gives up waiting.
Rule 3: what a tool read or wrote is reported only as good as it can be proved.
Rule 4: nothing heavy is imported, records are plain classes: a hook is a process of its own each time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Question = tuple[str, dict[str, object]]

ROOT_VARIABLES = {
    "zcode": ("ZCODE_STORAGE_DIR", "ZCODE_DATA_BASE_DIR"),
    "claude-code": ("CLAUDE_CONFIG_DIR",),
}
"""Each host that has hooks, and what moves the roots of its memory: the daemon may have been started without it."""
_PROJECT_VARIABLES = {"zcode": "ZCODE_PROJECT_DIR", "claude-code": "CLAUDE_PROJECT_DIR"}
_SESSION_VARIABLES = {"zcode": "ZCODE_SESSION_ID"}

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
"""The events that a hook of ours answers; every other one ends in silence."""
REASONS = {"startup": "start", "resume": "start", "clear": "start", "compact": "compact"}
"""A SessionStart's `source` → hello's `reason`: after the first three the host has just read the index."""
READING = frozenset({"read"})
WRITING = frozenset({"write", "edit", "multiedit"})
INDEX = "MEMORY.md"

_MARK = "memor"
"""Every layout's memory directories have it in their path: `memory`, `memories`."""
_INTENT_MS = 5_000
_LATE_INTENT_MS = 250
"""After a write its event may still be on its way; later ones are somebody else's."""
_ID_CHARACTERS = 256


class Event:
    """One call of a hook."""

    __slots__ = ("cwd", "env", "given", "host", "name", "path", "session", "source", "told", "tool")

    def __init__(
        self,
        host: str,
        name: str,
        session: str,
        cwd: str,
        *,
        source: str = "",
        tool: str = "",
        path: str = "",
        told: Mapping[str, object] | None = None,
        given: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.host = host
        self.name = name
        self.session = session
        self.cwd = cwd
        self.source = source
        self.tool = tool
        """In lower case."""
        self.path = path
        """What the tool was about, absolute; empty where it was about no file."""
        self.told = told or {}
        """What the tool was told."""
        self.given = given or {}
        """What it gave back."""
        self.env = env or {}


class Kept:
    """What is known of a session from its last hook."""

    __slots__ = ("directory", "token")

    def __init__(self, token: str = "", directory: str = "") -> None:
        self.token = token
        """What the daemon calls the news that were said and are not confirmed."""
        self.directory = directory
        """The session's memory directory, as the daemon told it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and (self.token, self.directory) == (other.token, other.directory)

    __hash__ = None  # type: ignore[assignment]  # equal by content, never a key


class Glance:
    """What a tool had of a file, held against what is on disk now."""

    __slots__ = ("kind", "lines", "mtime_ms", "size_bytes")

    def __init__(
        self,
        kind: str,
        lines: tuple[int, int] | None = None,
        mtime_ms: int | None = None,
        size_bytes: int | None = None,
    ) -> None:
        self.kind = kind
        """`full`, `partial` or `truncated`."""
        self.lines = lines
        self.mtime_ms = mtime_ms
        """None: what is on disk is not what the tool had."""
        self.size_bytes = size_bytes


class Outcome:
    """What comes of the daemon's answers."""

    __slots__ = ("kept", "output")

    def __init__(self, output: dict[str, object] | None, kept: Kept) -> None:
        self.output = output
        """What the host is told; None: nothing."""
        self.kept = kept
        """What the session's next hook has to know, if the output goes out."""


# -- in --------------------------------------------------------------------------------------------------------------


def event_of(host: str, said: object, env: Mapping[str, str]) -> Event | None:
    """Read what a host said on stdin, in either spelling; None for what no hook of ours answers.

    The project's directory counts, where the host tells it: its shell may have gone elsewhere. A sub-agent's calls are
    passed over: what it reads, its session has not read.
    """
    if host not in ROOT_VARIABLES or not isinstance(said, dict):
        return None
    name = _text(said, "hook_event_name", "hookEventName")
    session = _text(said, "session_id", "sessionId") or env.get(_SESSION_VARIABLES.get(host, ""), "")
    cwd = env.get(_PROJECT_VARIABLES[host], "")
    cwd = cwd if _is_absolute(cwd) else _text(said, "cwd")
    if name not in EVENTS or not 0 < len(session) <= _ID_CHARACTERS or not _is_absolute(cwd):
        return None
    if _text(said, "agent_id", "agentId"):
        return None
    told = _object(said, "tool_input", "toolInput")
    return Event(
        host,
        name,
        session,
        cwd,
        source=_text(said, "source"),
        tool=_text(said, "tool_name", "toolName").lower(),
        path=_absolute(_text(told, "file_path", "filePath", "path"), _text(said, "cwd") or cwd),
        told=told,
        given=_object(said, "tool_response", "toolResponse", "tool_output", "toolOutput"),
        env={name: env[name] for name in ROOT_VARIABLES[host] if env.get(name)},
    )


def asks_daemon(event: Event, kept: Kept) -> bool:
    """Tell whether the daemon has to be asked at all."""
    if event.name == "Stop":
        return bool(kept.token)
    if event.name == "PreToolUse":
        return event.tool in WRITING and _may_be_memory(event.path, kept)
    if event.name == "PostToolUse":
        return event.tool in READING | WRITING and _may_be_memory(event.path, kept)
    return True


def _may_be_memory(path: str, kept: Kept) -> bool:
    return bool(path) and (
        _MARK in path.lower() or (bool(kept.directory) and path.startswith(kept.directory))
    )


# -- what the tool had -----------------------------------------------------------------------------------------------


def expected_text(event: Event) -> str | None:
    """Give the text that the tool had of the whole file; None when it does not tell."""
    if event.tool == "write":
        return _text(event.told, "content") or None
    if event.tool in READING:
        return _text(_object(event.given, "file"), "content") or None
    return None


def glance(event: Event, mtime_ms: int, size_bytes: int, raw: bytes | None) -> Glance:
    """Say what a read or a write knows of its file. `raw` is what is on disk, where it was worth reading."""
    kind, lines = _extent(event)
    expected = expected_text(event)
    if kind == "full" and expected is not None and raw is not None and not _is_text(expected, raw):
        return Glance(kind)  # what is there by now is another content, which nobody has read
    return Glance(kind, lines, mtime_ms, size_bytes)


def _extent(event: Event) -> tuple[str, tuple[int, int] | None]:
    """Tell how much of a file a tool had, and which lines where it was a part."""
    if event.tool not in READING:
        return "full", None
    file = _object(event.given, "file")
    start, count, total = (
        _number(file, *names)
        for names in (("startLine", "start_line"), ("numLines", "num_lines"), ("totalLines", "total_lines"))
    )
    if _flag(event.given, "truncated") or _flag(file, "truncated"):
        return "truncated", None
    if start is not None and count is not None and total is not None:
        if start <= 1 and count >= total:
            return "full", None
        return "partial", (max(start, 1), max(start + count - 1, start, 1))
    first, most = _number(event.told, "offset"), _number(event.told, "limit")
    if first is None and most is None:
        return "full", None
    begin = max(first or 1, 1)
    return "partial", None if most is None else (begin, begin + max(most, 1) - 1)


def _is_text(expected: str, raw: bytes) -> bool:
    """Tell whether a text is a file's content; hosts drop a mark at the start, carriage returns, the last newline."""
    plain = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    return _bare(plain) == _bare(expected.removeprefix("\ufeff"))


def _bare(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")


# -- questions -------------------------------------------------------------------------------------------------------


def questions(
    event: Event, kept: Kept, seen: Glance | None, version: str, pid: int, *, speaks: bool = True
) -> list[Question]:
    """Give what the daemon is asked, in order.

    `seen` is what the tool had of its file; None: it is gone. `speaks`: no other hook of the session is at it just
    now, so that this one may say the news.
    """
    reason = REASONS.get(event.source, "attach") if event.name == "SessionStart" else "attach"
    session: dict[str, object] = {
        "host": event.host,
        "id": event.session,
        "cwd": event.cwd,
        "reason": reason,
        "env": dict(event.env),
    }
    client = {"name": f"{event.host}-hook", "version": version, "pid": pid}
    asked: list[Question] = [("hello", {"protocol": [1], "client": client, "session": session})]
    if event.name == "SessionStart":
        return asked
    if kept.token and speaks:
        asked.append(("session.confirm", {"token": kept.token, "told": True}))
    if event.name == "PreToolUse":
        asked.append(("write.intent", {"path": event.path, "ttlMs": _INTENT_MS}))
        asked.append(("session.list", {}))
    if event.name == "PostToolUse":
        if event.tool in WRITING:
            asked.append(("write.intent", {"path": event.path, "ttlMs": _LATE_INTENT_MS}))
        if seen is not None:
            asked.append(("readState.report", _report(event.path, seen)))
    if speaks and event.name in ("UserPromptSubmit", "PostToolUse"):
        asked.append(("session.news", {}))
    return asked


def _report(path: str, seen: Glance) -> dict[str, object]:
    said: dict[str, object] = {"path": path, "kind": seen.kind}
    if seen.mtime_ms is not None and seen.size_bytes is not None:
        said |= {"mtimeMs": seen.mtime_ms, "sizeBytes": seen.size_bytes}
    if seen.lines is not None:
        said["range"] = list(seen.lines)
    return said


# -- out -------------------------------------------------------------------------------------------------------------


def outcome(event: Event, kept: Kept, answers: Mapping[str, Mapping[str, object]]) -> Outcome:
    """Make what the host is told, and what the next hook has to know, of the daemon's results by method.

    A method without a result was answered with an error, or not at all.
    """
    directory = _text(answers.get("hello", {}), "dir") or kept.directory
    news = answers.get("session.news", {})
    if event.name == "PreToolUse":
        return Outcome(_question(event, answers, directory), Kept(_unconfirmed(kept, answers), directory))
    token, text = _text(news, "token"), _text(news, "text")
    if event.name == "SessionStart":
        return Outcome(None, Kept("", directory))
    if not text.strip():
        return Outcome(None, Kept(token or _unconfirmed(kept, answers), directory))
    return Outcome(_output(event.name, additionalContext=text), Kept(token, directory))


def _unconfirmed(kept: Kept, answers: Mapping[str, Mapping[str, object]]) -> str:
    return "" if "session.confirm" in answers else kept.token


def _question(
    event: Event, answers: Mapping[str, Mapping[str, object]], directory: str
) -> dict[str, object] | None:
    """Ask the person before a whole index is written over one that this session does not know."""
    place, _, name = event.path.replace("\\", "/").rpartition("/")
    if event.tool != "write" or name != INDEX:
        return None
    rows = answers.get("session.list", {}).get("sessions")
    own = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    is_stale = _flag(answers.get("write.intent", {}), "stale") or (
        own.get("index") == "stale" and place == directory.replace("\\", "/")
    )
    if not is_stale:
        return None
    reason = (
        f"{INDEX} was changed since this session read it; writing it whole would drop what is new there. "
        "Read it again first, then write."
    )
    return _output(event.name, permissionDecision="ask", permissionDecisionReason=reason)


def _output(name: str, **said: str) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": name, **said}}


# -- members, taken with care ----------------------------------------------------------------------------------------


def _text(given: Mapping[str, object], *names: str) -> str:
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _object(given: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        value = given.get(name)
        if isinstance(value, dict):
            return value
    return {}


def _number(given: Mapping[str, object], *names: str) -> int | None:
    for name in names:
        value = given.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _flag(given: Mapping[str, object], name: str) -> bool:
    return given.get(name) is True


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\\\")) or path[1:3] in (":\\", ":/")


def _absolute(path: str, cwd: str) -> str:
    """Give a tool's path as the daemon takes it; hosts let their models write relative ones."""
    if not path or _is_absolute(path):
        return path
    sign = "\\" if "\\" in cwd and "/" not in cwd else "/"
    return cwd.rstrip("/\\") + sign + path.removeprefix("./") if _is_absolute(cwd) else ""


def names_of_hosts() -> Sequence[str]:
    """Give the hosts that have hooks."""
    return tuple(ROOT_VARIABLES)
