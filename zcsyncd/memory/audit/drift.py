"""Whether two short texts speak of the same thing: do they share a word? Pure.

Rule 1: words are compared after folding case and Unicode form; what is written without blanks, by bigram.
Rule 2: a text without words (a sign, an emoji, nothing) is never called different.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

_UNSPACED = (
    "\\u1100-\\u11ff"  # Hangul, as parts
    "\\u2e80-\\u2fdf\\u3005-\\u3007\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff"  # Han
    "\\u3040-\\u30ff\\u31f0-\\u31ff"  # Kana
    "\\u3130-\\u318f\\ua960-\\ua97f\\uac00-\\ud7ff"  # Hangul
    "\\U00020000-\\U0003ffff"  # Han, the rare ones
)
_RUN = re.compile(f"([{_UNSPACED}]+)|([^\\W_{_UNSPACED}]+)")
_PLAIN_RUN = re.compile(r"[a-z0-9]+")
KEPT_PAIRS = 8192
"""Pairs of texts that are remembered: an audit of an unchanged entry then costs a look-up."""


@lru_cache(maxsize=KEPT_PAIRS)
def share_a_word(one: str, other: str) -> bool:
    """Tell whether two texts share a word; True also when one of them has none to share."""
    if one == other:
        return True
    words = set(_words(one))
    others = 0
    for word in _words(other):
        if word in words:
            return True
        others += 1
    return not (words and others)


def _words(text: str) -> Iterator[str]:
    if text.isascii():
        yield from _PLAIN_RUN.findall(text.lower())
        return
    for match in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        unspaced = match[1]
        if unspaced is None:
            yield match[2]
        elif len(unspaced) == 1:
            yield unspaced
        else:
            yield from map("".join, pairwise(unspaced))
