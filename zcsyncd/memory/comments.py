"""Top-level HTML comments in Markdown: a text to the spans that ZCode leaves out of the prompt. Pure.

ZCode asks marked 16.4.2 for the blocks of the text and drops the comments of those that are HTML and begin with one.
markdown-it-py's `html_block` tokens at level 0 are the same blocks (tests/vectors/index_injection.json).

It agrees with marked but for a handful of shapes that no index has: an empty list item or a quote that is nothing but
a comment, with an indented comment in the next line; a link definition whose target is a comment; a definition given
twice; a lone `</script>`, `</pre>`, `</style>`.

Rule 1: this is the only importer of markdown-it-py, and it imports it when a line can begin such a block: most
indexes hold no comment, and the import costs a tenth of a second and 6 MiB.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

Span = tuple[int, int]
"""Where a piece of a text begins, and the first place after it."""

JS_BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's trim takes off; Python's strip knows other characters."""
MAX_LINES = 10_000
"""Fifty times what a prompt takes. The parser needs up to 60 µs a line; comments further down count as text."""
MAX_CHARS = 500_000
"""Twenty times what a prompt takes, for the same reason."""

MAX_HEADING_LINES = 50
"""A heading of more lines than this is none."""

_ENDS_HEADING = re.compile(r"<[^>]+>$|[-*+][ \t]|\d{1,9}[.)] |>|#{1,6}(?:\s|$)|```|~~~")
_UNDERLINE = re.compile("(?:=+|-+) *")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CANDIDATE = re.compile(r"(?:\A|[\r\n]) {0,3}<!--")
_LINE_END = re.compile(r"\r\n|\r|\n")


def comment_spans(text: str) -> tuple[Span, ...]:
    """Give the spans of `text` that go with its top-level comments, in order, none touching another's inside.

    A block of which only white space is left goes as a whole, with the line ends after it; of any other block only
    the comments go. An unclosed comment stays.
    """
    candidate = _CANDIDATE.search(text)
    if candidate is None or text.find("-->", candidate.start()) < 0:
        return ()
    spans: list[Span] = []
    for start, end in _html_blocks(text):
        spans.extend(_dropped(text, start, end))
    return tuple(spans)


def _html_blocks(text: str) -> Iterator[Span]:
    """Give the whole lines of each top-level HTML block. Each kind of line end counts as one."""
    head = text[:MAX_CHARS]
    starts = [0]
    for end in _LINE_END.finditer(head):
        starts.append(end.end())
        if len(starts) > MAX_LINES:
            head = head[: end.end()]
            break
    tokens: list[Token] = []
    parser = _parser()
    parser.block.parse(_LINE_END.sub("\n", head), parser, {}, tokens)
    for token in tokens:
        if token.type == "html_block" and token.level == 0 and token.map:
            first, after = token.map
            yield starts[first], starts[after] if after < len(starts) else len(head)


def _dropped(text: str, start: int, end: int) -> list[Span]:
    block = text[start:end]
    if not block.lstrip(" ").startswith("<!--") or "-->" not in block:
        return []
    comments = list(_COMMENT.finditer(block))
    if _COMMENT.sub("", block).strip(JS_BLANKS):
        return [(start + comment.start(), start + comment.end()) for comment in comments]
    while end < len(text) and text[end] in "\r\n":
        end += 1
    return [(start, end)]


def _interrupts(state: StateBlock, line: int) -> bool:
    """Tell whether marked ends a paragraph before this line, at which HTML could begin.

    CommonMark lets any HTML but a lone tag interrupt a paragraph, with up to three blanks before it. marked wants a
    comment or one of the known tags, without a blank; and what an underline makes a heading, it takes as one.
    """
    text = _text(state, line)
    if text.startswith(("<?", "<!")) and not text.startswith("<!--"):
        return False
    return state.sCount[line] <= state.blkIndent and not _in_heading(state, line)


def _in_heading(state: StateBlock, line: int) -> bool:
    """Tell whether the paragraph of this line goes on to an underline; a line that is one whole tag ends it."""
    for at in range(line, min(line + MAX_HEADING_LINES, state.lineMax)):
        text = _text(state, at)
        if state.level or not text or _ENDS_HEADING.match(text):
            return False
        if _UNDERLINE.fullmatch(text) and state.sCount[at] < 4:
            return True
    return False


def _text(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import html_block

    def as_marked(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        return html_block(state, line, end, silent) and (not silent or _interrupts(state, line))

    parser = MarkdownIt("commonmark")
    parser.block.ruler.at("html_block", as_marked, {"alt": ["paragraph", "reference", "blockquote"]})
    return parser
