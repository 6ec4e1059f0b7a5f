"""Members of an answer, taken with care: it comes from another program, which may be older or newer. Pure.

Rule 1: what is missing or of another kind is empty; nothing here raises.
Rule 2: text is harmless when it leaves here.
Rule 3: `zcsyncd status` imports this module on its fast path: nothing heavy here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zcsyncd.cli.render import harmless

Answer = Mapping[str, object]


def text_of(answer: Answer, name: str, otherwise: str = "") -> str:
    """Give a member as harmless text; `otherwise` when it is absent or null."""
    value = answer.get(name)
    return otherwise if value is None else harmless(str(value))


def number_of(answer: Answer, name: str) -> int:
    """Give a member that counts; 0 when it is absent."""
    value = answer.get(name)
    return int(value) if isinstance(value, int | float) else 0


def rows_of(answer: Answer, name: str) -> list[Answer]:
    """Give a member that is a list of objects; empty when it is absent."""
    value = answer.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def object_of(answer: Answer, name: str) -> Answer:
    """Give a member that is an object; empty when it is absent."""
    value = answer.get(name)
    return value if isinstance(value, Mapping) else {}


def names_of(answer: Answer, name: str) -> list[str]:
    """Give a member that is a list of strings, made harmless."""
    value = answer.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [harmless(str(item)) for item in value]
