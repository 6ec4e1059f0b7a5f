"""A host's JSON file, changed in one place: what is there stays, what would be lost is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.errors import Refused
from zcsyncd.install.hosts_json import EMPTY, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(), VALUES, max_size=4),
    st.sampled_from([2, 4, "\t"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_file_is_written_as_it_was(value, indent, crlf, mark, end):
    """Indentation, line ends, mark and last newline, where there is anything to be seen of them."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = ("\ufeff" if mark else "") + text + ("\n" if end else "")
    content = text.replace("\n", "\r\n" if crlf else "\n").encode("utf-8", "surrogatepass")
    document = parse("f", content)
    assert document.value == value
    assert document.text(value) == content


def test_nothing_is_an_empty_object():
    """A file that is not there, or holds but space."""
    assert parse("f", None) == EMPTY
    assert parse("f", b" \n").value == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "line 1"),
        (b"{\n  // mine\n}", "line 2"),
        (b'{"a": 1,}', "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"a": NaN}', "NaN"),
        (b"\xff{}", "UTF-8"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_would_lose_something_is_refused(content, says):
    """With the file's name, what is wrong, and that nothing was written."""
    with pytest.raises(Refused) as caught:
        parse("/x/config.json", content)
    assert "/x/config.json is left as it is" in caught.value.message
    assert says in caught.value.message
