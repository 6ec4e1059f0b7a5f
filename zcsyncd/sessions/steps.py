"""What one step makes of one session: a hello, a confirmation, a read, a purge. Pure.

Each function gives another session; the account keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from zcsyncd.sessions.session import Held, Place, Read, Session, Told, Who

MAX_READS = 5_000
"""Of one session: more files than a memory directory should hold."""
MAX_INDEX_READS = 1_000
MAX_ALARMS = 1_000

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def in_journal(session: Session, journal: str, head: int) -> Session:
    """Give the session with sequences of this journal: those of another mean nothing, so it adopts the present.

    What it has read is a matter of hashes, not of sequences, and stays.
    """
    if session.journal == journal and session.baseline <= head:
        return session
    return replace(
        session,
        journal=journal,
        baseline=head,
        start_baseline=head,
        held=(),
        told=None,
        confirmed=None,
    )


def started(session: Session, head: int, index_texts: Mapping[str, str | None]) -> Session:
    """Begin anew: the host has just put the index before the model, so what came before needs no news.

    Reads stay. A host says `start` too when it puts a newer index into a conversation that goes on, and then what was
    read is still there; that it may be gone is what `compact` is for.
    """
    return replace(
        session,
        baseline=head,
        start_baseline=head,
        held=(),
        told=None,
        confirmed=None,
        index_reads=_latest(dict(index_texts), MAX_INDEX_READS),
    )


def compacted(session: Session) -> Session:
    """Go back to the start: what was read and told since may be gone from the model's context.

    Alarms stay told: they went to the person.
    """
    return replace(
        session,
        baseline=session.start_baseline,
        held=(),
        told=None,
        confirmed=None,
        index_reads={},
        reads={place: replace(read, forgotten=True) for place, read in session.reads.items()},
    )


def forked(parent: Session, who: Who, now_ms: int) -> Session:
    """Give a child that knows what its parent knows. What the parent did not confirm, the child may not have seen."""
    return replace(
        parent, who=who, dirs=(), first_ms=now_ms, last_contact_ms=now_ms, told=None, confirmed=None
    )


def confirmed(session: Session, told: Told) -> Session:
    """Move the baseline over what an answer covers: it reached the model."""
    alarms = (*told.alarms, *sorted(session.alarms.difference(told.alarms)))
    return replace(
        session,
        baseline=max(session.baseline, told.upto),
        held=told.held,
        told=None,
        confirmed=told.token,
        alarms=frozenset(alarms[:MAX_ALARMS]),
    )


def with_read(session: Session, read: Read, *, latest: bool) -> Session:
    """Keep a read; `latest`: it was made just now, so it is the last one to go for want of room."""
    reads = dict(session.reads)
    if latest:
        reads.pop(read.place, None)
    reads[read.place] = read
    return replace(session, reads=_latest(reads, MAX_READS))


def with_index_read(session: Session, directory: str, text_hash: str | None) -> Session:
    """Keep which index text the session was given."""
    index_reads = {each: known for each, known in session.index_reads.items() if each != directory}
    index_reads[directory] = text_hash
    return replace(session, index_reads=_latest(index_reads, MAX_INDEX_READS))


def without_index_read(session: Session, directory: str) -> Session:
    """Forget which index text the session was given."""
    if directory not in session.index_reads:
        return session
    return replace(
        session, index_reads={each: known for each, known in session.index_reads.items() if each != directory}
    )


def without_file(session: Session, directory: str, file: str | None) -> Session:
    """Forget all that is known of a file; None: of every file of the directory."""

    def is_it(place: Place) -> bool:
        return place[0] == directory and file in (None, place[1])

    def others(held: tuple[Held, ...]) -> tuple[Held, ...]:
        return tuple(each for each in held if not is_it((each.directory, each.file)))

    reads = {place: read for place, read in session.reads.items() if not is_it(place)}
    held = others(session.held)
    told = session.told and replace(session.told, held=others(session.told.held))
    if len(reads) == len(session.reads) and held == session.held and told == session.told:
        return session
    return replace(session, reads=reads, held=held, told=told)


def _latest(values: dict[_Key, _Value], most: int) -> dict[_Key, _Value]:
    """Give the last ones that fit; the first are the oldest."""
    return values if len(values) <= most else dict(islice(values.items(), len(values) - most, None))
