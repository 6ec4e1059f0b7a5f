"""Bytes of a file to the text that ZCode reads from them: UTF-8, UTF-16LE with a mark, the GBK family. Pure.

Rule 1: what ZCode reads as garbage is garbage here too; what it cannot read at all is None, never an empty text.
Rule 2: the usual file (valid UTF-8) takes one decode and two looks for control bytes.

ZCode guesses in this order: a UTF-8 mark, a UTF-16LE mark, binary, valid UTF-8, then GB2312, GBK and GB18030, each
of which must give the same bytes back when the text is encoded again, up to three bytes at the end left out
(docs/format.md; tests/vectors/manifest.json). Its tables differ from Python's codecs in a handful of places, which
`_widen` knows.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

Encoding = Literal["utf-8", "utf-16le", "gbk"]

MARK = "\ufeff"
CONTROL_SHARE = 0.3
"""More control bytes than this share of a file, and ZCode takes it for binary."""
TAIL_BYTES = 3
"""So many bytes at the end may be no GBK: a file that was cut inside a character."""

_CONTROLS = bytes(byte for byte in range(0x20) if byte not in range(0x09, 0x0E))


@dataclass(frozen=True, slots=True)
class Decoded:
    """What ZCode reads from a file's bytes. A byte order mark stays in the text as its first character."""

    text: str
    encoding: Encoding
    """`gbk` stands for the family: GB2312, GBK, GB18030."""
    bom: bool
    """The text begins with a byte order mark. ZCode strips one before it looks for front matter."""
    lossy: bool
    """Some bytes could not be decoded and are U+FFFD in the text: the bytes cannot be had back from it."""


def decode(content: bytes) -> Decoded | None:
    """Give the text that ZCode reads from these bytes; None if it calls them binary or unknown."""
    if content.startswith(codecs.BOM_UTF8):
        return _utf8_with_mark(content)
    if content.startswith(codecs.BOM_UTF16_LE):
        return _utf16_with_mark(content)
    if _is_binary(content):
        return None
    try:
        return Decoded(content.decode(), "utf-8", bom=False, lossy=False)
    except UnicodeDecodeError:
        return _gbk(content)


def cut_inside_character(content: bytes) -> bool:
    """Tell whether the bytes are UTF-8 up to a last character that is not whole: a file caught half-written."""
    try:
        _, used = codecs.utf_8_decode(content, "strict", False)
    except UnicodeDecodeError:
        return False
    return used < len(content)


def well_formed(text: str) -> str:
    """Join surrogate pairs and put U+FFFD for surrogates that stand alone, as they leave JavaScript in UTF-8.

    A lone surrogate comes from UTF-16 or from an escape in YAML; neither UTF-8 nor SQLite can hold one.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _is_binary(content: bytes) -> bool:
    if b"\0" in content:
        return True
    controls = len(content) - len(content.translate(None, _CONTROLS))
    return controls > 0 and controls / len(content) > CONTROL_SHARE


def _utf8_with_mark(content: bytes) -> Decoded:
    try:
        return Decoded(content.decode(), "utf-8", bom=True, lossy=False)
    except UnicodeDecodeError:
        return Decoded(content.decode(errors="replace"), "utf-8", bom=True, lossy=True)


def _utf16_with_mark(content: bytes) -> Decoded:
    odd = len(content) % 2
    even = content[: len(content) - odd]
    return Decoded(even.decode("utf-16-le", "surrogatepass"), "utf-16le", bom=True, lossy=bool(odd))


def _gbk(content: bytes) -> Decoded | None:
    """Try the three tables, narrow to wide; a table fits if all but the last bytes are characters of it."""
    for table in _TABLES:
        text, whole = _decode_with(table, content)
        if whole == len(content):
            return Decoded(text, "gbk", bom=text.startswith(MARK), lossy=False)
        if whole > 0 and len(content) - whole <= TAIL_BYTES:
            text += _tail(table, content[whole:])
            return Decoded(text, "gbk", bom=text.startswith(MARK), lossy=True)
    return None


def _decode_with(table: str, content: bytes) -> tuple[str, int]:
    """Give the text up to the first bytes that are no character of the table, and how many bytes that took."""
    try:
        return content.decode("gbk", table), len(content)
    except UnicodeDecodeError as error:
        return content[: error.start].decode("gbk", table), error.start


def _tail(table: str, rest: bytes) -> str:
    """Read the last bytes as iconv-lite does: what has no way back counts now, U+FFFD for what begins nothing."""
    text = ""
    while rest:
        part, whole = _decode_with(table, rest)
        text += part
        rest = rest[whole:]
        if rest:
            odd = next((sign for sign in _ONE_WAY.get(table, ()) if rest.startswith(sign)), None)
            text += "\ufffd" if odd is None else _ONE_WAY[table][odd]
            rest = rest[len(odd or b"?") :]
    return text


def _widen(error: UnicodeError, *, pairs: bool, fours: bool, euro: bool) -> tuple[str, int]:
    """Read what a table of iconv-lite 0.7.2 has over Python's `gbk`; raise where it has nothing either.

    Source: all sequences of one, two and four bytes, compared. 0x80 is the euro sign but in GB18030; every pair
    that is no character of `gbk` is a private one, but for A2E3 (the euro sign, in GB18030) and A3A0 (a second
    blank, which does not survive the way back); A8BC and 8135F437 have changed places since Python's table, and
    the latter is the only four bytes that its GBK knows.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    start = error.start
    first = error.object[start]
    pair = error.object[start : start + 2]
    if first == 0x80:
        if euro:
            return "€", start + 1
        raise error
    if first == 0xFF or len(pair) < 2:
        raise error
    if pairs and 0x40 <= pair[1] <= 0xFE and pair[1] != 0x7F:
        if pair == b"\xa3\xa0" or (pair == b"\xa2\xe3" and not fours):
            raise error
        return ("ḿ" if pair == b"\xa8\xbc" else pair.decode("gb18030")), start + 2
    four = error.object[start : start + 4]
    if pairs and four == b"\x81\x35\xf4\x37":
        return "\ue7c7", start + 4
    if fours and len(four) == 4 and 0x30 <= pair[1] <= 0x39:
        try:
            return four.decode("gb18030"), start + 4
        except UnicodeDecodeError:
            raise error from None
    raise error


def _gb2312(error: UnicodeError) -> tuple[str, int]:
    return _widen(error, pairs=False, fours=False, euro=True)


def _gbk_whole(error: UnicodeError) -> tuple[str, int]:
    return _widen(error, pairs=True, fours=False, euro=True)


def _gb18030(error: UnicodeError) -> tuple[str, int]:
    return _widen(error, pairs=True, fours=True, euro=False)


_TABLES = ("zcsyncd-gb2312", "zcsyncd-gbk", "zcsyncd-gb18030")
_ONE_WAY = {
    "zcsyncd-gbk": {b"\xa2\xe3": "€", b"\xa3\xa0": "\u3000"},
    "zcsyncd-gb18030": {b"\x80": "€", b"\xa3\xa0": "\u3000"},
}
"""What a table of iconv-lite reads but writes otherwise: no sign of the table, read at a cut end nevertheless."""
for _name, _handler in zip(_TABLES, (_gb2312, _gbk_whole, _gb18030), strict=True):
    codecs.register_error(_name, _handler)
