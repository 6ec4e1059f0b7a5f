"""The configuration: a mapping to Settings, and every mistake of it at once. Pure.

Rule 1: a setting is a row of `_KEYS`; what it may be is said there, its default in `Settings`. docs/config.md tells
the same to people, and a test holds the two together.
Rule 2: nothing is guessed. An unknown key, an unknown code or a relative path is a mistake, never passed over.
Rule 3: all mistakes are collected, each with its key and line, then told in one error.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal, TypeAlias, TypeGuard, cast

from zcsyncd.errors import ConfigError
from zcsyncd.layouts.nodepath import HERE, Platform, is_absolute, join, resolve
from zcsyncd.layouts.registry import LAYOUTS

ADDRESS_VARIABLE = "ZCSYNCD_SOCKET"
EVERY_DIRECTORY = "*"
INDEX = "MEMORY.md"

LogLevel = Literal["debug", "info", "warning", "error"]
WatchMode = Literal["auto", "poll"]
Path = tuple[str | int, ...]
"""Keys and item numbers (from 0) on the way to a value."""
Reader: TypeAlias = "Callable[[object, Path, _Page], object]"
"""Gives the value for the field; what it gives for a mistake, which it notes, is thrown away."""

_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3
_SHOWN = 60
"""Characters of a wrong value that a message repeats: enough to recognise it."""


@dataclass(frozen=True, slots=True)
class NamedDirectory:
    """A memory directory that the person names."""

    dir: str
    layout: str | None
    """None: to be told from what lies in it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the daemon goes by. Directories are absolute and normal, `~` resolved."""

    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further roots by layout."""
    dirs: tuple[NamedDirectory, ...] = ()
    ignore: tuple[str, ...] = ()
    """Patterns on a file's path relative to its memory directory; see `ignored`."""
    mute: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Codes that are not told, by memory directory; `*` is every directory."""
    audit_grace_s: float = 60
    settle_quiet_ms: float = 50
    settle_longest_ms: float = 1000
    rescan_every_s: float = 600
    """0: no rescan but those that something lost calls for."""
    watch_mode: WatchMode = "auto"
    watch_poll_s: float = 2
    """How often a polled root is looked at."""
    journal_max_events: int = 100_000
    journal_max_age_days: float = 30
    journal_max_bytes: int = 64 * _MIB
    history_enabled: bool = True
    history_max_versions: int = 20
    """Former versions of one file."""
    history_max_age_days: float = 30
    history_max_bytes: int = 64 * _MIB
    """All contents, compressed."""
    search_enabled: bool = True
    log_level: LogLevel = "info"
    log_max_bytes: int = 4 * _MIB
    log_keep: int = 3
    """Older log files that are kept beside the current one."""
    bus_address: str | None = None
    """None: the platform's own place."""
    zcode_enabled: bool = True
    zcode_cwds: tuple[str, ...] = ()
    """Working directories that the person names, so that their directories can be shown with them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each setting that is no default comes from: `config.yaml line 7`, `environment ZCSYNCD_SOCKET`."""

    def ignored(self, file: str) -> bool:
        """Tell whether a file (relative to its memory directory, with `/`) is to be passed over."""
        return any(ignores(pattern, file) for pattern in self.ignore)

    def muted_in(self, directory: str) -> frozenset[str]:
        """Give the codes that are not to be told for a memory directory."""
        return self.mute.get(EVERY_DIRECTORY, frozenset()) | self.mute.get(directory, frozenset())


def parse(
    value: object,
    lines: Mapping[Path, int] | None = None,
    *,
    home: str,
    env: Mapping[str, str] | None = None,
    codes: Collection[str] | None = None,
    file: str = "config.yaml",
    platform: Platform = HERE,
) -> Settings:
    """Turn the loaded configuration into Settings.

    `lines` gives the line (from 1) of a key or item by its path. `home` is what `~` stands for. `codes` are the
    audit's codes; None leaves muted codes unchecked. `file` is how messages call the file.

    Raises: ConfigError, with one line for each mistake; its `data["mistakes"]` lists them.
    """
    page = _Page(lines or {}, home, codes, file, platform)
    found: dict[str, object] = {}
    if value is None or isinstance(value, dict):
        _read_section(value or {}, (), _tree(), page, found)
    else:
        page.wrong((), "the configuration must be a mapping of settings", value)
    _read_environment(env or {}, page, found)
    settings = replace(Settings(), **found, sources=page.sources)  # type: ignore[arg-type]  # each row of _KEYS gives its field's type
    _compare(settings, page)
    if page.mistakes:
        raise ConfigError("\n".join(page.mistakes), mistakes=page.mistakes)
    return settings


def effective(settings: Settings, *, address: str | None = None) -> list[tuple[str, object, str]]:
    """List every setting: key, value as JSON can hold it, and where it comes from, in the order of the documentation.

    `address` is shown as `bus.address` where none is configured.
    """
    rows: list[tuple[str, object, str]] = []
    for key in _KEYS:
        value = _plain(getattr(settings, key.field))
        if key.name == "bus.address" and value is None:
            value = address
        rows.append((key.name, value, settings.sources.get(key.name, "default")))
    return rows


def ignores(pattern: str, file: str) -> bool:
    """Tell whether an ignore pattern takes a file (relative to its memory directory, with `/`).

    `*` and `?` stay within a name, `[…]` is one of some characters, `**` goes over directories. A pattern without
    `/` takes that name at any depth, another one counts from the memory directory. Whatever takes a directory takes
    all that lies in it; with a `/` at its end it takes directories only. Upper and lower case differ.
    """
    anchored, directories_only, steps = _steps(pattern)
    parts = file.split("/")
    reached = {0} if anchored else set(range(len(parts)))
    for step in steps:
        if step is None:
            reached = {later for place in reached for later in range(place, len(parts) + 1)}
        else:
            reached = {place + 1 for place in reached if place < len(parts) and step.fullmatch(parts[place])}
    last = len(parts) - 1 if directories_only else len(parts)
    return any(0 < place <= last for place in reached)


@lru_cache(maxsize=1024)
def _steps(pattern: str) -> tuple[bool, bool, tuple[re.Pattern[str] | None, ...]]:
    """Split a pattern: whether it counts from the memory directory, takes directories only, and its names."""
    names = pattern.rstrip("/").split("/")
    # fnmatch's own translation cannot run away, however many `*` a name has.
    steps = tuple(None if name == "**" else re.compile(fnmatch.translate(name)) for name in names)
    return len(names) > 1, pattern.endswith("/"), steps


# --- what goes wrong ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Page:
    """One reading of one file: what is needed for it, and what was found wrong."""

    lines: Mapping[Path, int]
    home: str
    codes: Collection[str] | None
    file: str
    platform: Platform
    mistakes: list[str] = field(default_factory=list)
    wrong_keys: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)

    def where(self, path: Path) -> str:
        """Say where a path stands; what has no line of its own has that of what holds it."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.file} line {line}"
        return self.file

    def say(self, path: Path, message: str) -> None:
        """Note a mistake."""
        self.mistakes.append(f"{self.where(path)}: {message}")
        self.wrong_keys.add(_spelled(path))

    def wrong(self, path: Path, must: str, value: object) -> None:
        """Note a value that is not what it must be."""
        self.say(path, f"{must}, not {_shown(value)}")


def _spelled(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f" item {step + 1}"
        else:
            text += f".{step}" if text else step
    return text


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "a value of another kind"


def _suggestion(word: str, known: Collection[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


# --- what a value may be -----------------------------------------------------------------------------------------


def _number(low: float, high: float, unit: str, *, or_zero: bool = False) -> Reader:
    zero = "0 (off) or " if or_zero else ""
    must = f"must be {zero}a number of {unit} from {low:g} to {high:g}"

    def read(value: object, path: Path, page: _Page) -> object:
        if _is_number(value) and (low <= value <= high or (or_zero and value == 0)):
            return value
        page.wrong(path, f"{_spelled(path)} {must}", value)
        return 0

    return read


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(low: int, high: int, unit: str) -> Reader:
    def read(value: object, path: Path, page: _Page) -> object:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        page.wrong(path, f"{_spelled(path)} must be a whole number of {unit} from {low} to {high}", value)
        return 0

    return read


_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([a-z]+)", re.IGNORECASE | re.ASCII)
_UNITS = {
    "b": 1,
    "kib": _KIB,
    "mib": _MIB,
    "gib": _GIB,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}


def _bytes(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _size(low: int, high: int, words: str) -> Reader:
    def read(value: object, path: Path, page: _Page) -> object:
        size = _bytes(value)
        if size is None or not low <= size <= high:
            must = f"must be a size from {words}, in bytes or as in 64MiB"
            page.wrong(path, f"{_spelled(path)} {must}", value)
            return 0
        return size

    return read


def _choice(*words: str) -> Reader:
    def read(value: object, path: Path, page: _Page) -> object:
        if isinstance(value, str) and value in words:
            return value
        page.wrong(path, f"{_spelled(path)} must be one of {', '.join(words)}", value)
        return words[0]

    return read


def _switch(value: object, path: Path, page: _Page) -> object:
    if not isinstance(value, bool):
        page.wrong(path, f"{_spelled(path)} must be true or false", value)
    return value is True


def _directory(value: object, path: Path, page: _Page) -> str:
    must = f"{_spelled(path)} must be an absolute path (it may begin with ~/)"
    if not isinstance(value, str) or not value or "\0" in value:
        page.wrong(path, must, value)
        return ""
    full = value
    if value == "~" or value.startswith("~/") or (page.platform == "win32" and value.startswith("~\\")):
        full = join(page.platform, page.home, value[2:])
    if not is_absolute(full, page.platform) or not _can_be_stored(full):
        page.wrong(path, must, value)
        return ""
    return resolve(full, page.platform)


def _items(value: object, path: Path, page: _Page, of: str) -> list[tuple[Path, object]]:
    if value is None:
        return []
    if not isinstance(value, list):
        page.wrong(path, f"{_spelled(path)} must be a list of {of}", value)
        return []
    return [((*path, number), item) for number, item in enumerate(value)]


def _entries(value: object, path: Path, page: _Page, of: str) -> list[tuple[str, Path, object]]:
    if value is None:
        return []
    if not isinstance(value, dict):
        page.wrong(path, f"{_spelled(path)} must be a mapping of {of}", value)
        return []
    return [(str(key), (*path, key), item) for key, item in value.items()]


def _directories(value: object, path: Path, page: _Page) -> object:
    read = [_directory(item, place, page) for place, item in _items(value, path, page, "absolute paths")]
    return tuple(dict.fromkeys(read))


def _roots(value: object, path: Path, page: _Page) -> object:
    known = [layout.name for layout in LAYOUTS]
    roots: dict[str, object] = {}
    for name, place, item in _entries(value, path, page, "layouts, each with a list of paths"):
        if name not in known:
            page.say(place, f"there is no layout {name!r}{_suggestion(name, known) or _known(known)}")
        roots[name] = _directories(item, place, page)
    return roots


def _named_directories(value: object, path: Path, page: _Page) -> object:
    named = [
        _named_directory(item, place, page)
        for place, item in _items(value, path, page, "absolute paths, or of mappings with dir and layout")
    ]
    return tuple({directory.dir: directory for directory in named}.values())


def _named_directory(value: object, path: Path, page: _Page) -> NamedDirectory:
    if not isinstance(value, dict):
        return NamedDirectory(_directory(value, path, page), None)
    for key in value:
        if key not in {"dir", "layout"}:
            page.say((*path, key), f"{_spelled(path)} has no {key!r}; it has dir and layout")
    layout = value.get("layout")
    known = [each.name for each in LAYOUTS]
    if layout is not None and layout not in known:
        near = _suggestion(str(layout), known) or _known(known)
        page.say((*path, "layout"), f"there is no layout {_shown(layout)}{near}")
    directory = _directory(value.get("dir"), (*path, "dir"), page)
    return NamedDirectory(directory, layout if isinstance(layout, str) else None)


def _patterns(value: object, path: Path, page: _Page) -> object:
    patterns: list[str] = []
    for place, item in _items(value, path, page, "patterns such as drafts/** or *.tmp.md"):
        wrong = _wrong_pattern(item)
        if wrong is not None:
            page.wrong(place, f"{_spelled(place)} {wrong}", item)
        elif isinstance(item, str):
            patterns.append(item)
    return tuple(dict.fromkeys(patterns))


def _wrong_pattern(item: object) -> str | None:
    if not isinstance(item, str) or not item.strip("/"):
        return "must be a pattern such as drafts/** or *.tmp.md"
    if item.startswith("!"):
        return "cannot take back what another pattern ignores"
    if item.startswith(("/", "~")) or "\\" in item or ".." in item.split("/"):
        return "must be relative to a memory directory, written with / on every system"
    if ignores(item, INDEX):
        return f"would ignore the index {INDEX}; it must be narrower"
    return None


def _muted(value: object, path: Path, page: _Page) -> object:
    muted: dict[str, frozenset[str]] = {}
    for key, place, item in _entries(
        value, path, page, 'memory directories (or "*"), each with a list of codes'
    ):
        directory = key if key == EVERY_DIRECTORY else _directory(key, place, page)
        codes = [_code(code, where, page) for where, code in _items(item, place, page, "codes of findings")]
        muted[directory] = muted.get(directory, frozenset()) | frozenset(codes)
    return muted


def _code(value: object, path: Path, page: _Page) -> str:
    if not isinstance(value, str):
        page.wrong(path, f"{_spelled(path)} must be a code of a finding such as entry-long", value)
    elif page.codes is not None and value not in page.codes:
        page.say(path, f"there is no finding {_shown(value)}{_suggestion(value, page.codes)}")
    return str(value)


def _address(value: object, path: Path, page: _Page) -> object:
    if not isinstance(value, str) or not _fits_as_address(value, page.platform):
        page.wrong(path, f"{_spelled(path)} must be {_address_form(page.platform)}", value)
        return None
    return value


def _fits_as_address(value: str, platform: Platform) -> bool:
    if platform == "win32":
        return value.lower().startswith("\\\\.\\pipe\\") and len(value) > len("\\\\.\\pipe\\")
    fits = is_absolute(value, platform) and not value.endswith("/")
    return fits and _can_be_stored(value)


def _can_be_stored(path: str) -> bool:
    """Tell whether a file system can hold the path: no NUL, no half of a surrogate pair."""
    return "\0" not in path and not any("\ud800" <= c <= "\udfff" for c in path)


def _address_form(platform: Platform) -> str:
    return r"a pipe such as \\.\pipe\zcsyncd" if platform == "win32" else "the absolute path of a socket"


def _known(names: Sequence[str]) -> str:
    return f"; known: {', '.join(names)}"


# --- the settings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Key:
    name: str
    field: str
    read: Reader


_DAY_S = 86_400

_KEYS = (
    _Key("roots", "roots", _roots),
    _Key("dirs", "dirs", _named_directories),
    _Key("ignore", "ignore", _patterns),
    _Key("mute", "mute", _muted),
    _Key("audit.grace_s", "audit_grace_s", _number(0, _DAY_S, "seconds")),
    _Key("settle.quiet_ms", "settle_quiet_ms", _number(0, 10_000, "milliseconds")),
    _Key("settle.longest_ms", "settle_longest_ms", _number(1, 60_000, "milliseconds")),
    _Key("rescan.every_s", "rescan_every_s", _number(5, 7 * _DAY_S, "seconds", or_zero=True)),
    _Key("watch.mode", "watch_mode", _choice("auto", "poll")),
    _Key("watch.poll_s", "watch_poll_s", _number(0.1, 3600, "seconds")),
    _Key("journal.max_events", "journal_max_events", _count(1, 100_000_000, "events")),
    _Key("journal.max_age_days", "journal_max_age_days", _number(0.01, 3650, "days")),
    _Key("journal.max_bytes", "journal_max_bytes", _size(_MIB, 1024 * _GIB, "1MiB to 1024GiB")),
    _Key("history.enabled", "history_enabled", _switch),
    _Key("history.max_versions", "history_max_versions", _count(1, 10_000, "versions")),
    _Key("history.max_age_days", "history_max_age_days", _number(0.01, 3650, "days")),
    _Key("history.max_bytes", "history_max_bytes", _size(_MIB, 1024 * _GIB, "1MiB to 1024GiB")),
    _Key("search.enabled", "search_enabled", _switch),
    _Key("log.level", "log_level", _choice("debug", "info", "warning", "error")),
    _Key("log.max_bytes", "log_max_bytes", _size(64 * _KIB, _GIB, "64KiB to 1GiB")),
    _Key("log.keep", "log_keep", _count(0, 100, "files")),
    _Key("bus.address", "bus_address", _address),
    _Key("layouts.zcode.enabled", "zcode_enabled", _switch),
    _Key("layouts.zcode.cwds", "zcode_cwds", _directories),
)

_EMPTY_IS_DEFAULT = frozenset(("roots", "dirs", "ignore", "mute", "layouts.zcode.cwds"))
"""Lists and mappings: nothing behind the colon is an empty one, which is the default."""


def _tree() -> dict[str, object]:
    """Hang the keys into a tree of sections."""
    tree: dict[str, object] = {}
    for key in _KEYS:
        *sections, last = key.name.split(".")
        place = tree
        for section in sections:
            place = cast("dict[str, object]", place.setdefault(section, {}))
        place[last] = key
    return tree


def _read_section(
    section: dict[object, object],
    path: Path,
    tree: dict[str, object],
    page: _Page,
    found: dict[str, object],
) -> None:
    for name, value in section.items():
        place = (*path, str(name))
        known = tree.get(str(name))
        if known is None:
            _say_unknown(place, tree, page)
        elif isinstance(known, _Key):
            if value is None and known.name in _EMPTY_IS_DEFAULT:
                continue
            found[known.field] = known.read(value, place, page)
            page.sources[known.name] = page.where(place)
        elif isinstance(value, dict):
            _read_section(value, place, cast("dict[str, object]", known), page, found)
        elif value is not None:
            inner = ", ".join(cast("dict[str, object]", known))
            page.wrong(place, f"{_spelled(place)} must be a mapping with {inner}", value)


def _say_unknown(path: Path, tree: dict[str, object], page: _Page) -> None:
    name = str(path[-1])
    full = _spelled(path)
    siblings = {_spelled((*path[:-1], sibling)): sibling for sibling in tree}
    close = get_close_matches(name, tree, n=1)
    elsewhere = [key.name for key in _KEYS if key.name.rpartition(".")[2] == name]
    if close:
        hint = f"; did you mean {_spelled((*path[:-1], close[0]))!r}?"
    elif elsewhere:
        hint = f"; did you mean {elsewhere[0]!r}?"
    else:
        hint = _suggestion(full, [key.name for key in _KEYS]) or _known(list(siblings))
    page.say(path, f"there is no setting {full!r}{hint}")


def _read_environment(env: Mapping[str, str], page: _Page, found: dict[str, object]) -> None:
    address = env.get(ADDRESS_VARIABLE)
    if not address:
        return
    if not _fits_as_address(address, page.platform):
        form = _address_form(page.platform)
        page.mistakes.append(f"environment {ADDRESS_VARIABLE} must be {form}, not {_shown(address)}")
    found["bus_address"] = address
    page.sources["bus.address"] = f"environment {ADDRESS_VARIABLE}"


def _compare(settings: Settings, page: _Page) -> None:
    """Note what fits alone, but not together."""
    if page.wrong_keys & {"settle.quiet_ms", "settle.longest_ms"}:
        return
    quiet, longest = settings.settle_quiet_ms, settings.settle_longest_ms
    if quiet > longest:
        name = "settle.quiet_ms" if "settle.quiet_ms" in page.sources else "settle.longest_ms"
        place: Path = tuple(name.split("."))
        page.say(
            place,
            f"settle.quiet_ms ({quiet:g}) must not be longer than settle.longest_ms ({longest:g})",
        )


def _plain(value: object) -> object:
    """Turn a setting into what JSON can hold."""
    if isinstance(value, NamedDirectory):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
