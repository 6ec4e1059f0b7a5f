"""Tables: columns align in cells, and a narrow terminal cuts what may be cut."""

from zcsyncd.cli.render import Paint, width
from zcsyncd.cli.table import Cell, Column, pairs, table

PLAIN = Paint(on=False)
COLUMNS = [Column("NAME"), Column("N", right=True, fixed=True), Column("PATH", keep_end=True)]


def test_columns_align_in_cells():
    """A wide script in one row does not move the columns of that row."""
    lines = table(COLUMNS, [["记忆", "7", "/a"], ["memory", "12", "/bb"]], cells=None, paint=PLAIN)
    assert lines == ["NAME     N  PATH", "记忆     7  /a", "memory  12  /bb"]
    assert width(lines[1].split("/")[0]) == width(lines[2].split("/")[0])


def test_a_narrow_terminal_cuts_the_widest():
    """The widest column that may be cut is cut, paths at their front; numbers stay whole."""
    lines = table(COLUMNS, [["name", "123456", "/home/someone/long/way/to/memory"]], cells=30, paint=PLAIN)
    assert all(width(line) <= 30 for line in lines)
    assert "123456" in lines[1]
    assert lines[1].endswith("to/memory")
    assert "…" in lines[1]


def test_a_tiny_terminal_still_gets_something():
    """Below the least widths nothing is cut any further."""
    lines = table(COLUMNS, [["name-of-it", "123456", "/home/someone"]], cells=5, paint=PLAIN)
    assert "name-…" in lines[1]


def test_without_a_terminal_nothing_is_cut():
    """A file or a pipe gets every cell whole."""
    path = "/p" * 400
    assert table(COLUMNS, [["n", "1", path]], cells=None, paint=PLAIN)[1].endswith(path)


def test_paint_does_not_move_columns():
    """Escape codes take no cells."""
    rows = [[Cell("a", "red"), "1", "x"], [Cell("bbb", "green"), "22", "y"]]
    plain = table(COLUMNS, rows, cells=None, paint=PLAIN)
    painted = table(COLUMNS, rows, cells=None, paint=Paint(on=True))
    for style in ("2", "31", "32"):
        painted = [line.replace(f"\x1b[{style}m", "") for line in painted]
    assert [line.replace("\x1b[0m", "") for line in painted] == plain


def test_pairs_align():
    """Names of a list of values stand in one column."""
    assert pairs([("a", "1"), ("bbb", "2"), ("c", "")], paint=PLAIN) == ["a    1", "bbb  2", "c"]
