"""What a search looks for: text to search terms, a person's words to a match expression, a hit to a snippet. Pure.

The index is SQLite's FTS5 with `TOKENIZE` over the columns name, description, body; their texts go in by `indexed`.

Rule 1: text, query and snippet are folded by one function (`_folded`), so that what is found can also be shown.
Rule 2: Chinese, Japanese and Korean have no blanks to cut at: a run of n characters becomes n - 1 pairs that overlap,
and its last character alone. So a pair or more within a run is a phrase, and one character is the beginning of a word.
Rule 3: nothing of what a person types reaches FTS5 but letters and digits in quotes: no text is a syntax error.
Rule 4: nothing here raises for content, and whatever it is the time grows with its length only.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING

from zcsyncd.memory.fact import PREVIEW_LINES
from zcsyncd.memory.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

TOKENIZE = "unicode61 remove_diacritics 2"
"""FTS5's tokenizer that all of this is made for."""
WEIGHTS = (10.0, 5.0, 1.0)
"""Weights of name, description and body for FTS5's `bm25`: what a fact is called counts before what it mentions."""
MAX_WORDS = 32
"""Words of a query that are looked for; what somebody pastes beyond that narrows nothing."""
MAX_WORD_CHARS = 64
MAX_QUERY_CHARS = 4_096
"""Room for that many words of that length, with blanks."""
PREFIX_CHARS = 3
"""From so many letters on a word also finds longer ones; below that it would find nearly everything."""
MAX_JOINED = 500
"""Joined words (`fooBar`) of one text whose parts are added to it."""
LOOKED_CHARS = 262_144
"""How far into a file the place of a hit is looked for; sixty times what recall shows of it."""
LEAD_SHARE = 4
"""A snippet begins a quarter of its width before the first word that it shows."""
MOST_PLACES = 4
"""Places of one word in a line that are weighed for the snippet."""
SNAP_SHARE = 8
"""An eighth of its width a cut moves to fall between two words."""

_CJK = (
    "\u1100-\u11ff"  # Hangul, as parts
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"  # Han: signs
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Kana, without the dot between words
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\U0001b000-\U0001b16f"  # Kana, the rare ones
    "\U00020000-\U0003ffff"  # Han, the rare ones
)
_RUN = re.compile(f"[{_CJK}]+")
_PIECE = re.compile(f"([{_CJK}]+)|[^\\s{_CJK}]+")
_TOKEN = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_LETTER = f"[^\\W_{_CJK}]"
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»", '"'))

_JOINED = re.compile(r"[A-Z](?:(?<=[a-z].)|(?<=[A-Z].)(?=[a-z]{2}))")
"""Where a word begins within a word: `fooBar`, `HTTPServer`. What it begins with is rare: the search leaps to it."""
_WORD = re.compile(r"[A-Za-z0-9]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_INVISIBLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
"""What takes no room or steers the text around it: a word is the same without it."""
_UNSEEN = re.compile(f"[{_INVISIBLE}]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_VALUE = re.compile(r"\s*[\w-]+[ \t]*:(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"[|>][-+0-9]*")
_FENCE = "---"
_CHUNK = 1_024
_BLANKS = " \t\r"


def indexed(text: str) -> str:
    """Give a text as it goes into FTS5: one form for what reads alike, runs of Chinese, Japanese, Korean in pairs.

    The parts of joined words (`fooBar`) stand at the end, where they disturb no phrase. Plain ASCII stays as it is;
    case is then folded by the tokenizer.
    """
    parts = _parts(text) if _JOINED.search(text) else ""
    if not text.isascii():
        text = _RUN.sub(_cut, _folded(well_formed(text)))
    return f"{text}\n{parts}" if parts else text


def match(query: str, *, any_word: bool = False) -> str | None:
    """Give the FTS5 expression for a person's words: all of them, or with `any_word` at least one.

    A word of three letters or more also finds longer ones. A run of Chinese, Japanese or Korean is found wherever it
    stands; with `any_word` each of its pairs counts as a word. What stands in double quotes is found as it stands.
    None: there is no letter or digit to look for. The expression is never a syntax error.
    """
    terms = _terms(query)
    if not any_word:
        return " ".join(dict.fromkeys(map(_expression, terms))) or None
    words = dict.fromkeys(expression for term in terms for expression in _alternatives(term))
    return " OR ".join(list(words)[:MAX_WORDS]) or None


def snippet(text: str, query: str, *, width: int = 160) -> tuple[int, str]:
    """Give the best place of a hit: its 1-based line in the file, and one line of at most `width` characters.

    `text` is the whole file. The best line is the first of those that hold the most different words of the query;
    the body goes before the front matter, whose lines are shown without key and quotes. Where no line holds a word
    (the file's name was the hit) it is the description's, else the first line of the body with something in it.
    Control, bidirectional and zero-width characters are left out; `…` stands where something was cut.
    """
    text = well_formed(text)
    looked = text if len(text) <= LOOKED_CHARS else text[:LOOKED_CHARS]
    terms = _terms(query)
    folded = _folded(looked)
    front = _front_lines(looked)
    number = _best_line(folded, terms, front) or _fallback_line(looked, front)
    line = _line(looked, number)
    if number <= front:
        line = _value(line)
    return number, _excerpt(_clean(line), terms, width)


# --- folding -----------------------------------------------------------------------------------------------------


def _bases() -> dict[str, str]:
    """Map small Latin and Greek letters with accents to those without, and ё to е, as most people type it."""
    found = {"ё": "е"}
    for first, last in ((0xC0, 0x24F), (0x370, 0x3FF), (0x1E00, 0x1FFF)):
        for char in map(chr, range(first, last + 1)):
            parts = unicodedata.normalize("NFKD", char)
            base = "".join(part for part in parts if not unicodedata.combining(part))
            if base.isalpha() and len(base) < len(parts):
                found[char] = base
    return found


_BASES = _bases()
_ODD = re.compile(f"[\u0300-\u036f{_INVISIBLE}{''.join(_BASES)}]")
"""What is left out, or stands for another letter."""


_WIDE = dict(zip("，：；！？（）", ",:;!?()", strict=True))
"""What NFKC makes of the marks that Chinese is written with. Without them most texts are in that form already, which
is seen seven times as fast as it is made."""


def _folded(text: str) -> str:
    """Give a text in the one form that is compared: no case, no accents, no wide or half-wide forms; lines stay.

    It is well-formed text that comes in.
    """
    if text.isascii():
        return text.lower()
    for wide, narrow in _WIDE.items():
        text = text.replace(wide, narrow)
    text = unicodedata.normalize("NFKC", text).casefold()
    odd = set(_ODD.findall(text))
    for char in odd:
        text = text.replace(char, _BASES.get(char, ""))
    return unicodedata.normalize("NFKC", text) if odd else text


def _cut(run: re.Match[str]) -> str:
    # Blanks around it: letters may stand right beside it.
    return f" {_pairs(run[0] + ' ')} "


def _pairs(run: str) -> str:
    return " ".join(map(add, run, run[1:]))


def _parts(text: str) -> str:
    """Give the parts of joined words, each word once: `readSnapshot` is found by `snapshot` and by `read_snapshot`."""
    joined = [
        word
        for word in dict.fromkeys(_WORD.findall(text))
        if len(word) <= MAX_WORD_CHARS and _JOINED.search(word)
    ]
    return " ".join(" ".join(_PART.findall(word)) for word in joined[:MAX_JOINED])


# --- the query ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """A word of the query, or a phrase."""

    tokens: tuple[str, ...]
    """Folded; each is letters and digits, or a run of Chinese, Japanese, Korean."""
    goes_on: bool
    """The last one may go on."""
    first: str
    """The first token."""
    bare: bool
    """It is one run of Chinese, Japanese or Korean: it stands wherever its characters stand."""
    pattern: re.Pattern[str]
    """Finds it in folded text."""


@lru_cache(maxsize=64)
def _terms(query: str) -> tuple[_Term, ...]:
    """Take a query apart; a quote that is never closed is none."""
    text = _folded(well_formed(query[:MAX_QUERY_CHARS]))[:MAX_QUERY_CHARS].translate(_QUOTES)
    segments = text.split('"')
    if len(segments) % 2 == 0:
        segments[-2:] = [" ".join(segments[-2:])]
    found: dict[tuple[tuple[str, ...], bool], None] = {}
    for number, segment in enumerate(segments):
        pieces = [segment] if number % 2 else [piece[0] for piece in _PIECE.finditer(segment)]
        for piece in pieces:
            tokens = tuple(_TOKEN.findall(piece[:MAX_WORD_CHARS]))
            if tokens:
                found[tokens, _goes_on(tokens[-1], quoted=number % 2 == 1)] = None
    return tuple(_term(tokens, goes_on=goes_on) for tokens, goes_on in list(found)[:MAX_WORDS])


def _term(tokens: tuple[str, ...], *, goes_on: bool) -> _Term:
    bare = len(tokens) == 1 and _RUN.match(tokens[0]) is not None
    return _Term(tokens, goes_on, tokens[0], bare, _pattern(tokens, goes_on=goes_on))


def _goes_on(token: str, *, quoted: bool) -> bool:
    """Tell whether a last token is the beginning of what it finds. One character of a run begins a pair."""
    if _RUN.match(token):
        return len(token) == 1
    return not quoted and len(token) >= PREFIX_CHARS


def _expression(term: _Term) -> str:
    """Write a term as FTS5 knows it: a phrase of the tokens that `indexed` makes of it."""
    *before, last = term.tokens
    words = [_pairs(token + " ") if _RUN.match(token) else token for token in before]
    words.append(_pairs(last) if _RUN.match(last) and len(last) > 1 else last)
    return f'"{" ".join(words)}"{"*" if term.goes_on else ""}'


def _alternatives(term: _Term) -> Iterator[str]:
    yield _expression(term)
    if len(term.tokens) == 1 and _RUN.match(term.first):
        for pair in _pairs(term.first).split():
            yield f'"{pair}"'


def _pattern(tokens: tuple[str, ...], *, goes_on: bool) -> re.Pattern[str]:
    written = "" if _RUN.match(tokens[0]) else f"(?<!{_LETTER})"
    for before, token in pairwise(("", *tokens)):
        if before:
            written += r"[\W_]*" if _RUN.match(before) or _RUN.match(token) else r"[\W_]+"
        written += re.escape(token)
    if not goes_on and not _RUN.match(tokens[-1]):
        written += f"(?!{_LETTER})"
    return re.compile(written)


# --- the place ---------------------------------------------------------------------------------------------------


def _best_line(folded: str, terms: Sequence[_Term], front: int) -> int | None:
    """Find the first line with the most different words: in the body, else in the front matter; None: there is none."""
    lines = folded.split("\n")
    parts = ((front, lines[front:]), (0, lines[:front]))
    for holds in (_holds, _holds_part):
        for before, part in parts:
            at = _best_of(part, terms, holds)
            if at is not None:
                return before + at + 1
    return None


def _best_of(lines: Iterable[str], terms: Sequence[_Term], holds: Callable[[_Term, str], bool]) -> int | None:
    best, most = None, 0
    for number, line in enumerate(lines):
        count = 0
        for term in terms:
            if term.first in line and holds(term, line):
                count += 1
        if count > most:
            best, most = number, count
            if most == len(terms):
                break
    return best


def _holds(term: _Term, line: str) -> bool:
    """Tell whether a line that holds a term's first token holds all of it, and as words."""
    return term.bare or term.pattern.search(line, line.find(term.first)) is not None


def _holds_part(_term: _Term, _line: str) -> bool:
    """Take a part of a word for it: the words of `fooBar`, and a phrase that goes on in the next line."""
    return True


def _front_lines(text: str) -> int:
    """Count the lines of the front matter with its two fences; 0: there is none."""
    first = text.partition("\n")[0]
    if first.lstrip("\ufeff").rstrip(_BLANKS) != _FENCE:
        return 0
    at = text.find("\n" + _FENCE, len(first))
    while at >= 0 and (number := text.count("\n", 0, at) + 2) <= PREVIEW_LINES:
        if text[at + 1 :].partition("\n")[0].rstrip(_BLANKS) == _FENCE:
            return number
        at = text.find("\n" + _FENCE, at + 1)
    return 0


def _fallback_line(text: str, front: int) -> int:
    """Find the description's line, else the first one of the body that says something."""
    lines = text.split("\n", PREVIEW_LINES)
    for number, line in enumerate(lines[:front], 1):
        if line.startswith("description:"):
            block = _BLOCK.fullmatch(line.partition(":")[2].strip())
            return number + 1 if block and number + 1 < front else number
    number, start = 1, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if number > front and _clean(text[start:end]):
            return number
        number, start = number + 1, end + 1
    return 1


def _line(text: str, number: int) -> str:
    return text.split("\n", number)[number - 1]


def _value(line: str) -> str:
    """Give what a line of front matter says, without its key and the quotes around it."""
    found = _VALUE.match(line.rstrip())
    value = (found[1] or "").strip() if found else line.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return value or line


def _clean(line: str) -> str:
    if line.isprintable():
        # Nothing in it steers or is blank but for blanks; that is most lines.
        line = line if line.isascii() else _UNSEEN.sub("", line)
        return " ".join(line.split()) if "  " in line else line.strip()
    return " ".join(_UNSEEN.sub("", _CONTROL.sub(" ", line)).split())


def _excerpt(line: str, terms: Iterable[_Term], width: int) -> str:
    """Cut a line to its width, around the first place with the most different words."""
    if len(line) <= width:
        return line
    first, last = _part(line, terms, width)
    snap = width // SNAP_SHARE
    begin = max(0, min(first - width // LEAD_SHARE, len(line) - width + 1))
    if begin:
        blank = line.find(" ", begin, min(begin + snap, first))
        begin = blank + 1 if blank >= 0 else begin
        while begin < first and unicodedata.combining(line[begin]):
            begin += 1
    end = begin + width - (1 if begin else 0)
    if end < len(line):
        end -= 1
        blank = line.rfind(" ", max(end - snap, last, begin + 1), end + 1)
        end = blank if blank >= 0 else end
        while end > begin and unicodedata.combining(line[end]):
            end -= 1
    cut = f"{'…' if begin else ''}{line[begin:end].rstrip()}{'…' if end < len(line) else ''}"
    return cut[: max(width, 0)]


def _part(line: str, terms: Iterable[_Term], width: int) -> tuple[int, int]:
    """Tell from where to where a line's best part goes, words at its edges whole; (0, 0) where it has no word."""
    folded = _folded(line)
    spans = sorted(_spans(folded, terms))
    if not spans:
        return 0, 0
    start, end = _densest(spans, width - width // LEAD_SHARE - 2)
    if len(folded) == len(line):
        return start, end
    return _origin(line, start), _origin(line, end - 1) + 1


def _densest(spans: Sequence[tuple[int, int, int]], room: int) -> tuple[int, int]:
    """Tell from where to where the first stretch goes that has the most different words within this room."""
    whole = spans[0][0], max(span[1] for span in spans)
    if len(spans) == 1 or whole[1] - whole[0] <= room:
        return whole
    best: tuple[int, int, int] = (0, 0, 0)
    for start, _, _ in spans:
        near = [span for span in spans if start <= span[0] and span[1] <= start + room]
        words = len({word for _, _, word in near})
        if words > best[0]:
            best = words, start, max(end for _, end, _ in near)
    return best[1:] if best[0] else spans[0][:2]


def _spans(folded: str, terms: Iterable[_Term]) -> Iterator[tuple[int, int, int]]:
    """Give the first places of each term in a line, with the term's number."""
    for number, term in enumerate(terms):
        at = folded.find(term.first)
        if at < 0:
            continue
        for start, end in _places(folded, term, at) or ((at, at + len(term.first)),):
            yield start, end, number


def _places(folded: str, term: _Term, at: int) -> list[tuple[int, int]]:
    """Give where a term stands in a line, the first four times; what it begins with, first `at`, is leapt to."""
    places: list[tuple[int, int]] = []
    while at >= 0 and len(places) < MOST_PLACES:
        found = term.pattern.match(folded, at)
        if found is not None:
            places.append(found.span())
        at = folded.find(term.first, found.end() if found is not None else at + 1)
    return places


def _origin(line: str, offset: int) -> int:
    """Tell which character of a line gave the one at this offset of the folded line."""
    passed = 0
    for start in range(0, len(line), _CHUNK):
        piece = line[start : start + _CHUNK]
        length = len(_folded(piece))
        if passed + length > offset:
            return start + _reach(piece, offset - passed + 1)
        passed += length
    return len(line)


def _reach(piece: str, length: int) -> int:
    """Tell the place of the character with which a text's folded form gets as long as this."""
    return bisect_left(range(1, len(piece) + 1), length, key=lambda end: len(_folded(piece[:end])))
