"""Two texts to a unified diff, and a diff to lines for eyes. Pure."""

from __future__ import annotations

import re
from difflib import unified_diff

from zcsyncd.cli.render import Paint, harmless_lines

NO_NEWLINE = "\\ No newline at end of file"
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STYLES = {"+": "green", "-": "red", "\\": "dim"}


def diff_of(before: str, after: str, before_name: str, after_name: str) -> str:
    """Give a unified diff; empty when the texts are equal. Lines end with LF, so that a CR before it is seen."""
    lines = unified_diff(_lines(before), _lines(after), before_name, after_name)
    return "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n" for line in lines)


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]  # what stands after the last line feed is a line without one, or none
    return lines if lines[-1] else lines[:-1]


def diff_lines(diff: str, paint: Paint) -> list[str]:
    """Show a unified diff: harmless, and with colour. Of line ends only those are shown that not all lines have."""
    shown: list[str] = []
    old = new = 0  # lines that the hunk still has: a line that is taken out may look like a head
    lines = diff.split("\n")
    if not lines[-1]:
        lines.pop()
    is_crlf = all(line.endswith("\r") for line in lines if _is_content(line))
    for line in lines:
        sign = line[:1]
        hunk = _HUNK.match(line)
        if old > 0 or new > 0 or sign == "\\":
            old -= sign in "- "
            new -= sign in "+ "
            shown.append(paint(_harmless(line.removesuffix("\r") if is_crlf else line), _STYLES.get(sign)))
        elif hunk:
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            shown.append(paint(_harmless(line), "cyan"))
        else:
            shown.append(paint(_harmless(line), "bold"))
    return shown


def _is_content(line: str) -> bool:
    return line[:1] in {" ", "+", "-"} and not line.startswith(("--- ", "+++ "))


def _harmless(line: str) -> str:
    return harmless_lines(line)[0]
