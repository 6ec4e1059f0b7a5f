"""Rows to a table whose columns align, on any width of terminal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zcsyncd.cli.render import Paint, cut, pad, width

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
LEAST_CELLS = 6
"""No column is cut below this: less tells nothing."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one column is shown."""

    title: str
    right: bool = False
    """Numbers stand at the right."""
    keep_end: bool = False
    """Cut at the front when the terminal is narrow (paths)."""
    fixed: bool = False
    """Never cut (numbers, short words)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A harmless text and how it is painted."""

    text: str
    style: str | None = None


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], *, cells: int | None, paint: Paint
) -> list[str]:
    """Give the lines of a table, its head first.

    `cells` is the width to keep to; None cuts nothing. The widest column that may be cut is cut first. Where even
    the least widths do not fit, lines are longer than the terminal: it wraps them, and nothing is lost.
    """
    made = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[at].text) for row in made)])
        for at, column in enumerate(columns)
    ]
    if cells is not None:
        widths = _shrunk(columns, widths, cells)
    head = [Cell(column.title, "dim") for column in columns]
    return [_line(columns, row, widths, paint) for row in [head, *made]]


def _shrunk(columns: Sequence[Column], widths: Sequence[int], cells: int) -> list[int]:
    shrunk = list(widths)
    over = sum(shrunk) + len(GAP) * (len(shrunk) - 1) - cells
    while over > 0:
        may = [at for at, column in enumerate(columns) if not column.fixed and shrunk[at] > LEAST_CELLS]
        if not may:
            break
        widest = max(may, key=lambda at: shrunk[at])
        shrunk[widest] -= 1
        over -= 1
    return shrunk


def _line(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], paint: Paint) -> str:
    shown: list[str] = []
    for column, cell, cells in zip(columns, row, widths, strict=True):
        text = cut(cell.text, cells, keep_end=column.keep_end)
        blanks = " " * (cells - width(text))
        painted = paint(text, cell.style)
        shown.append(blanks + painted if column.right else painted + blanks)
    return GAP.join(shown).rstrip()


def pairs(rows: Sequence[tuple[str, str]], *, paint: Paint) -> list[str]:
    """Give `name  value` lines, the names aligned."""
    cells = max((width(name) for name, _ in rows), default=0)
    return [f"{paint(pad(name, cells), 'dim')}{GAP}{value}".rstrip() for name, value in rows]
