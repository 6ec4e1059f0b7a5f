"""The name that a caller gives to the file name of a new fact. Pure.

Rule 1: a name that some system cannot hold, or that a person cannot see as it is, is refused and never bent: the
        caller learns what is wrong with it. Only the Unicode form is settled here (NFC, the custom everywhere).
"""

from __future__ import annotations

import unicodedata
from typing import Final

from zcsyncd.errors import Refused
from zcsyncd.memory.audit.finding import shown
from zcsyncd.memory.audit.names import ENDING, INDEX_NAME, folded, nfc, unsafe_reasons

FILE_BYTES: Final = 200
"""The longest file name, in bytes of UTF-8. The file systems' 255 must also hold `.tmp.<pid>.<12 hex>` behind it,
and what sync tools put into the name of a conflict copy."""

_HINT: Final = "call it by a few plain words, as in `release-calendar`"
_INDEX_STEM: Final = folded(INDEX_NAME.removesuffix(ENDING))


def file_for(name: str) -> str:
    """Give the file of a new fact: the name in NFC, then `.md`, which the name may have already.

    Raises: Refused for a name that is no safe file name on Linux, macOS and Windows alike, or that is the index's.
    """
    stem = nfc(name)
    if stem[-len(ENDING) :].lower() == ENDING:
        stem = stem[: -len(ENDING)]
    reason = _why_not(stem)
    if reason is not None:
        raise Refused(f"no fact can be called {shown(name)}: {reason}", hint=_HINT, parameter="name")
    return stem + ENDING


def _why_not(stem: str) -> str | None:
    """Say why a stem cannot be a new file's; None if it can."""
    if not stem.strip():
        return "the name is empty"
    if "/" in stem or "\\" in stem:
        return "it holds a path separator, and a new fact lies in the memory directory itself"
    if stem.startswith("."):
        return "a leading dot hides the file"
    if ".." in stem:
        return "it holds `..`"
    if stem != stem.strip() or stem.endswith("."):
        return "it begins or ends with a blank, or ends with a dot"
    if folded(stem) == _INDEX_STEM:
        return f"{INDEX_NAME} is the index, on every system that takes upper and lower case for one"
    unseen = next((character for character in stem if _is_unseen(character)), None)
    if unseen is not None:
        return f"it holds a character that cannot be seen or is no text (U+{ord(unseen):04X})"
    file = stem + ENDING
    reason = next(unsafe_reasons(file), None)
    if reason is None and len(file.encode()) > FILE_BYTES:
        reason = f"with `{ENDING}` it has more than {FILE_BYTES} bytes"
    return reason


def _is_unseen(character: str) -> bool:
    """Tell whether a character is a control, a line break, a mark of direction or of no width, or half of one."""
    code = ord(character)
    return (
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        or code & 0xFFFE == 0xFFFE
        or 0xFDD0 <= code <= 0xFDEF
    )
