"""Code fences are followed line by line, in lists and quotes too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from zcsyncd.memory.fences import Fences


def fenced(text):
    """Tell line by line what stands in a fence, as a string of 1 and 0."""
    fences = Fences()
    return "".join("10"[not fences.takes(line)] for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n```\nb\n```\nc", "01110"),
        ("~~~ py\n```\n~~~\nc", "1110"),
        ("````\n```\n````\nc", "1110"),
        ("```\n``` x\n```  \nc", "1110"),
        ("``` a`b\nc", "00"),
        ("``\na", "00"),
        ("    ```\na", "00"),
        ("   ```\na\n   ```\nb", "1110"),
        ("```\na\n    ```\nb", "1111"),
        ("```\na\nb", "111"),
        ("- a\n  ```\n  b\n  ```\n- c", "01110"),
        ("- a\n  ```\n  b\n- c", "0110"),
        ("- a\n  ```\n  b\nc", "0110"),
        ("- ```\n  a\n  ```\n- b", "1110"),
        ("1. a\n   ```\n   b\n2. c", "0110"),
        ("- a\n  - b\n    ```\n    c\n  - d", "00110"),
        ("- a\n      ```\n- b", "000"),
        ("> ```\n> a\n> ```\n> b", "1110"),
        ("> ```\n> a\nb", "110"),
        ("> ```\n\n> a", "100"),
        ("- a\nb\n  ```\nc", "0010"),
        ("```\n\na", "111"),
        ("-\t```\n\ta\n- b", "110"),
    ],
)
def test_fences(text, lines):
    """A fence ends at its like or with what holds it."""
    assert fenced(text) == lines


@given(
    st.lists(
        st.sampled_from(
            ["a", "```", "~~~", "````", "``` x", "- b", "  c", "  ```", "# d", "   ~~~", "1. e", ""]
        ),
        min_size=1,
        max_size=10,
    )
)
def test_agrees_with_the_parser(lines):
    """What the parser takes for a fence is taken for one here."""
    text = "\n".join(lines)
    parser = MarkdownIt("commonmark")
    want = ["0"] * len(lines)
    for token in parser.parse(text):
        if token.type == "fence":
            first, after = token.map
            want[first:after] = ["1"] * (after - first)
    told = [(line, fence) for line, fence in zip(lines, fenced(text), strict=True) if line]
    assert told == [(line, fence) for line, fence in zip(lines, want, strict=True) if line]
