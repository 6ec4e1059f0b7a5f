"""JSON without the standard module: it reads and writes what that one does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.plugins.quick_json import read_json, write_json

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_it_reads_what_it_wrote_and_so_does_json(value):
    """Any plain value goes through both unharmed, on one line of ASCII."""
    text = write_json(value)
    assert read_json(text) == value
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" not in text


@given(PLAIN | st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([None, 1, "\t"]))
def test_it_reads_what_json_wrote(value, indent):
    """With space around and in it, and floats."""
    assert read_json(f" \n{json.dumps(value, indent=indent)}\r\n ") == value


@pytest.mark.parametrize(
    "text", ["", " ", "{", "{}{}", "nope", "[1,]", '{"a" 1}', '"\n"', "\ufeff{}", "NaN", "'a'", "01"]
)
def test_what_is_no_json_is_an_error(text):
    """Never a value, never another kind of error."""
    with pytest.raises(ValueError):
        read_json(text)


def test_what_is_no_json_is_an_error_without_the_standard_module_too():
    """As in a hook, where nothing has imported it."""
    script = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from zcsyncd.plugins.quick_json import read_json\n"
        "for text in ('{', '[1,]', '', 'x', '{\"a\" 1}', 'NaN', '{}{}'):\n"
        "    try: read_json(text)\n"
        "    except ValueError: continue\n"
        "    raise AssertionError(text)\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-IS", "-c", script, root], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_hopeless_depth_is_an_error():
    """As with the standard module."""
    with pytest.raises((RecursionError, ValueError)):
        read_json("[" * 200_000)


def test_without_the_accelerator_the_standard_module_does_it():
    """On an interpreter that has none, the same values come out."""
    script = (
        "import sys; sys.modules['_json'] = None\n"
        "from zcsyncd.plugins.quick_json import read_json, write_json\n"
        "value = {'a': [1, None, True, 'ü\\u2028']}\n"
        "assert read_json(write_json(value)) == value\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", [1.5, object(), b"x", {1, 2}])
def test_what_it_cannot_write_is_an_error(value):
    """Nothing else is needed on the wire."""
    with pytest.raises(TypeError):
        write_json(value)
