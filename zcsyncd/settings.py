"""What people have set: our own configuration, and what hosts' settings say about memory. Door: files.

Rule 1: our own file is read strictly. What is wrong in it is told with file and line, and nothing starts.
Rule 2: a host's file is read tolerantly. What cannot be used counts as not there, and gives a complaint for `status`.
Rule 3: only ordinary files are read, up to a bound; a FIFO or a device is never opened.
Rule 4: no message repeats what a host's file holds.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from zcsyncd import places
from zcsyncd.config import Settings, parse
from zcsyncd.errors import ConfigError
from zcsyncd.layouts import zcode
from zcsyncd.layouts.layout import Layout, Root, Tree
from zcsyncd.layouts.nodepath import is_absolute, js_trim, resolve
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.memory.yaml import YamlError, load_with_lines

MAX_CONFIG_BYTES = 64 * 1024
MAX_PI_BYTES = 64 * 1024
"""pi's `zcode-memory.json` has three keys."""
MAX_HOST_BYTES = 1024 * 1024
"""A host's own settings file holds much that is not ours."""

PI_VARIABLE = "PI_CODING_AGENT_DIR"
PI_FILE = "zcode-memory.json"

MOVING_VARIABLES = (*(name for layout in LAYOUTS for name in layout.variables), PI_VARIABLE)
"""What moves roots: a daemon started without the person's shell may not have it."""
CARRIED_VARIABLES = tuple(dict.fromkeys((*MOVING_VARIABLES, "CLAUDE_CONFIG_DIR", "DSH_HOME")))
"""What a service is started with, where the person's shell has it: what moves roots of any host, read yet or not."""


class PiMemory(NamedTuple):
    """What pi's `zcode-memory.json` says about a working directory."""

    dir: str | None
    """Absolute; None when none is named."""
    named_by: Literal["user", "project"] | None
    """Whose file names it."""
    complaints: tuple[str, ...]


class Known(NamedTuple):
    """The roots of all layouts that are switched on."""

    roots: tuple[Root, ...]
    complaints: tuple[str, ...]


# --- our own configuration ---------------------------------------------------------------------------------------


def read_settings(env: Mapping[str, str], *, codes: Collection[str] | None = None) -> Settings:
    """Read the configuration; without a file everything is at its default.

    `codes` are the audit's codes; without them muted codes are not checked.

    Raises: ConfigError, which lists every mistake with file and line.
    """
    path = places.config_file(env)
    home = places.home(env)
    name = os.path.basename(path)
    try:
        text = _config_text(path, name)
        value, lines = load_with_lines(text) if text is not None else (None, {})
        return parse(value, lines, home=home, env=env, codes=codes, file=name)
    except YamlError as error:
        mend = f" ({error.mend})" if error.mend else ""
        where = f"{name} line {error.line}, column {error.column}"
        raise ConfigError(f"{where}: {error.message}{mend}", hint=f"mend {path}") from error
    except ConfigError as error:
        if error.hint is None:
            error.hint = f"mend {path}"
        raise


def _config_text(path: str, name: str) -> str | None:
    """Give the file's text; None when there is no file."""
    try:
        raw = _read_ordinary(path, MAX_CONFIG_BYTES, private=True)
    except FileNotFoundError:
        return None
    except _Unfit as unfit:
        raise ConfigError(f"{name} {unfit.what}", hint=f"{unfit.mend}: {path}") from unfit
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}", hint=f"make it readable for you: {path}"
        ) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name} line {line}: the text is not UTF-8", hint=f"save it as UTF-8: {path}"
        ) from error


# --- what hosts have set -----------------------------------------------------------------------------------------


def known_roots(env: Mapping[str, str], settings: Settings) -> Known:
    """Give the roots of every layout that is switched on, each layout's own first, and what was wrong on the way."""
    home = places.home(env)
    roots: list[Root] = []
    complaints: list[str] = []
    for layout in LAYOUTS:
        if layout.name == zcode.NAME and not settings.zcode_enabled:
            continue
        content, wrong = _host_settings(layout, home)
        roots += layout.roots(env, home, settings.roots.get(layout.name, ()), content)
        complaints += [*wrong, *_unused(layout, env, home, content)]
    return Known(tuple(roots), tuple(complaints))


def _host_settings(layout: Layout, home: str) -> tuple[object, tuple[str, ...]]:
    if layout.settings_file is None:
        return None, ()
    return _read_json(layout.settings_file(home), MAX_HOST_BYTES)


def _unused(layout: Layout, env: Mapping[str, str], home: str, content: object) -> list[str]:
    """Tell of settings that name a root which cannot be used, because it is not absolute."""
    complaints = [
        f"{variable} is passed over: it is no absolute path"
        for variable in layout.variables
        if (value := js_trim(env.get(variable, ""))) and not is_absolute(value)
    ]
    if layout.name == zcode.NAME and isinstance(content, dict):
        moved = content.get(zcode.DATA_SETTING)
        blank = moved is None or (isinstance(moved, str) and not js_trim(moved))
        if not blank and zcode.data_base_dir(content) is None:
            where = zcode.settings_file(home)
            complaints.append(f"{where}: {zcode.DATA_SETTING} is passed over: it is no absolute path")
    return complaints


def existing_directories(trees: Sequence[Tree]) -> tuple[str, ...]:
    """List the memory directories that exist below the trees, in order; what cannot be read is passed over.

    For a question without a daemon; a daemon knows them from its scan.
    """
    found: list[str] = []
    for tree in trees:
        level = [tree.base]
        for fits in tree.levels:
            level = [
                below for path in level for below in _directories_in(path) if fits(os.path.basename(below))
            ]
        found += [path for path in level if os.path.isdir(path)]
    return tuple(dict.fromkeys(found))


def _directories_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if os.path.isdir(entry.path))
    except OSError:
        return []


def pi_agent_dir(env: Mapping[str, str]) -> str:
    """Give pi's own directory: `PI_CODING_AGENT_DIR`, else `~/.pi/agent`."""
    home = places.home(env)
    named = env.get(PI_VARIABLE, "")
    if named == "~" or named.startswith(("~/", "~" + os.sep)):
        named = home + named[1:]
    return named if is_absolute(named) else os.path.join(home, ".pi", "agent")


def pi_memory_dir(env: Mapping[str, str], cwd: str) -> PiMemory:
    """Tell which memory directory pi's `zcode-memory.json` names for a working directory.

    The project's file is laid over the person's. A relative directory counts from `cwd`, which is absolute.
    """
    complaints: list[str] = []
    named: str | None = None
    named_by: Literal["user", "project"] | None = None
    sources: tuple[tuple[Literal["user", "project"], str], ...] = (
        ("user", os.path.join(pi_agent_dir(env), "extensions", PI_FILE)),
        ("project", os.path.join(cwd, ".pi", PI_FILE)),
    )
    for who, path in sources:
        content, wrong = _read_json(path, MAX_PI_BYTES)
        complaints += wrong
        if not isinstance(content, dict) or "dir" not in content:
            continue
        value = content["dir"]
        if isinstance(value, str) and _is_path(value):
            named, named_by = (value, who) if js_trim(value) else (None, None)
            if value.startswith("~"):
                complaints.append(f"{path}: dir begins with ~, which names a directory of that name here")
        elif value is None:
            named, named_by = None, None
        else:
            complaints.append(f"{path}: dir must be a path; it is passed over")
    if named is None:
        return PiMemory(None, None, tuple(complaints))
    return PiMemory(resolve(named, process_cwd=cwd), named_by, tuple(complaints))


def _is_path(value: str) -> bool:
    """Tell whether a text can be a path at all: no NUL, and no half of a surrogate pair that stands for no byte."""
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _read_json(path: str, limit: int) -> tuple[object, tuple[str, ...]]:
    """Give the object in a host's JSON file, and a complaint; None for a file that is missing or cannot be used."""
    try:
        content = json.loads(_read_ordinary(path, limit).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None, ()
    except _Unfit as unfit:
        return None, (f"{path} {unfit.what}; it is passed over",)
    except OSError as error:
        return None, (f"{path} cannot be read ({error.strerror}); it is passed over",)
    except UnicodeDecodeError:
        return None, (f"{path} is not UTF-8; it is passed over",)
    except json.JSONDecodeError as error:
        return None, (f"{path} line {error.lineno}: no JSON ({error.msg}); it is passed over",)
    except (ValueError, RecursionError):
        # A number of thousands of digits, brackets nested by thousands.
        return None, (f"{path} holds JSON that cannot be read; it is passed over",)
    if not isinstance(content, dict):
        return None, (f"{path} holds no JSON object; it is passed over",)
    return content, ()


# --- files -------------------------------------------------------------------------------------------------------


class _Unfit(Exception):
    """The file is there, but not one that is read."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend


def _read_ordinary(path: str, limit: int, *, private: bool = False) -> bytes:
    """Read an ordinary file of at most `limit` bytes. `private`: nobody else may be able to write it.

    Raises: _Unfit; OSError, as the system tells it.
    """
    # Looked at before it is opened: to open a FIFO waits, to open a device may do something.
    _check(os.stat(path), private=private)
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    )
    descriptor = os.open(path, flags)
    with open(descriptor, "rb") as file:
        # Looked at again: it may be another one by now.
        _check(os.fstat(descriptor), private=private)
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise _Unfit(f"is larger than {limit // 1024} KiB", "make it smaller")
    return raw


def _check(found: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _Unfit("is no ordinary file", "put an ordinary file there")
    if not private or sys.platform == "win32":
        return
    if found.st_uid not in (0, os.geteuid()):
        raise _Unfit(f"belongs to another owner (uid {found.st_uid})", "make it yours")
    if found.st_mode & stat.S_IWOTH:
        raise _Unfit("can be written by everybody", "chmod o-w")
    if found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid:
        raise _Unfit(f"can be written by the group {found.st_gid}", "chmod g-w")
