"""The last step of the river, text for eyes: harmless characters, cells that align, colour. Pure.

Rule 1: whatever comes from a file or from the wire goes through `harmless` before it is shown. A name may hold a
line break, a description an escape sequence or a right-to-left override; shown raw they can pass for something else.
Rule 2: widths are counted in terminal cells, not in characters.
Rule 3: `zcsyncd status` imports this module on its fast path, so it imports nothing but unicodedata.
"""

from __future__ import annotations

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ELLIPSIS = "…"

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional and zero-width), lone surrogate, line and paragraph separator."""

_HIDDEN_RANGES = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # inherent Khmer vowels
    (0x180B, 0x180F),  # Mongolian variation selectors
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # half-width Hangul filler
    (0xE0000, 0xE0FFF),  # tags and further variation selectors: text can be smuggled in them
)
"""Characters without ink that are no format characters (Unicode: Default_Ignorable_Code_Point)."""

_EMOJI_SELECTORS = frozenset("\ufe0e\ufe0f")

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def _is_hidden(character: str) -> bool:
    if unicodedata.category(character) in _HIDDEN_CATEGORIES:
        return True
    code = ord(character)
    return code >= 0x034F and any(low <= code <= high for low, high in _HIDDEN_RANGES)


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def harmless(text: str) -> str:
    r"""Give one line in which every character that cannot be seen stands as its escape (`\x1b`, `\u202e`, `\n`).

    An emoji selector right after a symbol stays: it is part of how that symbol is written.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    before = ""
    for character in text:
        is_emoji = character in _EMOJI_SELECTORS and before != "" and unicodedata.category(before) == "So"
        shown.append(character if is_emoji or not _is_hidden(character) else _escaped(character))
        before = character
    return "".join(shown)


def harmless_lines(text: str) -> list[str]:
    """Give the lines of a text, each made harmless; tabs stay, and so does the meaning of CR LF."""
    return [
        "\t".join(harmless(part) for part in line.split("\t"))
        for line in text.replace("\r\n", "\n").split("\n")
    ]


def width(text: str) -> int:
    """Count the terminal cells that a harmless text takes: wide characters two, combining ones none, paint none."""
    if "\x1b" in text:
        text = _bare(text)
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _bare(text: str) -> str:
    """Take the paint off; in a harmless text every escape character is `Paint`'s."""
    first, *painted = text.split("\x1b[")
    return first + "".join(part.partition("m")[2] for part in painted)


def _cells(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def cut(text: str, cells: int, *, keep_end: bool = False) -> str:
    """Give at most `cells` cells of a text, with an ellipsis where something is gone.

    `keep_end` cuts at the front: of a path the end is what tells.
    """
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if keep_end:
        return ELLIPSIS + _take(text[::-1], cells - 1)[::-1]
    return _take(text, cells - 1) + ELLIPSIS


def _take(text: str, cells: int) -> str:
    taken = 0
    in_paint = False
    for position, character in enumerate(text):
        in_paint = in_paint or character == "\x1b"
        taken += 0 if in_paint else _cells(character)
        if taken > cells:
            return text[:position]
        in_paint = in_paint and character != "m"
    return text


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Fill a text with blanks up to `cells` cells; `right` puts the blanks before it."""
    blanks = " " * max(0, cells - width(text))
    return blanks + text if right else text + blanks


LEAST_ROOM = 8
"""A terminal narrower than this cannot be served sensibly."""


def wrapped(text: str, cells: int | None, *, hang: int = 0) -> list[str]:
    """Break a harmless text at blanks into lines of at most `cells` cells; None breaks nothing.

    Lines after the first begin with `hang` blanks. A word that is wider than a line is broken inside, so that nothing
    is lost; only a path is left whole, so that it can be copied, and is then the one thing that is wider than `cells`.
    """
    if cells is None or width(text) <= cells:
        return [text]
    room = max(cells, LEAST_ROOM + hang)
    lines: list[str] = []
    line, margin = "", ""
    for word in _words(text, room - hang):
        if line == margin:
            line += word
        elif width(line) + 1 + width(word) > room:
            lines.append(line.rstrip(" "))
            margin = " " * hang
            line = margin + word
        else:
            line += " " + word
    return [*lines, line]


def fitted(lines: Iterable[str], cells: int | None, *, hang: int = 4) -> list[str]:
    """Break lines as `wrapped` does, each going on under its own beginning, `hang` cells further in."""
    if cells is None:
        return [*lines]
    made: list[str] = []
    for line in lines:
        text = line.lstrip(" ")
        margin = " " * (len(line) - len(text))
        made += [margin + part for part in wrapped(text, cells - len(margin), hang=hang)]
    return made


def _words(text: str, cells: int) -> Iterable[str]:
    for word in text.split(" "):
        rest = word
        is_whole = width(word) <= cells or _is_path(word)
        while not is_whole and width(rest) > cells:
            piece = _take(rest, cells)
            yield piece
            rest = rest[len(piece) :]
        yield rest


def _is_path(word: str) -> bool:
    return (_bare(word) if "\x1b" in word else word).lstrip("(`").startswith(("/", "~/", "\\\\"))


def with_program(text: str, program: str) -> str:
    """Give a text in which each command between backticks begins with what calls this program here."""
    return text.replace("`zcsyncd ", f"`{program} ")


class Paint:
    """Colour for a terminal; off, every text comes back as it went in."""

    __slots__ = ("on",)

    def __init__(self, *, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, style: str | None) -> str:
        """Put a text into a style of `STYLES`; several are joined by a blank; None paints nothing."""
        if not self.on or not style or not text:
            return text
        codes = ";".join(STYLES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"


def wants_colour(*, is_terminal: bool, no_colour: str | None, term: str | None) -> bool:
    """Tell whether to paint: on a terminal that can, unless NO_COLOR is set and not empty (https://no-color.org)."""
    return is_terminal and not no_colour and term != "dumb"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Give `1 fact`, `2 facts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Give a span of time in its two largest units: `3 d 4 h`, `12 min 5 s`, `8 s`."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def amount(size_bytes: int) -> str:
    """Give a size for people: `512 B`, `31.4 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            return f"{size:.1f} {unit}"
    return f"{size_bytes} B"


def bar(text: str, cells: int) -> str:
    """Give a line of a transcript's caption, filled up with a rule to `cells` cells."""
    return f"── {text} " + "─" * max(0, cells - width(text) - 4)
