"""A fact file: bytes to front matter, meaning and remarks, as ZCode reads them. Pure.

Rule 1: nothing here raises for content. What cannot be parsed is a fact without a description, plus a remark.
Rule 2: a fact's own remarks are computed once, here; what needs its neighbours is the audit's.
Rule 3: one defect is one remark. Front matter that cannot be read has no missing description as well.
Rule 4: no remark quotes the body; of the front matter only short values are shown, made harmless.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zcsyncd.memory.fences import Fences
from zcsyncd.memory.links import leaves, legible, links, local_path
from zcsyncd.memory.recall import BODY_BYTES, BODY_LINES, cut, is_candidate, line_count
from zcsyncd.memory.text import MARK, cut_inside_character, decode, well_formed
from zcsyncd.memory.yaml import YamlError, load, plain_comment_cuts

if TYPE_CHECKING:
    from zcsyncd.memory.recall import Truncated
    from zcsyncd.memory.text import Decoded, Encoding

TYPES = ("user", "feedback", "project", "reference")
"""The types that ZCode knows, written exactly so."""
PREVIEW_LINES = 30
"""ZCode looks for front matter in so many lines."""
SHOWN_CHARS = 40
"""How much of a front matter value a message shows."""
BODY_HASH_DIGITS = 16
"""Enough to tell one fact's bodies apart; every fact in memory has it."""
FILE_NAME = "file name"
"""Target of a `description-multiline` remark that is about the file's name."""

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What stat says of a file: the key by which a scan knows that nothing changed."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A defect that one file shows by itself; the audit turns it into a finding.

    `target` tells several remarks of one code apart in a finding's key (an entry's target, a hash of a line).
    """

    code: str
    message: str
    line: int | None = None
    hint: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact file at one moment. Bodies are not kept, only what they hash to."""

    file: str
    """Path relative to the memory directory, with `/`."""
    stat: FileStat
    read_at_ns: int
    """When it was read (wall clock): a file that was younger than 2 s then is hashed again."""
    content_hash: str | None
    """SHA-256 of the raw bytes, hex. None: it could not be read."""
    encoding: str | None
    """`utf-8`, `utf-16le`, `gbk`; None: ZCode cannot decode it either."""
    name: str | None
    description: str | None
    type: str | None
    """One of the four types, as ZCode accepts it; else None."""
    malformed: bool
    """There is no front matter that ZCode can read."""
    meaning_hash: str | None
    """Hash over name, description, type and body: equal means that only stamps or layout differ."""
    links: tuple[str, ...]
    """`[[name]]` links of the body, in order, each once."""
    references: tuple[str, ...]
    """Targets of `[](…)` links, resolved against the fact's folder, relative to the memory directory, each once."""
    symlink: bool
    listed: bool
    """ZCode's recall would list it (a binary or undecodable file vanishes there)."""
    remarks: tuple[Remark, ...]
    body_hash: str | None = None
    """Hash over the body without blanks around it: equal means that at most the front matter differs."""


@dataclass(frozen=True, slots=True)
class FactView:
    """What `memory.read` tells of a fact's text."""

    name: str | None
    description: str | None
    type: str | None
    body: str
    """What stands behind the front matter (everything, where there is none); line ends are LF, no BOM."""
    truncated: Truncated | None
    """Which cap of recall cut the body; None: it is whole."""
    encoding: Encoding | None
    """None: ZCode cannot decode the file; the body is empty then."""
    rest_line: int | None = None
    """1-based line of the file with which the part that was cut off begins; None: nothing was."""


def parse_fact(file: str, content: bytes, stat: FileStat, *, read_at_ns: int, symlink: bool = False) -> Fact:
    """Read a fact file's bytes. `file` is relative to the memory directory, with `/`; `read_at_ns` is wall clock."""
    content_hash = hashlib.sha256(content).hexdigest()
    decoded = decode(content)
    if decoded is None:
        remarks = (_undecodable(content), *_name_remarks(file))
        return _without_text(file, stat, content_hash, remarks, read_at_ns, symlink=symlink, listed=False)
    parsed = _parse(_as_read(decoded))
    named, referred = _links_of(parsed.body, file)
    body = parsed.body.encode()
    return Fact(
        file=file,
        stat=stat,
        read_at_ns=read_at_ns,
        content_hash=content_hash,
        encoding=decoded.encoding,
        name=parsed.name,
        description=parsed.description,
        type=parsed.type,
        malformed=parsed.malformed,
        meaning_hash=_meaning(parsed, body),
        links=named,
        references=referred,
        symlink=symlink,
        listed=is_candidate(file),
        remarks=_remarks(file, content, decoded, parsed, body),
        body_hash=hashlib.sha256(body.strip()).hexdigest()[:BODY_HASH_DIGITS],
    )


def unreadable_fact(
    file: str,
    stat: FileStat,
    reason: str,
    *,
    read_at_ns: int,
    symlink: bool = False,
    listed: bool = False,
) -> Fact:
    """Make the fact of a file that could not be opened or read; `reason` is the system's own word for why.

    `listed`: recall lists it nevertheless (a file that only we find too large).
    """
    remark = Remark("fact-unreadable", f"cannot be read: {reason}", hint="check its permissions and its size")
    remarks = (remark, *_name_remarks(file))
    return _without_text(file, stat, None, remarks, read_at_ns, symlink=symlink, listed=listed)


def read_view(content: bytes, *, full: bool = False) -> FactView:
    """Read a fact for `memory.read`: the body as recall shows it, or with `full` all of it."""
    decoded = decode(content)
    if decoded is None:
        return FactView(None, None, None, "", truncated=None, encoding=None)
    parsed = _parse(_as_read(decoded))
    body, truncated = (parsed.body, None) if full else cut(parsed.body)
    return FactView(
        parsed.name,
        parsed.description,
        parsed.type,
        body,
        truncated=truncated,
        encoding=decoded.encoding,
        rest_line=parsed.body_line + body.count("\n") if truncated else None,
    )


def _without_text(
    file: str,
    stat: FileStat,
    content_hash: str | None,
    remarks: tuple[Remark, ...],
    read_at_ns: int,
    *,
    symlink: bool,
    listed: bool,
) -> Fact:
    return Fact(
        file=file,
        stat=stat,
        read_at_ns=read_at_ns,
        content_hash=content_hash,
        encoding=None,
        name=None,
        description=None,
        type=None,
        malformed=True,
        meaning_hash=None,
        links=(),
        references=(),
        symlink=symlink,
        listed=listed,
        remarks=remarks,
    )


def _meaning(parsed: _Parsed, body: bytes) -> str:
    """Hash what a fact says. Lengths keep one field from passing for the next."""
    fields = (parsed.name, parsed.description, parsed.type)
    head = "".join("-" if field is None else f"{len(field)}:{field}" for field in fields)
    return hashlib.sha256(head.encode() + b"\n" + body).hexdigest()


# --- text to front matter and body -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A text taken apart: what its front matter says, its body, and what is wrong with the front matter."""

    body: str
    body_line: int = 1
    """1-based line of the file with which the body begins."""
    name: str | None = None
    description: str | None = None
    type: str | None = None
    malformed: bool = True
    remarks: tuple[Remark, ...] = ()


def _as_read(decoded: Decoded) -> str:
    """Give the text as ZCode hands it on: CRLF is LF. A surrogate can stand alone only in UTF-16."""
    text = well_formed(decoded.text) if decoded.encoding == "utf-16le" else decoded.text
    return text.replace("\r\n", "\n") if "\r\n" in text else text


def _parse(text: str) -> _Parsed:
    """Take a text apart as ZCode's recall does: one BOM off, line 1 a fence, a second fence within 30 lines."""
    text = text.removeprefix(MARK)
    pieces = text.split("\n", PREVIEW_LINES)
    lines = _preview(pieces)
    if lines[0] != _FENCE:
        return _Parsed(text, remarks=(_missing(text, lines),))
    try:
        end = lines.index(_FENCE, 1)
    except ValueError:
        return _Parsed(text, remarks=(_unclosed(text, lines),))
    body = "\n".join(pieces[end + 1 :])
    front = "\n".join(lines[1:end])
    try:
        values = load(front)
    except YamlError as error:
        return _Parsed(body, end + 2, remarks=(_invalid(error),))
    if values is None:
        values = {}
    if not isinstance(values, dict):
        return _Parsed(body, end + 2, remarks=(_no_mapping(values),))
    return _judge(values, front, body, end + 2)


def _preview(pieces: list[str]) -> list[str]:
    """Give the lines that ZCode looks at. It takes a CR off twice: when it reads, and when it joins these lines."""
    lines = pieces[:PREVIEW_LINES]
    if "\r" in "".join(lines):
        lines[:-1] = [line.removesuffix("\r") for line in lines[:-1]]
    return lines


def _judge(values: dict[str, object], front: str, body: str, body_line: int) -> _Parsed:
    remarks: list[Remark] = []
    name = values.get("name")
    if isinstance(name, str):
        name = well_formed(name)
        if not name.strip():
            remarks.append(Remark("name-empty", "`name` is empty", _line_of(front, "name"), _NAME_HINT))
    else:
        name = None
    description = _description(values.get("description"), front, remarks)
    kind = _type(values, front, remarks)
    return _Parsed(body, body_line, name, description, kind, malformed=False, remarks=tuple(remarks))


def _description(value: object, front: str, remarks: list[Remark]) -> str | None:
    """Give the description as ZCode shows it: text that is not empty, else none."""
    description = well_formed(value) if isinstance(value, str) and value else None
    found: list[tuple[str, str, str]] = []
    if "#" in front and "description" in plain_comment_cuts(front):
        found.append(("description-cut", "an unquoted ` #` cuts `description` short", _QUOTE_HINT))
    elif description is None or not description.strip():
        found.append(("description-missing", _why_no_description(value), _DESCRIPTION_HINT))
    if description is not None and _breaks(description):
        found.append(
            ("description-multiline", f"`description` has a line break: {_IMITATES}", _ONE_LINE_HINT)
        )
    for code, message, hint in found:
        remarks.append(Remark(code, message, _line_of(front, "description"), hint))
    return description


def _why_no_description(value: object) -> str:
    if value is None:
        return "there is no `description`: the model sees a file name only"
    if isinstance(value, str):
        return "`description` is empty: the model sees a file name only"
    return f"`description` is {_kind(value)}, not text: ZCode drops it"


def _type(values: dict[str, object], front: str, remarks: list[Remark]) -> str | None:
    """Give the type as ZCode finds it: under `metadata`, and at the top level only if nothing stands there."""
    metadata = values.get("metadata")
    nested = metadata.get("type") if isinstance(metadata, dict) else None
    flat = values.get("type")
    value = flat if nested is None else nested
    if value is None:
        remarks.append(Remark("type-missing", "there is no type", hint=_TYPE_HINT))
        return None
    where = "type" if nested is None else "metadata.type"
    if not isinstance(value, str) or value not in TYPES:
        line = _line_of(front, "type", nested=nested is not None)
        hides = (
            f", and it hides the `type: {flat}` at the top level"
            if nested is not None and flat in TYPES
            else ""
        )
        near = value.strip().lower() if isinstance(value, str) else ""
        hint = f"write `type: {near}`" if near in TYPES else _TYPE_HINT
        message = f"`{where}` is {_shown(value)}, which ZCode does not know{hides}"
        remarks.append(Remark("type-unknown", message, line, hint))
        return None
    if nested is None:
        message = "`type` stands at the top level: ZCode does not stamp such a file"
        remarks.append(
            Remark("type-flat", message, _line_of(front, "type"), f"put `type: {value}` under `metadata:`")
        )
    return value


def _line_of(front: str, key: str, *, nested: bool = False) -> int | None:
    """Find the file's line that begins with a key; None where it is written in a less usual way."""
    pattern = _KEY_LINES[key, nested]
    found = pattern.search(front)
    return None if found is None else front.count("\n", 0, found.start()) + 2


_KEY_LINES = {
    (key, nested): re.compile(rf"^{'[ ]+' if nested else ''}([\"']?){key}\1[ \t]*:", re.MULTILINE)
    for key, nested in (("name", False), ("description", False), ("type", False), ("type", True))
}


# --- remarks -----------------------------------------------------------------------------------------------------

_IMITATES = "in recall its other lines can pass for entries of their own"
_UTF8_HINT = "save the file as UTF-8"
_QUOTE_HINT = "put the whole value in quotes, or remove the comment"
_NAME_HINT = "give it a name, or remove the line"
_ONE_LINE_HINT = (
    "write it as one line; if you did not write it, take it for an attempt to slip the model a line"
)
_DESCRIPTION_HINT = "add a line `description: …` with one sentence"
_TYPE_HINT = f"write `metadata:` and below it, indented, `type:` with one of {', '.join(TYPES)}"
_MISSING_HINT = "begin the file with `---`, `name: …`, `description: …`, `---`"
_BLIND = "ZCode sees neither description nor type"


def _remarks(file: str, content: bytes, decoded: Decoded, parsed: _Parsed, body: bytes) -> tuple[Remark, ...]:
    """Gather what is wrong with a file that ZCode can decode."""
    remarks = _name_remarks(file)
    if decoded.encoding != "utf-8" or decoded.lossy:
        if decoded.encoding != "utf-16le" and cut_inside_character(content):
            # Everything else is read from garbage: it would only say the same again.
            return (_half_written(decoded), *remarks)
        remarks = (_encoding_remark(decoded), *remarks)
    over = _over_recall(parsed, body)
    return (*remarks, *parsed.remarks, over) if over else remarks + parsed.remarks


def _over_recall(parsed: _Parsed, body: bytes) -> Remark | None:
    lines, size = line_count(parsed.body), len(body)
    if lines <= BODY_LINES and size <= BODY_BYTES:
        return None
    return Remark(
        "body-over-recall",
        f"the body has {_lines(lines)} and {size:,} bytes: recall shows the first {BODY_LINES} lines and "
        f"{BODY_BYTES:,} bytes",
        parsed.body_line,
        "put what matters first, or make two facts of it",
    )


def _name_remarks(file: str) -> tuple[Remark, ...]:
    if not _breaks(file):
        return ()
    message = f"the file name has a line break: {_IMITATES}"
    hint = "rename it; if you did not make it, take it for an attempt to slip the model a line"
    return (Remark("description-multiline", message, hint=hint, target=FILE_NAME),)


def _undecodable(content: bytes) -> Remark:
    if cut_inside_character(content) and b"\0" not in content:
        why = "the text ends inside a character: a writer stopped half-way"
    elif b"\0" in content:
        why = "it holds NUL bytes"
    else:
        why = "its bytes are neither UTF-8 nor another encoding that ZCode knows"
    return Remark(
        "fact-unreadable", f"ZCode cannot read it and leaves it out of recall: {why}", hint=_UTF8_HINT
    )


def _half_written(decoded: Decoded) -> Remark:
    garbage = "reads all of it as Chinese in GBK" if decoded.encoding == "gbk" else "loses the end"
    message = f"the text ends inside a character (a writer stopped half-way), so ZCode {garbage}"
    return Remark("fact-unreadable", message, hint="write the file again, whole")


def _encoding_remark(decoded: Decoded) -> Remark:
    if decoded.encoding == "utf-8":
        message = "the file begins as UTF-8 but holds bytes that are not: they read as U+FFFD"
    elif decoded.encoding == "utf-16le":
        message = "the file is UTF-16: ZCode reads it, other hosts see garbage, and our writes refuse it"
    else:
        message = (
            "the file is not UTF-8: ZCode reads it as GBK, other hosts see garbage, and our writes refuse it"
        )
    return Remark("fact-encoding", message, hint=_UTF8_HINT)


def _missing(text: str, lines: list[str]) -> Remark:
    """Say why line 1 is no fence; the file has text without BOM."""
    first = lines[0]
    hint = "line 1 must be `---` and nothing else"
    if not text.strip():
        why, hint = "the file is empty", _MISSING_HINT
    elif first.startswith(MARK):
        why, hint = "the file begins with two byte order marks", "remove the second one"
    elif first.strip() == _FENCE:
        why = "line 1 has blanks beside its `---`"
    elif first.startswith(f"{_FENCE}\r"):
        why, hint = "lines end in CR alone", "save the file with LF line ends"
    elif (begin := next((at for at, line in enumerate(lines, 1) if line.strip()), 1)) > 1 and (
        lines[begin - 1].rstrip() == _FENCE
    ):
        why = f"the front matter begins on line {begin}, not on line 1"
    else:
        why, hint = "line 1 is not `---`", _MISSING_HINT
    return Remark("front-matter-missing", f"there is no front matter that ZCode sees: {why}", 1, hint)


def _unclosed(text: str, lines: list[str]) -> Remark:
    """Say where the closing fence went: blanks beside it, `...`, below line 30, or nowhere."""
    hint = "the closing line must be `---` and nothing else"
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == _FENCE:
            why, at = f"line {number} has blanks beside its `---`", number
            break
        if line.rstrip() == "...":
            why, at = f"line {number} closes with `...`", number
            break
    else:
        below = re.compile(r"^---\r*$", re.MULTILINE).search(text, len(_FENCE))
        if below is None:
            why, at = "nothing closes it", 1
            hint = "add a line `---` behind the last key"
        else:
            at = text.count("\n", 0, below.start()) + 1
            why = f"the closing `---` is on line {at}, and ZCode looks at {PREVIEW_LINES} lines"
            hint = f"move the `---` up, to line {PREVIEW_LINES} at most"
    return Remark("front-matter-unclosed", f"the front matter is not closed: {why}; {_BLIND}", at, hint)


def _invalid(error: YamlError) -> Remark:
    line = error.line + 1  # the fence is line 1 of the file
    if error.kind == "alias":
        message = (
            f"column {error.column}: an unquoted `*` makes the value an alias that is defined nowhere; {_BLIND}, and "
            "its own next write to this file can fail"
        )
        return Remark("front-matter-alias", message, line, error.mend or "put the value in quotes", error.key)
    message = f"the front matter is no valid YAML: column {error.column}: {error.message}; {_BLIND}"
    return Remark("front-matter-invalid", message, line, error.mend)


def _no_mapping(value: object) -> Remark:
    message = f"the front matter is {_kind(value)}, not lines of `key: value`; {_BLIND}"
    return Remark("front-matter-invalid", message, 2, _MISSING_HINT)


def _breaks(text: str) -> bool:
    """Tell whether text has a line break that something follows. One at the very end makes no line of its own."""
    return len(text.splitlines()) > 1 and len(text.rstrip().splitlines()) > 1


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "a true/false value"
    if isinstance(value, (int, float)):
        return "a number"
    return (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a tagged value"
    )


def _shown(value: object) -> str:
    """Show a value in a message: short text as it is, without what could disturb a terminal, else its kind."""
    if not isinstance(value, str):
        return _kind(value)
    if not value:
        return "empty"
    return f"“{legible(value, SHOWN_CHARS)}”"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


# --- links in the body -------------------------------------------------------------------------------------------

_CODE_SPAN = re.compile(r"`[^`]+`")
_NAME_LINK = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")
_PLAIN_LINK = re.compile(r"(?<!!)\[[^\[\]]*\]\(([\w./-]+\.md(?:#[\w-]*)?)\)")
_LINE_CODE = re.compile(r"(?<!`)`[^`]+`(?!`)")
_TWIST = re.compile(r"[`\\]|<!--|-->")


def _links_of(body: str, file: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the `[[name]]` links and the `[](…)` targets of a body, each once, code left out."""
    named = "[[" in body
    targeted = "](" in body and ".md" in body
    if not named and not targeted:
        return (), ()
    if "```" in body or "~~~" in body:
        body = _without_fences(body)
    return _names_in(body) if named else (), _targets_in(body, posixpath.dirname(file)) if targeted else ()


def _without_fences(body: str) -> str:
    """Drop the lines that stand in fences. A body whose fences all begin their lines needs no list to be followed."""
    kept: list[str] = []
    mark = ""
    for line in body.split("\n"):
        if line.startswith(("```", "~~~")):
            run = line[: len(line) - len(line.lstrip(line[0]))]
            rest = line[len(run) :]
            if mark:
                if run.startswith(mark) and not rest.strip(" \t"):
                    mark = ""
            elif run[0] == "~" or "`" not in rest:
                mark = run
            else:
                kept.append(line)
        elif "```" in line or "~~~" in line:
            fences = Fences()
            return "\n".join(line for line in body.split("\n") if line.strip() and not fences.takes(line))
        elif not mark:
            kept.append(line)
    return "\n".join(kept)


def _names_in(body: str) -> tuple[str, ...]:
    """Take `[[name|shown]]` and `[[name#section]]` for `name`."""
    if "`" in body:
        body = "\n".join(
            _CODE_SPAN.sub("", line) if "`" in line else line for line in body.split("\n") if "[[" in line
        )
    inside = dict.fromkeys(_NAME_LINK.findall(body))
    names = dict.fromkeys(inner.partition("|")[0].partition("#")[0].strip() for inner in inside)
    names.pop("", None)
    return tuple(names)


def _targets_in(body: str, folder: str) -> tuple[str, ...]:
    """Give the Markdown files inside the memory directory that a body links to, read as the index's links are."""
    targets: dict[str, None] = {}
    for line in body.split("\n"):
        if "](" in line and ".md" in line:
            targets.update(dict.fromkeys(_targets_of(line)))
    found: dict[str, None] = {}
    for target in targets:
        path = local_path(target)
        if path is not None and path.endswith(".md"):
            path = posixpath.normpath(posixpath.join(folder, path)) if folder else path
            if not leaves(path):
                found[path] = None
    return tuple(found)


def _targets_of(line: str) -> list[str]:
    """Give the targets of a line's links. Links that cannot mean anything else are read ten times as fast."""
    # A blank for code: it cannot make one target out of two pieces.
    bare = _LINE_CODE.sub(" ", line) if "`" in line and "\\" not in line else line
    plain = _PLAIN_LINK.findall(bare)
    if len(plain) == bare.count("[") == bare.count("](") and not _TWIST.search(bare):
        return plain
    return [link.target for link in links(line) if not link.hidden]
