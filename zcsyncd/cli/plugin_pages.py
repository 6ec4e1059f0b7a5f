"""How plugins are: answers to lines. Pure."""

from __future__ import annotations

from collections.abc import Callable

from zcsyncd.cli.answer import Answer, names_of, object_of, rows_of, text_of
from zcsyncd.cli.render import Paint, fitted, pad, with_program

NAME_CELLS = 15
GAP = "  "


def plugins_page(
    answer: Answer, *, program: str, cells: int | None, paint: Paint, when: Callable[[str], str] | None = None
) -> list[str]:
    """Show one plugin a line, then what is to be done, and when its hooks were last called."""
    lines: list[str] = []
    for row in rows_of(answer, "plugins"):
        state = text_of(row, "state")
        colour = {"current": "green", "absent": "dim"}.get(state, "yellow")
        version = text_of(row, "version")
        words = [paint(state, colour), version, "" if state == "absent" else text_of(row, "path")]
        lines.append(
            f"{pad(text_of(row, 'host'), NAME_CELLS)}{GAP}{GAP.join(word for word in words if word)}"
        )
        hang = " " * NAME_CELLS + GAP
        lines += [hang + with_program(said, program) for said in names_of(row, "says")]
        if state != "absent":
            lines += [hang + line for line in _calls(object_of(row, "calls"), when)]
    return fitted(lines, cells, hang=NAME_CELLS + len(GAP))


def _calls(calls: Answer, when: Callable[[str], str] | None) -> list[str]:
    told = []
    for event in calls:
        at = text_of(calls, event)
        if at or event != "PreToolUse":  # that one is not there but on request
            told.append(f"last {event}: {(when(at) if when else at) if at else 'never'}")
    return told
