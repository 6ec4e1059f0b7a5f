"""Bytes become the text that ZCode reads from them, or None."""

import codecs
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.memory.text import Decoded, cut_inside_character, decode, well_formed

# (id, bytes, text, encoding, bom, lossy): what ZCode's rules with iconv-lite 0.7.2 and Node 20 give.
READ = [
    ("empty", b"", "", "utf-8", False, False),
    ("ascii", b"a\r\nb\n", "a\r\nb\n", "utf-8", False, False),
    ("utf-8", "中文 é 🚀".encode(), "中文 é 🚀", "utf-8", False, False),
    ("utf-8-nonchar", "a\uffff\ufdd0".encode(), "a\uffff\ufdd0", "utf-8", False, False),
    ("mark-kept", b"\xef\xbb\xbf---\n", "\ufeff---\n", "utf-8", True, False),
    ("two-marks", b"\xef\xbb\xbf\xef\xbb\xbfx", "\ufeff\ufeffx", "utf-8", True, False),
    ("mark-bad-byte", b"\xef\xbb\xbfx\xffy", "\ufeffx\ufffdy", "utf-8", True, True),
    ("mark-overlong", b"\xef\xbb\xbfx\xc0\x80y", "\ufeffx\ufffd\ufffdy", "utf-8", True, True),
    ("mark-surrogate", b"\xef\xbb\xbf\xed\xa0\x80", "\ufeff\ufffd\ufffd\ufffd", "utf-8", True, True),
    ("mark-cut", b"\xef\xbb\xbfa\xe4\xb8", "\ufeffa\ufffd", "utf-8", True, True),
    ("mark-nul", b"\xef\xbb\xbfa\x00", "\ufeffa\x00", "utf-8", True, False),
    ("utf-16le", codecs.BOM_UTF16_LE + "中a🚀".encode("utf-16-le"), "\ufeff中a🚀", "utf-16le", True, False),
    ("utf-16le-odd", b"\xff\xfea\x00b", "\ufeffa", "utf-16le", True, True),
    ("utf-16le-lone", b"\xff\xfe\x3d\xd8a\x00", "\ufeff\ud83da", "utf-16le", True, False),
    ("utf-16le-nul", b"\xff\xfe\x00\x00", "\ufeff\x00", "utf-16le", True, False),
    ("gbk", "正文说明".encode("gbk"), "正文说明", "gbk", False, False),
    ("gbk-euro", b"\x80\xd5\xfd", "€正", "gbk", False, False),
    ("gbk-private", b"\xd5\xfd\xa1\x40\xaa\xa1.........", "正\ue4c6\ue000.........", "gbk", False, False),
    ("gbk-euro-and-private", b"\x80\xae\xba....", "€\ue191....", "gbk", False, False),
    ("gbk-moved-letter", b"\xa8\xbc\xd5\xfd....", "ḿ正....", "gbk", False, False),
    ("gbk-only-four", b"\x80\x81\x35\xf4\x37....", "€\ue7c7....", "gbk", False, False),
    ("gb18030", b"\x81\x39\xee\x39 \x95\x34\xb2\x35....", "㐀 𠮷....", "gbk", False, False),
    ("gb18030-euro", b"\xa2\xe3\x81\x39\xee\x39....", "€㐀....", "gbk", False, False),
    ("gb18030-mark", b"\x84\x31\x95\x33\xd5\xfd\x81\x39\xee\x39....", "\ufeff正㐀....", "gbk", True, False),
    ("latin-1", b"Gr\xf6\xdfere \xc4nderung", "Gr鲞ere 膎derung", "gbk", False, False),
    ("gbk-cut", b"\xd5\xfd\xce\xc4\xcb", "正文\ufffd", "gbk", False, True),
    ("gbk-bad-tail", b"a\xff\xffb", "a\ufffd\ufffdb", "gbk", False, True),
    ("gbk-private-near-end", b"\xd5\xfd\xa1\x40\n", "正\ufffd@\n", "gbk", False, True),
    ("gb18030-tail-euro", b"\x81\x39\xee\x39....\x80", "㐀....€", "gbk", False, True),
    ("few-controls", b"\x01\x02\x03abcdefg", "\x01\x02\x03abcdefg", "utf-8", False, False),
    ("white-is-no-control", b"\t\n\x0b\x0c\r", "\t\n\x0b\x0c\r", "utf-8", False, False),
    ("del-is-no-control", b"\x7f\x7f", "\x7f\x7f", "utf-8", False, False),
]

UNREAD = [
    ("nul", b"text\x00"),
    ("png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
    ("utf-16be", codecs.BOM_UTF16_BE + "text".encode("utf-16-be")),
    ("utf-16le-without-mark", "text".encode("utf-16-le")),
    ("controls", b"\x01\x02\x03\x04\x05\x06AB"),
    ("controls-just-over", b"\x01\x02\x03\x04abcdefgh"),
    ("bad-bytes", b"bad \xff\xfe\xfd tail"),
    ("bad-pair", b"bad \xc3( tail"),
    ("second-blank", b"\xd5\xfd\xa3\xa0....."),
    ("bad-four", b"\x81\x39\xee\x2f....."),
    ("four-beyond", b"\x84\x32\x81\x30....."),
    ("lone-byte", b"\xff"),
    ("lone-lead", b"\x81"),
]


@pytest.mark.parametrize("case", READ, ids=lambda case: case[0])
def test_reads_as_zcode(case):
    """Encoding, text, mark and loss are what ZCode's guessing gives."""
    _, content, *expected = case
    assert decode(content) == Decoded(*expected)


@pytest.mark.parametrize(("content"), [pytest.param(content, id=name) for name, content in UNREAD])
def test_refuses_as_zcode(content):
    """What ZCode calls binary or unknown is None, never an empty text."""
    assert decode(content) is None


def test_half_written_utf8_is_read_as_gbk():
    """A UTF-8 file cut inside a character is garbage for ZCode, not an error."""
    decoded = decode("用户偏好先给结论，末尾".encode()[:-1])
    assert decoded is not None
    assert decoded.encoding == "gbk"
    assert decoded.text.startswith("鐢ㄦ埛")


@pytest.mark.parametrize(
    ("content", "cut"),
    [
        (b"", False),
        (b"abc", False),
        ("中".encode(), False),
        ("中".encode()[:1], True),
        ("中".encode()[:2], True),
        ("🚀".encode()[:3], True),
        ("a中".encode()[:-1], True),
        ("中a".encode()[1:], False),
        ("中文".encode()[:2] + b"a", False),
        (b"a\xff", False),
        (b"a\xc0", False),
        (b"\xef\xbb\xbfa\xe4", True),
    ],
)
def test_cut_inside_character(content, cut):
    """Only bytes that are UTF-8 up to an unfinished last character count as cut."""
    assert cut_inside_character(content) is cut


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("中🚀", "中🚀"),
        ("\ud83d\ude80", "🚀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude80\ud83d中", "\ufffd\ufffd中"),
    ],
)
def test_well_formed(text, expected):
    """Surrogate pairs become characters, lone ones U+FFFD."""
    assert well_formed(text) == expected


def test_long_gbk_is_read_in_one_go():
    """A large file of private characters takes time in its length, not in its square."""
    content = b"\xae\xba" * 100_000
    decoded = decode(content)
    assert decoded is not None
    assert decoded.text == "\ue191" * 100_000


@given(st.binary(max_size=64))
def test_any_bytes(content):
    """No bytes raise, and what is read is one of the three encodings."""
    decoded = decode(content)
    assert decoded is None or decoded.encoding in {"utf-8", "utf-16le", "gbk"}
    well_formed(decoded.text if decoded else "").encode()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_utf8(text):
    """UTF-8 without control characters is read as it is."""
    decoded = decode(text.encode())
    assert decoded == Decoded(text, "utf-8", bom=text.startswith("\ufeff"), lossy=False)


@given(st.text(alphabet=st.characters(codec="gbk", exclude_categories=["Cc"])))
def test_any_gbk(text):
    """Text in GBK comes back unless its bytes happen to be UTF-8."""
    content = text.encode("gbk")
    try:
        expected = content.decode()
    except UnicodeDecodeError:
        expected = text
    decoded = decode(content)
    if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE)):
        return
    assert decoded is not None
    assert decoded.text == expected


@given(st.text(min_size=1), st.integers(min_value=1, max_value=3), st.randoms(use_true_random=False))
def test_any_cut(text, drop, chance: random.Random):
    """A cut is found exactly where the last character loses bytes."""
    content = text.encode(errors="replace")
    last = len(text[-1].encode(errors="replace"))
    drop = min(drop, last - 1)
    assert cut_inside_character(content[: len(content) - drop]) is (drop > 0)
