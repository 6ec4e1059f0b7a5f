"""Front matter, text to values: reads YAML as npm `yaml` 2 does, which is what ZCode reads it with. Pure.

Rule 1: YAML 1.2, core schema. `yes`, dates and `12:30` are strings; duplicate keys are errors; `<<` is a key.
Rule 2: any text gives a value or a `YamlError`, nothing else. Size, depth and alias expansions are bounded.
Rule 3: two ways, one answer. `_read_simple` takes front matter that cannot mean anything else, and gives up at
        the first doubt; `_Composer` reads everything else from libyaml's events. The tests hold the two together.
Rule 4: libyaml scans, we compose: what npm `yaml` judges otherwise than PyYAML (anchors set twice, continuation
        lines that are not indented, characters that libyaml refuses) is mended here and nowhere else.

Values are what JavaScript would hold: str, bool, None, int and float (whole numbers past 2^53 are floats), list,
dict with str keys, and `Tagged` for what has no counterpart here. A str may hold a lone surrogate if the text
or one of its escapes does: whoever encodes it must be ready for that.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARS: Final = 64 * 1024
"""Longest text that is read. ZCode reads 30 lines; the longest real front matter seen is a few KiB."""
MAX_DEPTH: Final = 200
"""Deepest nesting. Far beyond any real one, and shallow enough for whoever walks the value recursively."""
MAX_EXPANSIONS: Final = 100
"""How often one anchor may be expanded, nested expansions multiplied: npm `yaml`'s own bound."""

accelerated: Final[bool] = yaml.__with_libyaml__
"""libyaml is there. Without it PyYAML's own scanner reads: slower, and it refuses more uses of tabs."""

Kind = Literal["syntax", "duplicate-key", "alias", "too-many-aliases", "too-deep", "too-large"]
Path = tuple[str | int, ...]


class YamlError(Exception):
    """The text is not what npm `yaml` reads.

    `line` and `column` count from 1, in the text as it was given. `mend` is the usual mend, None if there is no
    usual one. `key` is the key at fault where one is known: the one that is there twice, or the one whose value
    looks like an alias. No message quotes a value.

    `kind` `alias`: a value begins with an unquoted `*` and no such anchor was set (also `**bold** text`).
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        line: int,
        column: int,
        *,
        mend: str | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.line = line
        self.column = column
        self.mend = mend
        self.key = key

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value that is neither text nor mapping in JavaScript either: `!!binary`, `!!set`, `!!omap`, `!!timestamp`."""

    tag: str
    value: object


def load(text: str) -> object:
    """Give the value of the document, None for an empty one.

    Raises: YamlError.
    """
    text = _bounded(text)
    simple = _read_simple(text)
    return _read_exactly(text) if simple is None else simple


def load_with_lines(text: str) -> tuple[object, dict[Path, int]]:
    """Give the value, and for the path of every key and list item the line on which it begins, from 1.

    Raises: YamlError.
    """
    lines: dict[Path, int] = {}
    return _read_exactly(_bounded(text), lines=lines), lines


def plain_comment_cuts(text: str) -> tuple[str, ...]:
    """Name the top-level keys whose unquoted value a ` #…` comment on its last line cuts short, in order.

    A value that the comment takes wholly (`description: #42 is open`) counts too. A text that cannot be read has none.
    """
    cuts: list[str] = []
    if "#" in text:
        with suppress(YamlError):
            _read_exactly(_bounded(text), cuts=cuts)
            return tuple(cuts)
    return ()


def _bounded(text: str) -> str:
    """Refuse what is too long; bring the line endings to what both readers take for one."""
    if len(text) > MAX_CHARS:
        line = text.count("\n", 0, MAX_CHARS) + 1
        column = MAX_CHARS - text.rfind("\n", 0, MAX_CHARS)
        raise YamlError("too-large", f"more than {MAX_CHARS} characters of YAML", line, column)
    return text.replace("\r\n", "\n").removeprefix("\ufeff")


# --- the core schema ---------------------------------------------------------------------------------------------

_NULLS: Final = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SPECIAL_FLOATS: Final = {
    **{sign + word: inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: -inf for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
_WORDS: Final[dict[str, object]] = {**_NULLS, **_BOOLS, **_SPECIAL_FLOATS}
_MAYBE_NOT_TEXT: Final = frozenset("0123456789+-.~nNtTfF")
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_IN_FLOW: Final = re.compile(r"[^\W\d_](?:[\w ./-]*\w)?")


def _resolve(plain: str) -> object:
    """Say what an unquoted scalar is."""
    if plain and plain[0] not in _MAYBE_NOT_TEXT:
        return plain
    if plain in _WORDS:
        return _WORDS[plain]
    if _INT.fullmatch(plain):
        return _whole(plain)
    return float(plain) if _FLOAT.fullmatch(plain) else plain


def _whole(digits: str) -> int | float:
    """Read a whole number as JavaScript holds it: exact up to 2^53, a float (perhaps infinite) beyond."""
    if digits[:2] in ("0x", "0o"):
        value = int(digits[2:], 16 if digits[1] == "x" else 8)
        return value if value <= 2**53 else float(value) if value < 2**1024 - 2**970 else inf
    number = float(digits)
    if abs(number) > 2**53 or (number == 0 and digits[0] == "-"):
        return number
    return int(number)


def _resolve_1_1(plain: str) -> object:
    """Say what an unquoted scalar is below `%YAML 1.1`, where PyYAML is at home."""
    if re.fullmatch("[yYnN]", plain):
        return plain in "yY"
    loader = yaml.SafeLoader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, plain, (True, False))  # type: ignore[no-untyped-call]  # no types
        value: object = loader.construct_object(yaml.ScalarNode(tag, plain))
    except (ValueError, yaml.YAMLError):
        return plain
    known = value is None or isinstance(value, (str, bool, int, float))
    return value if known else Tagged(_TAG + "timestamp", plain)


def _resolve_tagged(tag: str, text: str) -> object:
    """Say what a scalar with an explicit tag is. An unknown tag, or one that does not fit, leaves the text."""
    name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if name in ("binary", "timestamp"):
        return Tagged(tag, text)
    fits = (
        (name == "null" and text in _NULLS)
        or (name == "bool" and text in _BOOLS)
        or (name == "int" and _INT.fullmatch(text))
        or (
            name == "float"
            and (text in _SPECIAL_FLOATS or (_FLOAT.fullmatch(text) and not _INT.fullmatch(text)))
        )
    )
    return _resolve(text) if fits else text


def _property_name(value: object) -> str:
    """Name the property that a key becomes: JavaScript's `String(value)`, but nothing for null.

    A list or mapping used as a key becomes its own text in flow style, quoting and numbers normalised.
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else _flow_text(value)


def _flow_text(value: object) -> str:
    if isinstance(value, str):
        return value if _PLAIN_IN_FLOW.fullmatch(value) and _resolve(value) is value else json.dumps(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return _number_text(float(value))
    if isinstance(value, list):
        inside, brackets = [_flow_text(item) for item in value], "[]"
    elif isinstance(value, dict):
        inside, brackets = [f"{_flow_text(key)}: {_flow_text(item)}" for key, item in value.items()], "{}"
    else:
        return str(value)
    return f"{brackets[0]} {', '.join(inside)} {brackets[1]}" if inside else brackets


def _number_text(number: float) -> str:
    """Write a number as JavaScript does: plain digits from 1e-6 up to 1e21, an exponent without zeros beyond."""
    if not isfinite(number):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"  # noqa: PLR0124  # NaN
    sign, figures, exponent = Decimal(repr(number)).normalize().as_tuple()
    digits, minus = "".join(map(str, figures)), "-" if sign else ""
    point = len(digits) + int(exponent)
    if digits == "0":
        return digits
    if -6 < point <= 21:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        return minus + digits.ljust(point, "0")[:point] + ("." + digits[point:] if digits[point:] else "")
    tail = "." + digits[1:] if digits[1:] else ""
    return f"{minus}{digits[0]}{tail}e{point - 1:+d}"


# --- the simple way ----------------------------------------------------------------------------------------------

_SIMPLE_LINE: Final = re.compile(
    r"""(  )?([A-Za-z_][A-Za-z0-9_-]{0,99}):(?: (?:"([^"\\]*)"|'([^']*)'|([^ \-?:,\[\]{}#&*!|>'"%@`].*)))?"""
)


def _read_simple(text: str) -> dict[str, object] | None:
    """Read `key: value` lines and one level of two-blank children below `key:`; None at the first doubt.

    `isprintable` is the guard for characters: no control, separator, surrogate, mark of direction or order.
    """
    top: dict[str, object] = {}
    into, above = top, ""
    for line in text.split("\n"):
        match = _SIMPLE_LINE.fullmatch(line)
        if match is None:
            if line:
                return None
            continue
        child, key, value, single, plain = match.groups()
        if plain is not None:
            if ": " in plain or " #" in plain or plain[-1] in " :":
                return None
            value = _resolve(plain) if plain[0] in _MAYBE_NOT_TEXT else plain
        elif single is not None:
            value = single
        if not child:
            into, above = top, "" if match.end(2) + 1 < len(line) else key
        elif above:
            into = top[above] = {}
            above = ""
        elif into is top:
            return None
        if key in into or key in _WORDS or not line.isprintable():
            return None
        into[key] = value
    return top or None


# --- the exact way: characters -----------------------------------------------------------------------------------

_UNFIT: Final = re.compile(
    r"\r|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
    r"|\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|U0000[dD][89a-fA-F][0-9a-fA-F]{2}|\\)"
)
_PRIVATE_ESCAPE: Final = re.compile(r"\\U((?:000[fF]|0010)[0-9a-fA-F]{4})")
_EMPTY_KEY: Final = re.compile(r"^ *(?:- +)*(?=:(?:[ \t\n]|\Z))", re.MULTILINE)
_EXPLICIT_KEY: Final = re.compile(r"^ *(?:- +)*\?(?:[ \t\n]|\Z)", re.MULTILINE)
_TABBED_BLANK: Final = re.compile(r"^ *+\t[ \t]*+$", re.MULTILINE)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _StandIns:
    r"""Private characters in place of what libyaml refuses or takes for a line break, put back in the values.

    Also in place of a key that is not there (`: value`), which libyaml does not know, and of the escape of a
    surrogate (`"\ud83d"`), which it refuses and JavaScript joins with its other half. The latter is an escape
    between double quotes only; elsewhere its letters are put back.
    """

    def __init__(self, text: str) -> None:
        self.fitted = text
        self._taken: set[str] = set()
        self._given: dict[str, str] = {}
        self._spare: Iterator[str] = map(chr, range(0xF0000, 0x10FFFE))
        self._plain: dict[int, str] = {}
        self._quoted: dict[int, str] = {}
        if _UNFIT.search(text) or _EMPTY_KEY.search(text):
            self._taken = set(text).union(chr(int(code, 16)) for code in _PRIVATE_ESCAPE.findall(text))
            self.fitted = _UNFIT.sub(self._replace, text)
            if not _EXPLICIT_KEY.search(text):
                self.fitted = _EMPTY_KEY.sub(lambda match: match[0] + self._stand_in("", ""), self.fitted)
        if not self.fitted.endswith("\n"):
            self.fitted += "\n"  # npm `yaml` ends a block text with one in any case

    def _replace(self, match: re.Match[str]) -> str:
        unfit = match[0]
        if unfit[0] != "\\":
            return self._stand_in(unfit, unfit)
        return unfit if unfit == "\\\\" else self._stand_in(unfit, chr(int(unfit[-4:], 16)))

    def _stand_in(self, plain: str, quoted: str) -> str:
        given = self._given.get(plain)
        if given is None:
            given = self._given[plain] = next(spare for spare in self._spare if spare not in self._taken)
            self._plain[ord(given)] = plain
            self._quoted[ord(given)] = quoted
        return given

    def restore(self, value: str, *, escapes: bool = False) -> str:
        """Put the characters back; `escapes`: the value stood between double quotes."""
        if not self._plain:
            return value
        value = value.translate(self._quoted if escapes else self._plain)
        if escapes and _SURROGATE.search(value):
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return value


# --- the exact way: events to values -----------------------------------------------------------------------------

# The stub does not export CParser, the bare scanner below CSafeLoader.
_SCANNER: Final[Any] = yaml.cyaml.CParser if accelerated else yaml.SafeLoader  # type: ignore[attr-defined]  # above


class _Anchor:
    """A node that was given a name: its value, and how much it costs to expand it once more."""

    __slots__ = ("closed", "count", "nested", "value", "weight")

    def __init__(self, value: object = None, *, closed: bool = False) -> None:
        self.value = value
        self.closed = closed
        self.count = 1
        self.weight = 0
        self.nested: list[_Anchor] = []

    def close(self, value: object, nested: list[_Anchor]) -> None:
        """Say that the node is whole, and which anchors were expanded within it."""
        self.value, self.nested, self.closed = value, nested, True

    def expand(self) -> bool:
        """Count one expansion; False when it is one too many.

        The cost is npm's: expansions so far, this one included and the anchor itself counted as one, times the
        costliest expansion within (measured when the anchor is used for the first time).
        """
        self.count += 1
        if not self.weight:
            self.weight = max((inner.count * inner.weight for inner in self.nested), default=1)
        return self.count * self.weight <= MAX_EXPANSIONS


class _Open:
    """A collection that is being filled."""

    __slots__ = ("anchor", "expansions", "flow", "indent", "key", "mark", "seen", "tag", "value")

    def __init__(self, event: Any, indent: int, expansions: int) -> None:
        self.value: dict[str, object] | list[object] = {} if type(event) is yaml.MappingStartEvent else []
        self.tag: str | None = event.tag
        self.flow: bool = event.flow_style
        self.indent = indent
        self.mark: Any = event.start_mark
        self.expansions = expansions
        self.anchor: _Anchor | None = None
        self.key: str | None = None
        self.seen: set[object] = set()


def _read_exactly(
    text: str, *, lines: dict[Path, int] | None = None, cuts: list[str] | None = None, scanner: Any = _SCANNER
) -> object:
    """Read anything; fill `lines` and `cuts` if they are asked for."""
    try:
        return _Composer(_StandIns(text), lines, cuts).compose(scanner)
    except YamlError as error:
        # libyaml takes a tab on an otherwise empty line between keys for a token that it does not know.
        if not _TABBED_BLANK.fullmatch(text.split("\n")[error.line - 1]):
            raise
    for filled in (lines, cuts):
        if filled is not None:
            filled.clear()
    return _Composer(_StandIns(_TABBED_BLANK.sub("", text)), lines, cuts).compose(scanner)


class _Composer:
    """One text, read event by event."""

    def __init__(self, stand_ins: _StandIns, lines: dict[Path, int] | None, cuts: list[str] | None) -> None:
        self._stand_ins = stand_ins
        self._lines = lines
        self._cuts = cuts
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._expanded: list[_Anchor] = []
        self._resolve = _resolve
        self._root: object = None
        self._source: list[str] | None = None
        self._tight_comments = "'#" in stand_ins.fitted or '"#' in stand_ins.fitted

    def compose(self, scanner: Any) -> object:
        """Read the one document; None if there is none."""
        events = scanner(self._stand_ins.fitted)
        try:
            next_event = events.get_event
            next_event()  # the stream begins
            start = next_event()
            if type(start) is yaml.StreamEndEvent:
                return None
            if start.version == (1, 1):
                self._resolve = _resolve_1_1
            self._read_node(next_event)
            next_event()  # the document ends
            after = next_event()
        except yaml.YAMLError as error:
            raise self._translated(error) from None
        finally:
            events.dispose()
        if type(after) is not yaml.StreamEndEvent:
            raise self._error("a second document begins", after.start_mark, _REMOVE_MARK)
        return self._root

    def _read_node(self, next_event: Any) -> None:
        """Read events until the root node is whole."""
        while True:
            event = next_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._begin(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            else:
                self._end(event)
            if not self._open:
                return

    def _scalar(self, event: Any) -> None:
        start, end, style = event.start_mark, event.end_mark, event.style
        if style == '"' or style == "'":  # noqa: PLR1714  # twice as fast, and this is the hottest line
            if start.line != end.line:
                self._check_continuation("quote", start, end)
            if self._tight_comments and self._source_line(end.line).startswith("#", end.column):
                raise self._error("a comment touches the closing quote", end, "quote the whole value")
        text = self._stand_ins.restore(event.value, escapes=style == '"')
        value: object = text
        if event.tag is None:
            if event.implicit[0]:
                value = self._resolve(text)
        elif event.tag != "!":
            value = _resolve_tagged(event.tag, text)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, closed=True)
        if self._cuts is not None and len(self._open) == 1 and not style:
            self._note_cut(self._cuts, end)
        self._put(value, start, _identity(value))

    def _begin(self, event: Any) -> None:
        start = event.start_mark
        if len(self._open) == MAX_DEPTH:
            raise self._error(_TOO_DEEP, start, kind="too-deep")
        first = start if event.anchor is None and event.tag is None else event.end_mark
        opened = _Open(event, first.column, len(self._expanded))
        if event.anchor is not None:
            opened.anchor = self._anchors[event.anchor] = _Anchor()
        self._open.append(opened)

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        if done.flow and event.end_mark.line != done.mark.line and not (self._open and self._open[-1].flow):
            self._check_continuation("bracket", done.mark, event.end_mark)
        value = done.value if done.tag is None else self._tagged(done)
        if done.anchor is not None:
            done.anchor.close(value, self._expanded[done.expansions :])
        self._put(value, done.mark, None)

    def _alias(self, event: Any) -> None:
        anchor, mark = self._anchors.get(event.anchor), event.start_mark
        if anchor is None:
            raise self._alias_error(mark, self._open[-1].key if self._open else None)
        if not anchor.closed:
            raise self._error("a value that contains itself", mark, _QUOTE)
        if not anchor.expand():
            message = f"aliases are expanded more than {MAX_EXPANSIONS} times"
            raise self._error(message, mark, "write the values out", kind="too-many-aliases")
        self._expanded.append(anchor)
        into = self._open[-1]
        names = isinstance(anchor.value, (dict, list)) and isinstance(into.value, dict) and into.key is None
        self._put(f"*{event.anchor}" if names else anchor.value, mark, None)

    def _put(self, value: object, mark: Any, identity: object) -> None:
        """Place a whole node; `identity` is what makes a key a duplicate, None for what never is one."""
        if not self._open:
            self._root = value
            return
        into = self._open[-1]
        if isinstance(into.value, list):
            self._note_line(len(into.value), mark)
            into.value.append(value)
        elif into.key is not None:
            into.value[into.key] = value
            into.key = None
        else:
            name = _property_name(value)
            if identity is not None and identity in into.seen:
                message = f"the key `{name}` is there twice"
                raise self._error(message, mark, "keep one of the two", kind="duplicate-key", key=name)
            into.seen.add(identity)
            into.key = name
            self._note_line(name, mark)

    def _tagged(self, done: _Open) -> object:
        """Check a collection with a tag; one that is unknown, or meant for another kind of node, changes nothing."""
        value = done.value
        if isinstance(value, dict) and done.tag == _TAG + "set":
            if any(item is not None for item in value.values()):
                raise self._error("a `!!set` holds keys without values", done.mark)
            return Tagged(done.tag, tuple(value))
        if isinstance(value, list) and done.tag == _TAG + "omap":
            keys = [str(key) for item in value for key in (item if isinstance(item, dict) else [item])]
            if len(set(keys)) < len(keys) or any(isinstance(item, dict) and len(item) > 1 for item in value):
                raise self._error("an `!!omap` holds one key an item, each once", done.mark)
            return Tagged(done.tag, tuple(value))
        return value

    # What npm `yaml` refuses and libyaml lets pass: lines inside quotes or brackets that are not indented.

    def _source_line(self, number: int) -> str:
        if self._source is None:
            self._source = self._stand_ins.fitted.split("\n")
        return self._source[number] if number < len(self._source) else ""

    def _check_continuation(self, opener: str, start: Any, end: Any) -> None:
        """Refuse lines that are indented no further than the block around them.

        In brackets a comment may be, and so may the bracket that closes the outermost one.
        """
        around = next((opened for opened in reversed(self._open) if not opened.flow), None)
        if around is None:
            return
        for number in range(start.line + 1, end.line + 1):
            line = self._source_line(number)
            content = line.lstrip(" ")
            indent = len(line) - len(content)
            if not content or indent > around.indent:
                continue
            closes = number == end.line and indent == end.column - 1 == around.indent
            if opener == "quote" or not (content[0] == "#" or closes):
                message = f"the {opener} that opens here is not closed before the next unindented line"
                raise self._error(
                    message, start, f"close the {opener}, or indent the lines that belong to it"
                )

    # Where things stand, and what to say of it.

    def _note_line(self, step: str | int, mark: Any) -> None:
        if self._lines is not None:
            path = tuple(len(over.value) if over.key is None else over.key for over in self._open[:-1])
            self._lines[(*path, step)] = mark.line + 1

    def _note_cut(self, cuts: list[str], end: Any) -> None:
        key = self._open[0].key
        if key is not None and self._source_line(end.line)[end.column :].lstrip(" \t").startswith("#"):
            cuts.append(key)

    def _error(
        self,
        message: str,
        mark: Any,
        mend: str | None = None,
        *,
        kind: Kind = "syntax",
        key: str | None = None,
    ) -> YamlError:
        line, column = (mark.line, mark.column) if mark else (0, 0)
        last = self._stand_ins.fitted.rstrip().count("\n")
        if line > last:  # what ends too early is shown at the end of what there is
            line, column = last, len(self._source_line(last).rstrip())
        before = self._stand_ins.restore(self._source_line(line)[:column])
        return YamlError(kind, message, line + 1, len(before) + 1, mend=mend, key=key)

    def _alias_error(self, mark: Any, key: str | None) -> YamlError:
        message = "an unquoted value that begins with `*` is an alias, and no such anchor was set"
        return self._error(message, mark, _QUOTE, kind="alias", key=key)

    def _translated(self, error: yaml.YAMLError) -> YamlError:
        """Say the scanner's complaint in our words, at the place where a person has to look."""
        found: Any = getattr(error, "problem_mark", None)
        opening: Any = getattr(error, "context_mark", None)
        said = f"{getattr(error, 'context', None)}; {getattr(error, 'problem', None)}"
        if "nesting depth" in said:  # libyaml looks ahead, and has a bound of its own
            return self._error(_TOO_DEEP, found, kind="too-deep")
        for mark in filter(None, (found, opening)):
            alias = _VALUE_IS_ALIAS.match(self._source_line(mark.line))
            if alias and alias["name"] not in self._anchors:
                star = yaml.Mark("", 0, mark.line, alias.start("name") - 1, None, 0)
                return self._alias_error(
                    star, alias["key"] and self._stand_ins.restore(alias["key"].rstrip())
                )
        if found:
            said = _said_closer(said, self._source_line(found.line), found.column)
            if "flow" in said and not self._source_line(found.line)[found.column :] and self._open:
                opening, said = self._open[-1].mark, "unclosed"
        for sign, at_opening, message, mend in _COMPLAINTS:
            if re.search(sign, said):
                return self._error(message, opening if at_opening and opening else found, mend)
        return self._error("this is not valid YAML", found or opening)


def _identity(value: object) -> object:
    """Give what two keys must share to be one key in npm's eyes: kind and value. NaN shares with nothing."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return ("word", value)
    if isinstance(value, (int, float)) and value == value:  # noqa: PLR0124  # NaN
        return ("number", float(value))
    return None


def _said_closer(said: str, line: str, column: int) -> str:
    """Tell apart what the scanner calls by one name, by what stands at the place and before it."""
    before = line[:column].rstrip()
    if line.startswith("\t", column):
        return "a tab"
    if "mapping values" in said and re.fullmatch(r"[ \t]*[\w.-]+", before):
        return "a stray key"
    if ("expected key" in said or "expected <block end>" in said) and before.endswith(('"', "'", "]", "}")):
        return "after a quote" if before[-1] in "\"'" else "after a bracket"
    return said


_TOO_DEEP: Final = f"lists and mappings are nested deeper than {MAX_DEPTH} levels"
_QUOTE: Final = "put the value in double quotes"
_REMOVE_MARK: Final = "remove the line `---`, `...` or `%`"
_ESCAPE: Final = "use single quotes, or write each backslash twice"
# What the scanner says (libyaml or PyYAML), whether to look where the value opens, what we say, the mend.
_COMPLAINTS: Final = (
    ("a tab|tab character", False, "a tab where blanks must indent", "indent with blanks"),
    (
        "a stray key",
        False,
        "this key is not aligned with its neighbours, or the line above is no key",
        "align the keys",
    ),
    (
        "after a quote",
        False,
        "text follows the closing quote",
        "put the whole value in quotes of the other kind",
    ),
    ("after a bracket", False, "text follows the closing bracket", _QUOTE),
    ("mapping values", False, "a `: ` inside an unquoted value", _QUOTE),
    ("quoted scalar; found unex", True, "the quote that opens here is never closed", "close the quote"),
    ("escape|hexdecimal", False, "a backslash escape that does not exist", _ESCAPE),
    ("cannot start any|node content", False, "a value cannot begin with this character", _QUOTE),
    ("expected ':'", True, "this line is neither `key: value` nor a part of the value above it", "indent it"),
    ("block sequence entries", False, "a list cannot begin on the line of its key", _QUOTE),
    ("not allowed", False, "a key cannot stand here", _QUOTE),
    ("expected key|block mapping; exp", False, "this line is not aligned with the keys above", "align it"),
    ("'-' indicator|block collection", False, "a line among list items that is none", "indent it"),
    ("unclosed|expected ',' or", True, "this bracket is not closed, or text follows inside it", _QUOTE),
    (
        "document start",
        False,
        "text after the end of the value, or after a `%` line without `---`",
        _REMOVE_MARK,
    ),
    ("block scalar", False, "`|` or `>` must end its line, and the text below it must be indented", _QUOTE),
    ("tag", False, "a value that begins with `!` and is no tag", _QUOTE),
    ("anchor|alias", False, "a value that begins with `&` and is no anchor", _QUOTE),
    ("directive", False, "a line that begins with `%` and is no directive", "remove the line"),
)
_VALUE_IS_ALIAS: Final = re.compile(
    r"""[ ]*(?:-[ ]+)*(?:(?P<key>[^\s#'":][^:#]*):[ \t]+)?\*(?P<name>[^\s,\[\]{}]*)"""
)
