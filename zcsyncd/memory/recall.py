"""What ZCode's recall shows of a directory: the newest 200 facts, and how much of a body. Pure.

Rule 1: the newest 200 by mtime, as the double of milliseconds that Node reports; what recall cannot decode or read
takes no place among them (docs/format.md; tests/vectors/manifest.json).
Rule 2: facts of one mtime stand as a depth-first listing has them, each directory sorted as ICU sorts in English.
ICU is not here: `_collation` is right for ASCII and near for the rest. The person's locale decides it anyway, so
no rule and no test of ours may hang on the order of such facts.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Literal

from zcsyncd.memory.revision import node_mtime_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zcsyncd.memory.fact import Fact

MANIFEST_FACTS = 200
"""Facts that recall looks at."""
BODY_LINES = 200
BODY_BYTES = 4_096
"""How much of a body recall shows: lines, and bytes as UTF-8."""

Truncated = Literal["lines", "bytes", "both"]

_EPOCH = date(1970, 1, 1)
_DAYS_OF_400_YEARS = 146_097
_INDEX_NAME = "MEMORY.md"
_ENDING = ".md"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One line of the manifest that recall puts before the model."""

    filename: str
    type: str | None
    description: str | None
    mtime_ms: float


def is_candidate(file: str) -> bool:
    """Tell whether recall looks at a file of this name (relative, with `/`). Case counts; dot-files are in."""
    return file.endswith(_ENDING) and file.rpartition("/")[2] != _INDEX_NAME


def manifest(facts: Iterable[Fact], *, unreadable_directory: bool = False) -> list[ManifestEntry]:
    """Give the facts that ZCode's recall lists, in its order.

    `unreadable_directory`: a directory below the memory directory cannot be listed; ZCode then lists nothing.
    """
    if unreadable_directory:
        return []
    return [
        ManifestEntry(fact.file, fact.type, fact.description, node_mtime_ms(fact.stat.mtime_ns))
        for fact in islice(_newest_first(facts), MANIFEST_FACTS)
    ]


def recalled(facts: Iterable[Fact], *, unreadable_directory: bool = False) -> frozenset[str]:
    """Name the files that ZCode's recall lists."""
    if unreadable_directory:
        return frozenset()
    return frozenset(fact.file for fact in islice(_newest_first(facts), MANIFEST_FACTS))


def render(entries: Iterable[ManifestEntry]) -> str:
    """Give the manifest as the model gets it: one line a fact, line breaks in names and descriptions left raw."""
    return "\n".join(_rendered(entry) for entry in entries)


def line_count(body: str) -> int:
    """Count a body's lines. A last line break begins no further line."""
    return body.count("\n") + (not body.endswith("\n") if body else 0)


def cut(body: str) -> tuple[str, Truncated | None]:
    """Give the part of a body that recall shows, and which cap cut it; None: it is whole.

    The lines are cut first; the bytes are those of what is left, cut at a whole character.
    """
    by_lines = line_count(body) > BODY_LINES
    if by_lines:
        body = "\n".join(body.split("\n", BODY_LINES)[:BODY_LINES]) + "\n"
    raw = body.encode()
    if len(raw) <= BODY_BYTES:
        return body, "lines" if by_lines else None
    return raw[:BODY_BYTES].decode(errors="ignore"), "both" if by_lines else "bytes"


def _newest_first(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Give the listed facts, newest first; ties are put in order only when one gets there."""
    by_time: dict[float, list[Fact]] = {}
    for fact in facts:
        if fact.listed:
            by_time.setdefault(node_mtime_ms(fact.stat.mtime_ns), []).append(fact)
    for time in sorted(by_time, reverse=True):
        tied = by_time[time]
        yield from tied if len(tied) == 1 else sorted(tied, key=_listing_key)


def _rendered(entry: ManifestEntry) -> str:
    kind = f"[{entry.type}] " if entry.type else ""
    line = f"- {kind}{entry.filename} ({_iso(entry.mtime_ms)})"
    return f"{line}: {entry.description}" if entry.description else line


def _iso(mtime_ms: float) -> str:
    """Write a time as JavaScript does: UTC, milliseconds (truncated towards 1970), six digits past year 9999.

    `datetime` ends at 9999, file systems do not; but 400 years are always the same number of days.
    """
    days, of_day = divmod(int(mtime_ms), 86_400_000)
    cycles, days = divmod(days, _DAYS_OF_400_YEARS)
    day = _EPOCH + timedelta(days=days)
    year = day.year + 400 * cycles
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    seconds, millis = divmod(of_day, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{shown}-{day:%m-%d}T{hours:02d}:{minutes:02d}:{seconds:02d}.{millis:03d}Z"


# --- the order of facts with one mtime ---------------------------------------------------------------------------

_Collation = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, ...], ...], tuple[bool, ...], str]

_ASCII_ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_ASCII_RANK = {char: (0, rank) for rank, char in enumerate(_ASCII_ORDER)}
_KIND_RANK = {"Z": 1, "P": 2, "S": 3, "N": 4, "L": 5}


def _listing_key(fact: Fact) -> list[_Collation]:
    return [_collation(part) for part in fact.file.split("/")]


def _collation(name: str) -> _Collation:
    """Compare names by letters, then accents, then case (small first), then code points."""
    letters: list[tuple[int, int]] = []
    accents: list[tuple[int, ...]] = []
    large: list[bool] = []
    for char in unicodedata.normalize("NFD", name):
        kind = unicodedata.category(char)
        if kind == "Mn" and accents:
            accents[-1] += (ord(char),)
        elif char in _ASCII_RANK or kind[0] in _KIND_RANK:
            for small in char.lower():
                letters.append(_rank(small, kind[0]))
                accents.append(())
                large.append(kind == "Lu")
    return tuple(letters), tuple(accents), tuple(large), name


def _rank(char: str, kind: str) -> tuple[int, int]:
    if char in _ASCII_RANK:
        return _ASCII_RANK[char]
    return _KIND_RANK[kind], unicodedata.decimal(char, ord(char)) if kind == "N" else ord(char)
