"""Sessions to rows of the database and back. Pure.

A row is compact JSON, and the database is ours alone; but a row may be of another version, or damaged. One that does
not hold what a session is made of is refused whole: half an account would say `current` of what nobody read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeVar

from zcsyncd.sessions.session import Held, Kind, Outdated, Place, Read, Session, Told, Who

VERSION: Final = 1
_KINDS: Final[dict[str, Kind]] = {"full": "full", "partial": "partial", "truncated": "truncated"}
_OUTDATED: Final[dict[str, Outdated]] = {"stale": "stale", "gone": "gone"}
_FORGOTTEN, _OWN = 1, 2

_encode = json.JSONEncoder(separators=(",", ":")).encode
_Value = TypeVar("_Value")


def session_row(session: Session) -> str:
    """Give a session as ASCII JSON text. Directories stand in it once, and reads name them by number."""
    numbers: dict[str, int] = {}

    def number(directory: str) -> int:
        return numbers.setdefault(directory, len(numbers))

    def held_rows(held: tuple[Held, ...]) -> list[list[object]]:
        return [[number(each.directory), each.file, each.since_ms] for each in held]

    told = session.told
    members: dict[str, object] = {
        "v": VERSION,
        "who": session.who,
        "cwd": session.cwd,
        "first": session.first_ms,
        "contact": session.last_contact_ms,
        "journal": session.journal,
        "base": session.baseline,
        "start": session.start_baseline,
        "dirs": session.dirs,
        "held": held_rows(session.held),
        "told": told and [told.token, told.upto, held_rows(told.held), told.alarms],
        "confirmed": session.confirmed,
        "alarms": sorted(session.alarms),
        "index": [[number(each), text_hash] for each, text_hash in session.index_reads.items()],
        "reads": [_read_row(number(read.directory), read) for read in session.reads.values()],
    }
    return _encode({**members, "at": list(numbers)})


def _read_row(number: int, read: Read) -> list[object]:
    flags = _FORGOTTEN * read.forgotten | _OWN * read.own
    return [
        number,
        read.file,
        read.kind,
        read.content_hash,
        read.meaning_hash,
        read.mtime_ms,
        read.size,
        read.at_ms,
        read.range,
        flags,
        read.outdated,
    ]


def session_from(row: str) -> Session:
    """Give the session of a row. Raises: ValueError for a row that is not one of ours."""
    try:
        return _session(json.loads(row))
    except RecursionError:
        raise ValueError("a session's row: nested too deep") from None


def _session(value: object) -> Session:
    members = _is(value, dict, "an object")
    if members.get("v") != VERSION:
        raise ValueError(f"a session's row of version {members.get('v')!r}")

    def member(name: str) -> object:
        if name not in members:
            raise ValueError(f"a session's row without {name!r}")
        return members[name]

    at = _texts(member("at"))
    reads = [_read(each, at) for each in _array(member("reads"))]
    return Session(
        who=_who(member("who")),
        cwd=_text(member("cwd")),
        first_ms=_number(member("first")),
        last_contact_ms=_number(member("contact")),
        journal=_text(member("journal")),
        baseline=_number(member("base")),
        start_baseline=_number(member("start")),
        dirs=_texts(member("dirs")),
        held=_helds(member("held"), at),
        told=_told(member("told"), at),
        confirmed=_text_or_none(member("confirmed")),
        alarms=frozenset(_texts(member("alarms"))),
        index_reads=dict(_index_read(each, at) for each in _array(member("index"))),
        reads=_by_place(reads),
    )


def _by_place(reads: list[Read]) -> dict[Place, Read]:
    found = {read.place: read for read in reads}
    if len(found) != len(reads):
        raise ValueError("a session's row with two reads of one file")
    return found


def _who(value: object) -> Who:
    host, id_ = _array(value, 2)
    return _text(host), _text(id_)


def _told(value: object, at: tuple[str, ...]) -> Told | None:
    if value is None:
        return None
    token, upto, held, alarms = _array(value, 4)
    return Told(_text(token), _number(upto), _helds(held, at), _texts(alarms))


def _helds(value: object, at: tuple[str, ...]) -> tuple[Held, ...]:
    return tuple(_held(each, at) for each in _array(value))


def _held(value: object, at: tuple[str, ...]) -> Held:
    number, file, since_ms = _array(value, 3)
    return Held(_directory(number, at), _text(file), _number(since_ms))


def _index_read(value: object, at: tuple[str, ...]) -> tuple[str, str | None]:
    number, text_hash = _array(value, 2)
    return _directory(number, at), _text_or_none(text_hash)


def _read(value: object, at: tuple[str, ...]) -> Read:
    number, file, kind, content_hash, meaning_hash, mtime_ms, size, at_ms, lines, flags, outdated = _array(
        value, 11
    )
    marks = _number(flags)
    return Read(
        directory=_directory(number, at),
        file=_text(file),
        kind=_one_of(kind, _KINDS),
        content_hash=_text_or_none(content_hash),
        mtime_ms=_number(mtime_ms),
        size=_number(size),
        at_ms=_number(at_ms),
        range=_lines(lines),
        forgotten=bool(marks & _FORGOTTEN),
        own=bool(marks & _OWN),
        meaning_hash=_text_or_none(meaning_hash),
        outdated=None if outdated is None else _one_of(outdated, _OUTDATED),
    )


def _lines(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    first, last = _array(value, 2)
    return _number(first), _number(last)


# --- what JSON may hold, narrowed --------------------------------------------------------------------------------


def _is(value: object, kind: type[_Value], words: str) -> _Value:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"a session's row: {type(value).__name__} where {words} should be")  # noqa: TRY004 - a row is data, not a caller's mistake
    return value


def _text(value: object) -> str:
    return _is(value, str, "a text")


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> int:
    return _is(value, int, "a whole number")


def _array(value: object, length: int | None = None) -> list[object]:
    found: list[object] = _is(value, list, "an array")
    if length is not None and len(found) != length:
        raise ValueError(f"a session's row: {len(found)} members where {length} should be")
    return found


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(each) for each in _array(value))


def _directory(value: object, at: tuple[str, ...]) -> str:
    number = _number(value)
    if not 0 <= number < len(at):
        raise ValueError(f"a session's row: no directory {number}")
    return at[number]


def _one_of(value: object, words: Mapping[str, _Value]) -> _Value:
    word = _text(value)
    if word not in words:
        raise ValueError(f"a session's row: unknown word {word!r}")
    return words[word]
