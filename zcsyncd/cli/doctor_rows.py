"""What the doctor says: one row a check, and the page of all of them. Pure.

Rule 1: a row is made of our own words, of numbers, and of paths that went through the veil; so it may be pasted into a
public report. What another program said, and whatever a file holds, is shown with `--paths` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from zcsyncd.cli.render import Paint, counted, fitted, harmless, pad, with_program

State = Literal["ok", "note", "warning", "error"]
STATES: tuple[State, ...] = ("ok", "note", "warning", "error")
_STYLES: Mapping[State, str | None] = {"ok": "green", "note": None, "warning": "yellow", "error": "red bold"}
_STATE_CELLS = 7
_INDENT = "  "
_HANG = len(_INDENT) + _STATE_CELLS + 2


@dataclass(frozen=True, slots=True)
class Row:
    """What one look has shown."""

    check: str
    """What was looked at; rows of one check stand together."""
    state: State
    what: str
    why: str | None = None
    """What that means for a person."""
    mend: str | None = None
    """What to do about it."""
    data: Mapping[str, object] = field(default_factory=dict)
    """The same for programs, where the words alone would have to be taken apart."""

    def to_wire(self) -> dict[str, object]:
        """Give the row as JSON has it (docs/doctor.md)."""
        return {
            "check": self.check,
            "state": self.state,
            "what": self.what,
            "why": self.why,
            "mend": self.mend,
            "data": dict(self.data),
        }


def ok(check: str, what: str, **data: object) -> Row:
    """Give a row of what is as it should be."""
    return Row(check, "ok", what, data=data)


def note(check: str, what: str, why: str | None = None, mend: str | None = None, **data: object) -> Row:
    """Give a row of what one may want to know."""
    return Row(check, "note", what, why, mend, data)


def warning(check: str, what: str, why: str | None = None, mend: str | None = None, **data: object) -> Row:
    """Give a row of what works less well than it could."""
    return Row(check, "warning", what, why, mend, data)


def error(check: str, what: str, why: str | None = None, mend: str | None = None, **data: object) -> Row:
    """Give a row of what does not work."""
    return Row(check, "error", what, why, mend, data)


def answer_of(rows: Sequence[Row], *, version: str, paths: bool) -> dict[str, object]:
    """Give the whole answer as JSON has it."""
    return {
        "version": version,
        "ok": not any(row.state == "error" for row in rows),
        "paths": paths,
        "counts": {state: sum(row.state == state for row in rows) for state in STATES},
        "checks": [row.to_wire() for row in rows],
    }


def doctor_page(rows: Sequence[Row], *, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show all rows, those of one check together, and at the end how many there are that want somebody."""
    lines: list[str] = []
    former = None
    for row in rows:
        if row.check != former:
            lines.append(paint(row.check, "bold"))
            former = row.check
        lines += fitted(_lines(row, program, paint), cells, hang=_HANG - len(_INDENT))
    return [*lines, *fitted([_sum(rows, paint)], cells)]


def _lines(row: Row, program: str, paint: Paint) -> Iterator[str]:
    state = paint(pad(row.state, _STATE_CELLS), _STYLES[row.state])
    yield f"{_INDENT}{state}{_INDENT}{_shown(row.what, program)}"
    for text in (row.why, row.mend and f"→ {row.mend}"):
        if text:
            yield f"{' ' * _HANG}{_shown(text, program)}"


def _shown(text: str, program: str) -> str:
    return harmless(with_program(text, program))


def _sum(rows: Iterable[Row], paint: Paint) -> str:
    states = [row.state for row in rows]
    words = [
        paint(counted(states.count(state), state), _STYLES[state])
        for state in ("error", "warning")
        if state in states
    ]
    return ", ".join(words) or paint("nothing is wrong", "green")
