"""The error family: what can go wrong, said once for the shell and once for the wire. Pure.

    ZcsyncdError                 70   internal-error
    ├── UsageError                2   invalid-params
    │   └── ConfigError           2   invalid-params
    ├── NoDaemon                  3   (never on the wire)
    ├── AlreadyRunning            4   (never on the wire)
    ├── Replaced                 75   (never on the wire)
    ├── NotFound                  5   not-found
    ├── Conflict                  6
    │   ├── AlreadyExists         6   already-exists
    │   ├── RevisionConflict      6   revision-conflict
    │   └── Ambiguous             6   ambiguous
    ├── Refused                   7   refused
    │   ├── Unreadable            7   unreadable
    │   └── TooLarge              7   too-large
    └── ProtocolError            70
        ├── ParseError           70   parse-error
        ├── InvalidRequest       70   invalid-request
        │   ├── LineTooLong      70   line-too-long
        │   └── BatchRefused     70   batch-refused
        ├── UnknownMethod        70   unknown-method
        ├── InvalidParams         2   invalid-params
        ├── UnsupportedProtocol  70   unsupported-protocol
        ├── Overloaded            3   overloaded
        └── NotReady              3   not-ready

Rule 1: a message says what happened, to which file, and what to do.
Rule 2: the control client imports this module on its fast path, so it imports nothing heavy itself.
"""

from __future__ import annotations


class ZcsyncdError(Exception):
    """A failure that a person can be told about in one line.

    `hint` says what to do; `data` holds further members of the wire error's `data`.
    """

    exit_code = 70
    wire_code = -32603
    word = "internal-error"

    def __init__(self, message: str, *, hint: str | None = None, **data: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data

    def to_wire(self) -> dict[str, object]:
        """Give the JSON-RPC error object."""
        data: dict[str, object] = {"code": self.word, **self.data}
        if self.hint is not None:
            data["hint"] = self.hint
        return {"code": self.wire_code, "message": self.message, "data": data}


class UsageError(ZcsyncdError):
    """The command line does not fit."""

    exit_code = 2
    wire_code = -32602
    word = "invalid-params"


class ConfigError(UsageError):
    """The configuration holds mistakes; the message lists them all."""


class NoDaemon(ZcsyncdError):
    """No daemon answers at the address."""

    exit_code = 3


class AlreadyRunning(ZcsyncdError):
    """Another daemon holds the lock."""

    exit_code = 4


class Replaced(ZcsyncdError):
    """Another version of the package was installed: the service manager is to start that one."""

    exit_code = 75


class NotFound(ZcsyncdError):
    """No such memory directory, fact, finding or saved version."""

    exit_code = 5
    wire_code = -32000
    word = "not-found"


class Conflict(ZcsyncdError):
    """What is there does not fit what was expected to be there."""

    exit_code = 6


class AlreadyExists(Conflict):
    """`create` of a name that exists."""

    wire_code = -32001
    word = "already-exists"


class RevisionConflict(Conflict):
    """The file changed under the caller."""

    wire_code = -32002
    word = "revision-conflict"


class Ambiguous(Conflict):
    """Several facts answer to one name."""

    wire_code = -32007
    word = "ambiguous"


class Refused(ZcsyncdError):
    """What was asked is not allowed: a symlink, a path outside, a directory that was not allowed."""

    exit_code = 7
    wire_code = -32003
    word = "refused"


class Unreadable(Refused):
    """The file is there but cannot be read or decoded; never treated as empty."""

    wire_code = -32004
    word = "unreadable"


class TooLarge(Refused):
    """More than one line of the wire may hold."""

    wire_code = -32008
    word = "too-large"


class ProtocolError(ZcsyncdError):
    """A line on the wire that does not fit the protocol."""


class ParseError(ProtocolError):
    """Not JSON, or not UTF-8."""

    wire_code = -32700
    word = "parse-error"


class InvalidRequest(ProtocolError):
    """JSON, but no JSON-RPC 2.0 request."""

    wire_code = -32600
    word = "invalid-request"


class LineTooLong(InvalidRequest):
    """A line over the limit; the connection is closed after the answer."""

    word = "line-too-long"


class BatchRefused(InvalidRequest):
    """A JSON-RPC batch."""

    word = "batch-refused"


class UnknownMethod(ProtocolError):
    """No such method."""

    wire_code = -32601
    word = "unknown-method"


class InvalidParams(ProtocolError):
    """A parameter is missing or of the wrong kind; the message names it."""

    exit_code = 2
    wire_code = -32602
    word = "invalid-params"


class UnsupportedProtocol(ProtocolError):
    """`hello` asked for versions that this daemon does not speak."""

    wire_code = -32005
    word = "unsupported-protocol"


class Overloaded(ProtocolError):
    """Too many connections or subscriptions."""

    exit_code = 3
    wire_code = -32006
    word = "overloaded"


class NotReady(ProtocolError):
    """The first scan still runs."""

    exit_code = 3
    wire_code = -32009
    word = "not-ready"


def _family(root: type[ZcsyncdError]) -> dict[str, type[ZcsyncdError]]:
    """Map words to classes; a class without a word of its own is not found by its parent's."""
    found = {root.word: root} if "word" in vars(root) else {}
    for child in root.__subclasses__():
        found.update(_family(child))
    return found


def from_wire(error: dict[str, object]) -> ZcsyncdError:
    """Turn a JSON-RPC error object into the error that it names; an unknown word is a plain ZcsyncdError."""
    data = error.get("data")
    members: dict[str, object] = dict(data) if isinstance(data, dict) else {}
    word = members.pop("code", None)
    hint = members.pop("hint", None)
    kind = _family(ZcsyncdError).get(str(word), ZcsyncdError)
    made = kind(str(error.get("message", "the daemon gave an error without a message")))
    made.hint = str(hint) if hint is not None else None
    made.data = members
    return made
