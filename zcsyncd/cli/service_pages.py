"""How the service is, what was done to it, what set-up would do: answers to lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from zcsyncd.cli.answer import Answer, names_of, number_of, rows_of, text_of
from zcsyncd.cli.render import Paint, amount, counted, fitted, harmless, pad, with_program

NAME_CELLS = 9
GAP = "  "


def done_page(answer: Answer, *, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show what was done, then what a person should know."""
    lines = names_of(answer, "did") or ["nothing to do: it is so already"]
    return [*fitted(lines, cells), *_notes(names_of(answer, "notes"), program, cells, paint)]


def _notes(notes: Sequence[str], program: str, cells: int | None, paint: Paint) -> list[str]:
    lines = [f"{paint(pad('note', NAME_CELLS), 'dim')}{GAP}{with_program(note, program)}" for note in notes]
    return fitted(lines, cells, hang=NAME_CELLS + len(GAP))


def service_page(answer: Answer, *, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show how the service is, one subject a line."""
    if answer.get("installed") is not True:
        text = with_program("not installed; `zcsyncd service install` does it", program)
        rows = [("service", text)]
    else:
        rows = [
            ("service", _state(answer, paint)),
            ("says", text_of(answer, "says")),
            ("unit", text_of(answer, "unit")),
            ("runs", " ".join(names_of(answer, "command"))),
            ("starts", _starts(answer)),
            ("socket", "held by the service manager" if answer.get("socket") is True else ""),
        ]
    lines = [f"{paint(pad(name, NAME_CELLS), 'dim')}{GAP}{text}" for name, text in rows if text]
    lines += [
        paint(f"{pad('caution', NAME_CELLS)}{GAP}{with_program(text, program)}", "yellow")
        for text in names_of(answer, "cautions")
    ]
    lines = fitted(lines, cells, hang=NAME_CELLS + len(GAP))
    return [*lines, *_notes(names_of(answer, "notes"), program, cells, paint)]


def _state(answer: Answer, paint: Paint) -> str:
    running = answer.get("running")
    words = [
        paint("runs", "green")
        if running is True
        else paint("does not run", "red")
        if running is False
        else "",
        text_of(answer, "state"),
        f"pid {number_of(answer, 'pid')}" if answer.get("pid") is not None else "",
        f"since {text_of(answer, 'since')}" if answer.get("since") is not None else "",
        f"restarted {counted(number_of(answer, 'restarts'), 'time')} by itself"
        if answer.get("restarts")
        else "",
    ]
    return ", ".join(word for word in words if word)


def _starts(answer: Answer) -> str:
    enabled = answer.get("enabled")
    if enabled is None:
        return "at log-in"
    return "at log-in" if enabled is True else "not by itself"


def plan_page(plan: Answer, *, program: str, cells: int | None, paint: Paint) -> list[str]:
    """Show what set-up or removal found and would do."""
    lines = []
    for part in ("found", "would", "stays"):
        for row in rows_of(plan, part):
            size = row.get("sizeBytes")
            words = [
                text_of(row, "name"),
                text_of(row, "path"),
                amount(number_of(row, "sizeBytes")) if size is not None else "",
                text_of(row, "says"),
            ]
            text = with_program(": ".join(word for word in words if word), program)
            lines.append(f"{paint(pad(part, NAME_CELLS), 'dim')}{GAP}{text}")
    lines = fitted(lines, cells, hang=NAME_CELLS + len(GAP))
    return [*lines, *_notes(names_of(plan, "notes"), program, cells, paint)]


def changes_page(answer: Answer, *, program: str, cells: int | None) -> list[str]:
    """Show what a reload changed, as the daemon tells it."""
    lines = [
        f"{text_of(row, 'key')}: {_value(row.get('from'))} → {_value(row.get('to'))}"
        + (", from the next start on" if row.get("restart") is True else "")
        for row in rows_of(answer, "changed")
    ]
    return fitted([with_program(line, program) for line in lines or ["nothing has changed"]], cells)


def _value(value: object) -> str:
    return harmless("none" if value is None else str(value))
