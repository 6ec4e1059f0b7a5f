"""A new fact's file: names that every system can hold and every person can see, and nothing bent in silence."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import Refused
from zcsyncd.memory.audit.names import read_names
from zcsyncd.memory.naming import FILE_BYTES, file_for
from zcsyncd.memory.recall import is_candidate


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("release-calendar", "release-calendar.md"),
        ("release-calendar.md", "release-calendar.md"),
        ("Release.MD", "Release.md"),
        ("v1.2 notes (old) & more!", "v1.2 notes (old) & more!.md"),
        ("a.md.md", "a.md.md"),
        ("用户偏好", "用户偏好.md"),
        ("Gro\u0308ße", "Größe.md"),
        ("launch 🚀", "launch 🚀.md"),
        ("memory-of-elephants", "memory-of-elephants.md"),
        ("console", "console.md"),
        ("com10", "com10.md"),
        ("x" * (FILE_BYTES - 3), "x" * (FILE_BYTES - 3) + ".md"),
    ],
)
def test_good_names(name, file):
    """An ordinary name in any language is kept, in NFC; `.md` is put behind it once."""
    assert file_for(name) == file


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        (".md", "empty"),
        ("  ", "empty"),
        ("a/b", "separator"),
        ("a\\b", "separator"),
        ("/a", "separator"),
        ("../a", "separator"),
        ("..", "dot"),
        (".", "dot"),
        (".hidden", "dot"),
        ("a..b", r"`\.\.`"),
        (" a", "blank"),
        ("a ", "blank"),
        ("a .md", "blank"),
        ("a.", "dot"),
        ("a\u3000", "blank"),
        ("MEMORY", "index"),
        ("memory.md", "index"),
        ("Memory.MD", "index"),
        ("a\nb", r"U\+000A"),
        ("a\rb", r"U\+000D"),
        ("a\0b", r"U\+0000"),
        ("a\tb", r"U\+0009"),
        ("a\x7fb", r"U\+007F"),
        ("a\x85b", r"U\+0085"),
        ("a\u2028b", r"U\+2028"),
        ("a\u202eb", r"U\+202E"),
        ("a\u200bb", r"U\+200B"),
        ("a\ufeffb", r"U\+FEFF"),
        ("a\U000e0041b", r"U\+E0041"),
        ("a\uffff", r"U\+FFFF"),
        ("a\ud800b", r"U\+D800"),
        *((f"a{sign}b", "Windows") for sign in '<>:"|?*'),
        ("con", "device"),
        ("NUL", "device"),
        ("aux.txt", "device"),
        ("com1", "device"),
        ("LPT³.md", "device"),
        ("con .x", "device"),
        ("x" * (FILE_BYTES - 2), "200 bytes"),
        ("语" * 66, "200 bytes"),
        ("x" * 5_000, "bytes"),
    ],
)
def test_refused_names(name, said):
    """A name that some system cannot hold, or that nobody sees as it is, is refused with the reason and a hint."""
    with pytest.raises(Refused, match=said) as caught:
        file_for(name)
    assert caught.value.hint
    assert caught.value.data == {"parameter": "name"}
    assert caught.value.message.isprintable()


@given(st.one_of(st.text(max_size=80), st.text(st.sampled_from("aé.mdM CONcon1 \\/-語\u0301"), max_size=12)))
def test_whatever_is_taken_is_safe(name):
    """A file that is given is a candidate for recall, needs no remark on its name, and leaves room for a temp."""
    try:
        file = file_for(name)
    except Refused:
        return
    assert is_candidate(file)
    assert "/" not in file
    assert file == unicodedata.normalize("NFC", file)
    assert read_names("/d", (file,), ()).findings == ()
    assert len(f"{file}.tmp.{2**22}.{'0' * 12}".encode()) <= 255
    assert file_for(file) == file
