"""The prompt's text of an index is ZCode's, to the byte."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.injection import inject, strip, units_of

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "index_injection.json").read_text("utf-8"))
CASES = VECTORS["cases"]
CAPS = Caps(200, 25_000)


def bytes_of(case):
    """Make the file of a case."""
    if "b64" in case:
        return base64.b64decode(case["b64"])
    text = ""
    for part in case["parts"]:
        if isinstance(part, str):
            text += part
        else:
            first = part.get("start", 1)
            numbers = range(first, first + part["repeat"])
            text += "".join(part["t"].replace("{n}", str(number)) for number in numbers)
    return text.encode()


def sent(text):
    """Put U+FFFD for each lone surrogate."""
    return "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in text)


def test_vectors_are_complete():
    """All 246 cases are there."""
    assert len(CASES) == 246


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_vector(case):
    """Each case gives the text, the caps and the warning that ZCode's own function gave."""
    injection = inject(bytes_of(case), CAPS)
    if "unreadable" in case:
        assert injection is None
        return
    assert injection is not None
    assert injection.truncated == case["truncated"]
    assert list(injection.over) == case["caps"]
    assert units_of(injection.text) == case["outputUnits"]
    assert hashlib.sha256(injection.text.encode()).hexdigest() == case["outputSha256"]
    assert injection.text_hash == case["outputSha256"]
    if "output" in case:
        assert injection.text == sent(case["output"])
    else:
        assert injection.warning == case["warning"]
        kept = injection.text
        if injection.warning is not None:
            kept = kept.removesuffix("\n\n" + injection.warning)
        assert units_of(kept) == case["keptUnits"]
        assert kept.count("\n") + 1 == case["keptLines"]
        assert kept[-60:] == sent(case["keptTail"])[-60:]


def test_counts_are_those_before_the_caps():
    """Lines and units are counted after the strip and before the caps."""
    injection = inject(b"<!-- a -->\n---\n" + b"- [T](t.md)\n" * 300 + b"\n\n", CAPS)
    assert injection is not None
    assert (injection.lines, injection.units) == (301, 301 * 4 + 300 * 8 - 1)
    assert "is 301 lines (limit: 200)" in str(injection.warning)


def test_nothing_left_has_no_lines():
    """An empty index gives an empty text of no lines, which is hashed."""
    injection = inject(b" \n\n", CAPS)
    assert injection is not None
    assert (injection.text, injection.lines, injection.units) == ("", 0, 0)
    assert injection.text_hash == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("units", "size"),
    [
        (1_000, "1000 bytes"),
        (1_024, "1KB"),
        (1_075, "1KB"),
        (1_076, "1.1KB"),
        (1_048_575, "1024KB"),
        (1_048_576, "1MB"),
    ],
)
def test_size_words(units, size):
    """Sizes are rounded as JavaScript rounds, bytes to megabytes."""
    injection = inject(b"x" * units, Caps(200, 10))
    assert injection is not None
    assert str(injection.warning).startswith(f"> WARNING: MEMORY.md is {size} (limit: 10 bytes)")


def test_dash_block_needs_a_second_one():
    """A leading `---` without another is text, however many lines follow it."""
    text = "---\n" + "\n" * 200_000 + "x"
    assert strip(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "---\na\n--- b\n- x\n",
        "\ufeff- x\r\n<!-- c -->\r\n- y\r\r\n\r- z\r",
        "- a\n<!-- c -->\n\n<!-- d --> e <!-- f --> g\n\nh",
        "---\nk\n---\n\n<!-- c\n-->\n  z  ",
        "  <!-- only -->  ",
    ],
)
def test_offsets_lead_back(text):
    """Every character that is left can be found again in the source."""
    stripped = strip(text)
    for index, char in enumerate(stripped.text):
        assert stripped.source[stripped.offset(index)].replace("\r", "\n") == char


@given(st.text(alphabet=st.sampled_from("-<!> \n\r\tab[](`#*\ufeff\u3000🐛"), max_size=80))
def test_offsets_lead_back_from_any_text(text):
    """The same for any text of the characters that matter."""
    stripped = strip(text)
    got = "".join(stripped.source[stripped.offset(index)] for index in range(len(stripped.text)))
    assert got.replace("\r", "\n") == stripped.text.replace("\r", "\n")


@given(st.text(max_size=400), st.integers(1, 12), st.integers(1, 60))
def test_text_within_the_caps(text, lines, units):
    """Whatever the text, what is kept of it is within both caps, and is all of it if it was."""
    injection = inject(text.encode("utf-8", "replace"), Caps(lines, units))
    if injection is None:
        return
    if injection.warning is None:
        assert (injection.lines, injection.units) <= (lines, injection.units)
        assert units_of(injection.text) == injection.units <= units
        assert not injection.truncated
        return
    kept = injection.text.removesuffix("\n\n" + injection.warning)
    assert kept.count("\n") < lines
    assert units_of(kept) <= units
    assert injection.over
    assert injection.text.encode()


@given(st.binary(max_size=200))
def test_any_bytes(content):
    """No bytes raise; what is decoded can be written as UTF-8."""
    injection = inject(content, CAPS)
    if injection is not None:
        assert hashlib.sha256(injection.text.encode()).hexdigest() == injection.text_hash
