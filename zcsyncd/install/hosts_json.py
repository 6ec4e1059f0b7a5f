"""A host's JSON file: read, changed in one place, and written as it was written before. Pure.

Rule 1: what could not be read as JSON, or would lose something by being written again, is refused, never replaced.
Rule 2: indentation, line ends, the mark at the start and the last newline stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from zcsyncd.errors import Refused

_INDENT = re.compile(r"\n([ \t]+)\S")
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Document:
    """One file's value and the way it is written."""

    value: dict[str, object]
    indent: str | int = 2
    newline: str = "\n"
    mark: str = ""
    end: str = "\n"

    def text(self, value: Mapping[str, object]) -> bytes:
        """Write another value the same way."""
        plain = json.dumps(value, indent=self.indent, ensure_ascii=False).replace("\n", self.newline)
        return (self.mark + plain + self.end).encode("utf-8", "surrogatepass")


EMPTY = Document({})
"""A file that is not there yet."""


class _Twice(ValueError):
    """A member that stands twice: writing would lose one of both."""


def parse(path: str, content: bytes | None) -> Document:
    """Read a file's content; None stands for a file that is not there, and nothing but space counts as that.

    Raises: Refused, naming `path`, what is wrong, and where.
    """
    if content is None:
        return EMPTY
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(path, f"it is not UTF-8 at byte {error.start}") from error
    mark, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    if not text.strip():
        return Document({}, mark=mark)
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_constant)
    except _Twice as error:
        raise _refused(path, str(error)) from error
    except json.JSONDecodeError as error:
        raise _refused(
            path, f"it is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise _refused(path, "it holds no JSON object")
    found = _INDENT.search(text.replace("\r\n", "\n"))
    indent: str | int = (found[1] if "\t" in found[1] else len(found[1])) if found else 2
    newline = "\r\n" if "\r\n" in text else "\n"
    return Document(value, indent, newline, mark, newline if text.endswith("\n") else "")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Twice(f"the member {twice!r} stands twice in one object")
    return made


def _constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _refused(path: str, why: str) -> Refused:
    return Refused(f"{path} is left as it is: {why}", hint="mend it, then try again; nothing was written")
