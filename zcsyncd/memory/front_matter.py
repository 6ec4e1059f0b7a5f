"""Words to a fact's bytes: the front matter that our pen writes, and the smallest mend of one that lies there. Pure.

Rule 1: what is written is read again before it is given out: our keys exactly, others' keys with the values that
        they had. What does not hold is not written.
Rule 2: others' keys, and comments on lines of their own, stay verbatim and in their order. Only where that cannot
        hold (flow style, anchors that go away, no room within the lines that ZCode looks at) are they written anew.
Rule 3: our values stand on one line each, and read as the same text in YAML 1.1 (PyYAML) and 1.2 (npm `yaml`).
Rule 4: a mend changes the lines at fault and no other byte, and is given only if the remark is gone by it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf, isnan
from typing import Final

from zcsyncd.errors import InvalidParams, Refused, TooLarge
from zcsyncd.memory.fact import PREVIEW_LINES, Fact, FileStat, parse_fact
from zcsyncd.memory.text import decode, well_formed
from zcsyncd.memory.yaml import MAX_CHARS, Path, Tagged, YamlError, load, load_with_lines

MAX_BODY_BYTES: Final = 512 * 1024
"""The largest body that is written, as UTF-8 (docs/protocol.md): it fits one line of the wire twice over."""
OUR_KEYS: Final = ("name", "description", "metadata")
"""At the top level, in this order."""
NODE_TYPE: Final = "memory"

_KEY_CHARS: Final = 1_000
"""YAML takes a longer key only in the explicit form (`? key`); its bound is 1,024."""


def compose(existing: bytes | None, *, name: str, description: str, type: str, body: str) -> bytes:  # noqa: A002  # the wire's word
    """Give the bytes of a fact: our four keys, what others put into `existing` (None: a new file), and the body.

    The body is written as it is. A blank line stands before it, as ZCode writes, unless it begins with a line
    break of its own (what `memory.read` gave can be written back and does not grow) or is empty.
    Front matter in `existing` that cannot be read has nothing to keep.

    Raises: InvalidParams for text that UTF-8 cannot hold; TooLarge for a body over MAX_BODY_BYTES or front matter
    that is longer than any reader takes; Refused if others' keys leave no room within ZCode's 30 lines.
    """
    for parameter, text in (("name", name), ("description", description), ("type", type), ("body", body)):
        _encodable(parameter, text)
    content = body.encode()
    if len(content) > MAX_BODY_BYTES:
        raise TooLarge(
            f"`body`: {len(content):,} bytes, and {MAX_BODY_BYTES:,} is the most that is written",
            hint="make several facts of it, or keep the long text in a file of its own and link to it",
            parameter="body",
        )
    ours = _Ours(name, one_line(description), type)
    front = _front(_existing_block(existing), ours)
    gap = "" if body[:1] in {"", "\n", "\r"} else "\n"
    return f"---\n{front}---\n{gap}".encode() + content


def one_line(text: str) -> str:
    """Put a blank for every LF, CR and CRLF; every other character is kept."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def quoted(text: str) -> str:
    """Write text as the value of a key: as it is where YAML 1.1 and 1.2 both read that, else in double quotes."""
    return text if _is_plain(text) else _in_quotes(text)


def mend(content: bytes, code: str, stem: str) -> bytes | None:
    """Give a fact's bytes without the defect that the remark `code` tells of; None: it cannot be done safely.

    `stem` is the file's name without folder and `.md`: an empty `name` becomes it. Codes: `front-matter-alias`,
    `description-multiline`, `description-cut`, `type-flat`, `name-empty`.
    """
    mended = _MENDS.get(code)
    head = _head(content)
    before = _fact(content)
    if mended is None or head is None or not _shows(before, code) or before.encoding != "utf-8":
        return None
    for lines in mended(head, stem):
        front = "".join(f"{line}\n" for line in lines)
        try:
            after = content[: head.begin] + front.encode() + content[head.end :]
        except UnicodeEncodeError:
            return None
        if _is_mended(code, before, head, after):
            return after
    return None


# --- text to scalars ---------------------------------------------------------------------------------------------

_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LIKE_NUMBER: Final = re.compile(r"[0-9][0-9a-fA-FxXoO_.,:+-]*")
_LIKE_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_FLOW_PLAIN: Final = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_])?")
# What a reader refuses or takes for a line's end, and what turns the line about on a screen.
_TO_ESCAPE: Final = re.compile(
    r'["\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]'
)
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _is_plain(text: str) -> bool:
    """Tell whether both YAMLs read unquoted text back. Doubt means no: quotes are never wrong."""
    return (
        text.isprintable()
        and (text[:1].isalnum() or text[:1] in {"(", "/", "_", "$"} or text[:1] > "\xa0")
        and text[-1] not in " :"
        and ": " not in text
        and " #" not in text
        and text.lower() not in _WORDS
        and not _LIKE_NUMBER.fullmatch(text)
        and not _LIKE_DATE.fullmatch(text)
    )


def _in_quotes(text: str) -> str:
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


# --- values to text: what cannot stay verbatim ---------------------------------------------------------------------


def _flow(value: object) -> str:
    """Write any value on one line, so that our loader reads it back."""
    if isinstance(value, str):
        return _flow_text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ", ".join(_flow_pair(key, item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    assert isinstance(value, Tagged)
    return f"!<{value.tag}> {_tagged(value.value)}"


def _tagged(value: object) -> str:
    """Write what stands behind a tag: text, the keys of a `!!set`, or the items of an `!!omap`."""
    if isinstance(value, str):
        return _in_quotes(value)
    assert isinstance(value, tuple)
    if all(isinstance(item, str) for item in value):
        return _flow(dict.fromkeys(value))
    return _flow(list(value))


def _flow_text(text: str) -> str:
    return text if _FLOW_PLAIN.fullmatch(text) and _is_plain(text) else _in_quotes(text)


def _flow_pair(key: str, value: object) -> str:
    written = _flow_text(key)
    return f"{written if len(written) <= _KEY_CHARS else f'? {written} '}: {_flow(value)}"


def _number(value: float) -> str:
    if isnan(value) or isinf(value):
        return ".nan" if isnan(value) else ".inf" if value > 0 else "-.inf"
    written = repr(value)
    # YAML 1.1 knows no exponent without a point.
    return written.replace("e", ".0e") if "e" in written and "." not in written else written


def _pair(indent: str, key: str, value: object) -> list[str]:
    """Write a key of a block mapping with its value."""
    written, held = _flow_text(key), quoted(value) if isinstance(value, str) else _flow(value)
    if len(written) <= _KEY_CHARS:
        return [f"{indent}{written}: {held}"]
    return [f"{indent}? {written}", f"{indent}: {held}"]


# --- bytes to lines ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Head:
    """The lines between a file's fences, and the bytes that they take."""

    raw: tuple[str, ...]
    """Without LF; a CR before it is still there."""
    begin: int
    end: int
    """Offset of the closing fence's line."""
    ending: str
    """What a new line has before its LF: nothing, or a CR."""

    @property
    def lines(self) -> list[str]:
        """The lines as ZCode reads them."""
        return [_without_cr(line) for line in self.raw]


def _head(content: bytes) -> _Head | None:
    """Find the front matter by its bytes: what the body holds (NUL, half a character) does not matter here."""
    mark = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    first, *others = content[mark:].split(b"\n", PREVIEW_LINES)[:PREVIEW_LINES]
    if not _is_fence(first):
        return None
    size = next((at for at, line in enumerate(others) if _is_fence(line)), None)
    if size is None:
        return None
    inner = others[:size]
    begin = mark + len(first) + 1
    try:
        raw = tuple(line.decode() for line in inner)
    except UnicodeDecodeError:
        return None
    end = begin + sum(len(line) + 1 for line in inner)
    return _Head(raw, begin, end, "\r" if first.endswith(b"\r") else "")


def _is_fence(line: bytes) -> bool:
    return line in {b"---", b"---\r", b"---\r\r"}


def _without_cr(line: str) -> str:
    """ZCode takes a CR off twice: when it reads the file, and when it joins these lines."""
    return line.removesuffix("\r").removesuffix("\r")


# --- lines to keys ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a key stands: its own lines up to `end`, then blank lines and comments up to `stop`."""

    start: int
    end: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Front matter that can be read."""

    raw: tuple[str, ...]
    """Its lines as they are kept."""
    lines: list[str]
    """Its lines as they are read."""
    ending: str
    values: dict[str, object]
    starts: Mapping[Path, int]
    """For the path of a key the line on which it begins, from 0."""
    found: dict[tuple[str, ...], dict[str, _Span] | None] = field(default_factory=dict)
    """Spans that were asked for before."""

    def spans(self, *above: str) -> dict[str, _Span] | None:
        """Give the keys of a mapping in the order of their lines; None unless each begins a line of its own."""
        if above not in self.found:
            self.found[above] = self._find_spans(above)
        return self.found[above]

    def _find_spans(self, above: tuple[str, ...]) -> dict[str, _Span] | None:
        value = self.value(above)
        if not isinstance(value, dict) or any((*above, key) not in self.starts for key in value):
            return None
        bound = len(self.lines)
        if above:
            outer = self.spans()
            if outer is None or above[0] not in outer:
                return None
            bound = outer[above[0]].end
        order = sorted(value, key=lambda key: self.starts[*above, key])
        begins = [self.starts[*above, key] for key in order]
        if len(set(begins)) < len(begins):
            return None
        stops = [*begins, bound][1:]
        return {
            key: _Span(start, self._end((*above, key), start, stop), stop)
            for key, start, stop in zip(order, begins, stops, strict=True)
        }

    def value(self, path: Sequence[str]) -> object:
        """Give the value at a path; None if nothing is there."""
        value: object = self.values
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def _end(self, path: tuple[str, ...], start: int, stop: int) -> int:
        """Find the line behind a value: what can go without changing it is a comment, or a blank line."""
        known = repr(self.value(path))
        while stop - 1 > start and _is_idle(self.lines[stop - 1]):
            shorter = _block(self.lines[: stop - 1])
            if shorter is None or repr(shorter.value(path)) != known:
                break
            stop -= 1
        return stop


def _is_idle(line: str) -> bool:
    return line.lstrip(" \t")[:1] in {"", "#"}


def _block(lines: list[str], raw: tuple[str, ...] | None = None, ending: str = "") -> _Block | None:
    """Read lines; None if they are no mapping."""
    try:
        values, starts = load_with_lines("\n".join(lines))
    except YamlError:
        return None
    if values is not None and not isinstance(values, dict):
        return None
    begins = {path: line - 1 for path, line in starts.items()}
    return _Block(tuple(lines) if raw is None else raw, lines, ending, values or {}, begins)


def _existing_block(content: bytes | None) -> _Block | None:
    """Read what lies there; None: there is nothing that could be kept."""
    if content is None:
        return None
    head = _head(content)
    if head is None:
        decoded = decode(content)
        if decoded is None or decoded.encoding == "utf-8":
            return None
        head = _head(well_formed(decoded.text).encode())
    return None if head is None else _block(head.lines)


def _arranged(block: _Block, heads: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Give the block's lines with other lines for some keys; None if it is not laid out in lines.

    A key that is not there yet comes behind the one before it in OUR_KEYS, `metadata` in the place of `type`.
    """
    spans = block.spans()
    if spans is None:
        return None
    own = {key: list(block.raw[span.start : span.end]) for key, span in spans.items()}
    tails = {key: list(block.raw[span.end : span.stop]) for key, span in spans.items()}
    first = next((span.start for span in spans.values()), len(block.raw))
    order = list(spans)
    for at, key in enumerate(OUR_KEYS):
        if key not in heads or key in spans:
            continue
        before = "type" if key == "metadata" and "type" in spans else OUR_KEYS[at - 1] if at else None
        order.insert(order.index(before) + 1 if before in order else 0, key)
        tails[key] = []
        if before in order:
            tails[key], tails[before] = tails[before], []
    own.update({key: list(lines) for key, lines in heads.items()})
    return [*block.raw[:first], *(line for key in order for line in (*own[key], *tails[key]))]


# --- our keys into others' ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ours:
    name: str
    description: str
    type: str

    @property
    def nested(self) -> dict[str, str]:
        """What stands below `metadata`."""
        return {"node_type": NODE_TYPE, "type": self.type}


def _encodable(parameter: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidParams(
            f"`{parameter}`: expected text that UTF-8 can hold, got half of a surrogate pair at character "
            f"{error.start + 1}",
            hint="send the whole character, or leave it out",
            parameter=parameter,
        ) from None


def _front(block: _Block | None, ours: _Ours) -> str:
    """Give the lines between the fences, the first way of writing them that reads back."""
    values = block.values if block else {}
    others = {key: value for key, value in values.items() if key not in _REPLACED}
    metadata = _metadata_merged(values.get("metadata"), ours.nested)
    wanted = {**others, "name": ours.name, "description": ours.description, "metadata": metadata}
    too_long = False
    for lines in _ways(block, ours, others, metadata):
        front = "".join(f"{line}\n" for line in lines)
        too_long = len(front) > MAX_CHARS
        if not too_long and _holds(front, wanted):
            return front
    if too_long:
        raise TooLarge(
            f"the front matter would have more than {MAX_CHARS:,} characters, and no reader takes so many",
            hint="write a shorter description: one sentence, and the rest into the body",
        )
    raise Refused(
        f"the keys that others put into the front matter leave no room for ours: it must end within {PREVIEW_LINES} "
        "lines, or ZCode sees none of it",
        hint="remove keys that nobody needs from the file's front matter, then write again",
    )


_REPLACED: Final = frozenset({*OUR_KEYS, "type"})


def _metadata_merged(there: object, wanted: Mapping[str, str]) -> dict[str, object]:
    """Give what stands below `metadata`: `node_type` first, then the type, then what others put there."""
    merged: dict[str, object] = {**there, **wanted} if isinstance(there, dict) else dict(wanted)
    first = [key for key in ("node_type", "type") if key in merged]
    return {key: merged[key] for key in (*first, *merged)}


def _holds(front: str, wanted: Mapping[str, object]) -> bool:
    """Tell whether the lines, between fences, read as what is wanted, whatever the order of keys."""
    head = _head(f"---\n{front}---\n".encode())
    try:
        values = load("\n".join(head.lines)) if head else None
    except YamlError:
        return False
    return isinstance(values, dict) and _figure(values) == _figure(wanted)


def _figure(values: Mapping[str, object]) -> dict[str, object]:
    """Make values comparable: NaN is NaN, 1 is neither 1.0 nor true."""
    figure: dict[str, object] = {key: repr(value) for key, value in values.items()}
    metadata = values.get("metadata")
    if isinstance(metadata, dict):
        figure["metadata"] = {key: repr(value) for key, value in metadata.items()}
    return figure


def _ways(
    block: _Block | None, ours: _Ours, others: Mapping[str, object], metadata: Mapping[str, object]
) -> Iterator[list[str]]:
    """Give the ways to write it all, the one most faithful to what is there first."""
    spans = block.spans() if block else None
    if block is not None and spans is not None:
        indent = _indent(block)
        top = {key: _exchanged(block, spans.get(key), indent, key, text) for key, text in _top(ours)}
        kept, written = _metadata_kept(block, ours.nested), _mapping(indent, "metadata", metadata)
        aliased = [key for key in others if any("*" in line for line in block.raw[_own(spans[key])])]
        for again in ((), aliased, others):
            redone = {key: _pair(indent, key, others[key]) for key in again}
            for below in filter(None, (kept, written)):
                arranged = _arranged(block, {**redone, **top, "metadata": below, "type": ()})
                if arranged is not None:
                    yield arranged
    top_lines = [f"{key}: {quoted(text)}" for key, text in _top(ours)]
    rest = [line for key, value in others.items() for line in _pair("", key, value)]
    yield [*top_lines, *_mapping("", "metadata", metadata), *rest]
    # On one line where there is no room for three.
    yield [*top_lines, *_pair("", "metadata", metadata), *rest]


def _own(span: _Span) -> slice:
    return slice(span.start, span.end)


def _top(ours: _Ours) -> tuple[tuple[str, str], ...]:
    return ("name", ours.name), ("description", ours.description)


def _mapping(indent: str, key: str, nested: Mapping[str, object]) -> list[str]:
    pairs = (_pair(f"{indent}  ", inner, value) for inner, value in nested.items())
    return [f"{indent}{key}:", *(line for pair in pairs for line in pair)]


def _indent(block: _Block) -> str:
    """Give the blanks before the keys at the top level, nearly always none."""
    first = min((line for path, line in block.starts.items() if len(path) == 1), default=None)
    return "" if first is None else _blanks(block.lines[first])


def _blanks(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _exchanged(block: _Block, span: _Span | None, indent: str, key: str, text: str) -> list[str]:
    """Give the line of one of our keys. A comment beside a value that stays is kept.

    Not beside a description: there it is mostly the rest of a sentence, which an unquoted ` #` cut off.
    """
    line = f"{indent}{key}: {quoted(text)}"
    if span is not None and span.end == span.start + 1 and key != "description":
        old = block.lines[span.start]
        if old.startswith(line) and re.fullmatch(r"[ \t]+#.*", old[len(line) :]):
            return [block.raw[span.start]]
    return [line + block.ending]


_METADATA_ALONE: Final = re.compile(r"""[ ]*(["']?)metadata\1[ \t]*:[ \t]*(?:[ \t]#.*)?""")


def _metadata_kept(block: _Block, wanted: Mapping[str, str]) -> list[str] | None:
    """Give the lines of `metadata` with our values in their place, or in front; None if it is no block of lines."""
    outer, spans = (block.spans() or {}).get("metadata"), block.spans("metadata")
    if outer is None or not _METADATA_ALONE.fullmatch(block.lines[outer.start]):
        return None
    if spans is None or not spans:
        if block.values["metadata"] is not None:
            return None
        spans = {}
    begin = next((span.start for span in spans.values()), outer.end)
    indent = _blanks(block.lines[begin]) if spans else _blanks(block.lines[outer.start]) + "  "
    children = {key: list(block.raw[span.start : span.stop]) for key, span in spans.items()}
    order = list(children)
    before: str | None = "node_type" if "node_type" in children else None
    for key, text in wanted.items():
        span = spans.get(key)
        own = _exchanged(block, span, indent, key, text)
        children[key] = own if span is None else [*own, *block.raw[span.end : span.stop]]
        if span is None:
            order.insert(order.index(before) + 1 if before is not None else 0, key)
        before = key
    return [*block.raw[outer.start : begin], *(line for key in order for line in children[key])]


# --- mends ---------------------------------------------------------------------------------------------------------


def _fact(content: bytes) -> Fact:
    """Read a fact for its remarks; where it lies and when it changed says nothing here."""
    return parse_fact("fact.md", content, FileStat(0, 0, len(content), 0), read_at_ns=0)


def _shows(fact: Fact, code: str) -> bool:
    return any(remark.code == code for remark in fact.remarks)


def _is_mended(code: str, before: Fact, head: _Head, content: bytes) -> bool:
    """Tell whether the defect is gone, nothing else came in its place, and everything else is as it was."""
    after, new = _fact(content), _head(content)
    if new is None or after.malformed or _shows(after, code) or after.body_hash != before.body_hash:
        return False
    if code == "front-matter-alias":
        return True  # the text had no values before; what it hid of other remarks may show now
    if {remark.code for remark in after.remarks} - {remark.code for remark in before.remarks}:
        return False
    changed = _MAY_CHANGE[code]
    was, now = (
        {key: value for key, value in _values(part).items() if key not in changed} for part in (head, new)
    )
    return _figure(was) == _figure(now) and (after.type == before.type)


_MAY_CHANGE: Final = {
    "description-multiline": ("description",),
    "description-cut": ("description",),
    "type-flat": ("type", "metadata"),
    "name-empty": ("name",),
}


def _values(head: _Head) -> dict[str, object]:
    block = _block(head.lines)
    return block.values if block else {}


def _opened(head: _Head) -> _Block | None:
    return _block(head.lines, head.raw, head.ending)


def _with_line(block: _Block, key: str, line: str) -> Iterator[list[str]]:
    lines = _arranged(block, {key: [line + block.ending]})
    if lines is not None:
        yield lines


def _key_and_rest(block: _Block, key: str) -> tuple[str, list[str]] | None:
    """Give a key as it is written, with its colon, and the text behind it line by line, without blanks around."""
    span = (block.spans() or {}).get(key)
    if span is None:
        return None
    first, *others = block.lines[span.start : span.end]
    match = re.fullmatch(rf"""([ ]*(["']?){key}\2[ \t]*:)(?:[ \t]+(.*))?""", first)
    if match is None:
        return None
    return match[1], [part.strip(" \t") for part in (match[3] or "", *others)]


def _description_on_one_line(head: _Head, _stem: str) -> Iterator[list[str]]:
    block = _opened(head)
    found = _key_and_rest(block, "description") if block else None
    value = block.values.get("description") if block else None
    if block is None or found is None or not isinstance(value, str):
        return
    parts = (line.strip() for line in value.splitlines())
    yield from _with_line(block, "description", f"{found[0]} {quoted(' '.join(filter(None, parts)))}")


def _description_whole(head: _Head, _stem: str) -> Iterator[list[str]]:
    """Take what stands behind the ` #` into the value: in nearly every case it was meant so."""
    block = _opened(head)
    found = _key_and_rest(block, "description") if block else None
    if block is None or found is None:
        return
    parts = found[1] if found[1][0] else found[1][1:]
    text = " ".join(parts)
    value = block.values["description"]
    is_start = text.startswith(value if isinstance(value, str) else "#" if value is None else parts[0][:1])
    # An anchor or a tag belongs to the value and not to its text; a blank line among several is a line break.
    if is_start and all(parts) and text[0] not in "&!":
        yield from _with_line(block, "description", f"{found[0]} {quoted(text)}")


def _name_from_stem(head: _Head, stem: str) -> Iterator[list[str]]:
    block = _opened(head)
    found = _key_and_rest(block, "name") if block else None
    if block is None or found is None or not stem.strip():
        return
    beside = re.fullmatch(r"""(?:"[ ]*"|'[ ]*')([ \t]+#.*)""", found[1][0]) if len(found[1]) == 1 else None
    yield from _with_line(block, "name", f"{found[0]} {quoted(stem)}{beside[1] if beside else ''}")


def _type_below_metadata(head: _Head, _stem: str) -> Iterator[list[str]]:
    block = _opened(head)
    spans = block.spans() if block else None
    if block is None or spans is None or "type" not in spans:
        return
    kind, metadata = str(block.values["type"]), block.values.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        return
    indent, wanted = _indent(block), {"type": kind}
    if "metadata" not in spans:
        own = block.raw[_own(spans["type"])]
        plain = re.fullmatch(rf"[ ]*type: {kind}(?:[ \t]+#.*)?", block.lines[spans["type"].start])
        if plain and len(own) == 1:
            new = [f"{indent}metadata:{block.ending}", f"  {own[0]}"]
            yield [*block.raw[: spans["type"].start], *new, *block.raw[spans["type"].end :]]
    anew = _mapping(indent, "metadata", _metadata_merged(metadata, wanted))
    for lines in (_metadata_kept(block, wanted), [line + block.ending for line in anew]):
        arranged = _arranged(block, {"metadata": lines, "type": ()}) if lines is not None else None
        if arranged is not None:
            yield arranged
    if not metadata:  # three lines for one may be more than ZCode looks at
        flow = [f"{indent}metadata: {{type: {kind}}}{block.ending}"]
        arranged = _arranged(block, {"metadata": flow, "type": ()})
        if arranged is not None:
            yield arranged


def _values_in_quotes(head: _Head, _stem: str) -> Iterator[list[str]]:
    """Quote each value that begins with `*` and names no anchor."""
    lines: list[str | None] = list(head.lines)
    raw: list[str | None] = list(head.raw)
    for _ in range(len(lines) * 4):
        present = [at for at, line in enumerate(lines) if line is not None]
        try:
            load("\n".join(line for line in lines if line is not None))
        except YamlError as error:
            if error.kind != "alias" or error.line > len(present):
                return
            if not _quote_at(lines, present[error.line - 1], error.column - 1):
                return
        else:
            for at, line in enumerate(lines):
                if line is None:
                    raw[at] = None
                elif line != head.lines[at]:
                    raw[at] = line + head.raw[at][len(head.lines[at]) :]
            yield [line for line in raw if line is not None]
            return


_BEFORE_VALUE: Final = re.compile(
    r"""[ ]*(?:-[ ]+)*(?:(?P<key>[^\s#'":][^:#]*|"[^"]*"|'[^']*')[ \t]*:[ \t]+)?"""
)
_FLOW_TOKEN: Final = re.compile(r"\*[^,\[\]{}]*")


def _quote_at(lines: list[str | None], at: int, column: int) -> bool:
    """Put the value that begins at a place into quotes, its other lines joined to it; False: it cannot be told."""
    line = lines[at] or ""
    before, rest = line[:column], line[column:].rstrip(" \t")
    if not rest.startswith("*"):
        return False
    place = _BEFORE_VALUE.fullmatch(before)
    if place is None:
        token = _FLOW_TOKEN.match(rest) if re.search(r"[\[{]", before) else None
        if token is None:
            return False
        value = token[0].rstrip(" \t")
        lines[at] = before + _in_quotes(value) + rest[len(value) :]
        return True
    # Beside a description a comment is mostly the rest of the sentence.
    comment = "" if (place["key"] or "").strip("\"' \t") == "description" else _comment(rest)
    more = _continuation(lines, at, _blanks(before))
    if more is None or (comment and more):
        return False
    value = " ".join([rest.removesuffix(comment), *(text for _, text in more)])
    lines[at] = before + _in_quotes(value) + comment
    for number, _ in more:
        lines[number] = None
    return True


def _comment(rest: str) -> str:
    found = re.search(r"[ \t]+#.*", rest)
    return found[0] if found else ""


def _continuation(lines: list[str | None], at: int, indent: str) -> list[tuple[int, str]] | None:
    """Give the lines that go on with the value on line `at`; None if they are more than one paragraph of text."""
    deeper: list[tuple[int, str]] = []
    for number, line in enumerate(lines[at + 1 :], at + 1):
        if line is None:
            continue
        if line.strip(" \t") and len(_blanks(line)) <= len(indent):
            break
        deeper.append((number, line.strip(" \t")))
    while deeper and _is_idle(deeper[-1][1]):
        deeper.pop()
    if any(_is_idle(text) or re.search(r":(?:[ \t]|$)|[ \t]#|^- ", text) for _, text in deeper):
        return None
    return deeper


_MENDS: Final[dict[str, Callable[[_Head, str], Iterator[list[str]]]]] = {
    "front-matter-alias": _values_in_quotes,
    "description-multiline": _description_on_one_line,
    "description-cut": _description_whole,
    "type-flat": _type_below_metadata,
    "name-empty": _name_from_stem,
}
MENDABLE: Final = frozenset(_MENDS)
"""The codes that `mend` knows."""
