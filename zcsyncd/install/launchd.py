"""The service as an agent of launchd: a property list, and the table that says what may stand in it. Pure.

Rule 1: the usual tools accept wrong lists: launchd passes over a key that it does not know, and a value of another
type than it expects. So every key of ours stands in `KEYS` with its type (docs/service.md, "macOS"), and a list that
does not fit is not written.
"""

from __future__ import annotations

import plistlib
import re
from collections.abc import Callable, Mapping
from xml.parsers.expat import ExpatError

from zcsyncd.errors import ConfigError
from zcsyncd.install.wanted import Wanted, checked

LABEL = "local.zcsyncd"
FILE = f"{LABEL}.plist"

Rule = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/")


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_words(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, str) for one in value)
        and _is_path(value[0])
    )


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and "=" not in name and name and isinstance(text, str)
        for name, text in value.items()
    )


def _keeps_alive(value: object) -> bool:
    # `Crashed` alone was seen not to start it again; `SuccessfulExit` false lets a daemon that left in order rest.
    return (
        isinstance(value, dict)
        and value == {"Crashed": True, "SuccessfulExit": False}
        and all(map(_is_flag, value.values()))
    )


KEYS: Mapping[str, tuple[str, Rule]] = {
    "Label": (f"the name {LABEL}", lambda value: value == LABEL),
    "ProgramArguments": ("a list of words, an absolute path first", _are_words),
    "EnvironmentVariables": ("names with texts", _are_variables),
    "RunAtLoad": ("true", lambda value: value is True),
    "KeepAlive": ("Crashed true, SuccessfulExit false", _keeps_alive),
    "ThrottleInterval": ("a number of seconds from 1 on", lambda value: _is_count(value) and value != 0),
    "ExitTimeOut": ("a number of seconds from 1 on", lambda value: _is_count(value) and value != 0),
    "ProcessType": ("Background", lambda value: value == "Background"),
    "Umask": ("63, that is 077", lambda value: _is_count(value) and value == 0o077),
    "StandardOutPath": ("an absolute path", _is_path),
    "StandardErrorPath": ("an absolute path", _is_path),
}
"""Every key that may be there: what its value is, in words and as a test. All but the variables must be there."""
MAY_BE_MISSING = frozenset({"EnvironmentVariables"})


def problems(values: object) -> list[str]:
    """Tell everything that is wrong with a property list of ours; empty when it is right."""
    if not isinstance(values, dict):
        return ["it is no dictionary"]
    found = [f"{key} is missing" for key in KEYS if key not in values and key not in MAY_BE_MISSING]
    for key, value in values.items():
        if key not in KEYS:
            found.append(f"{key} is not known")
        elif not KEYS[key][1](value):
            found.append(f"{key} has to be {KEYS[key][0]}, not {value!r}")
    if not found and list(values) != [key for key in KEYS if key in values]:
        found.append(f"the order of the keys has to be {', '.join(KEYS)}")
    return found


def agent(template: bytes, wanted: Wanted) -> bytes:
    """Fill in the property list.

    Raises: ConfigError, for a value that it cannot hold, and for a template that does not fit the table.
    """
    values = plistlib.loads(template)
    own: dict[str, object] = {"ProgramArguments": [checked("the command", word) for word in wanted.words]}
    if wanted.environment:
        own["EnvironmentVariables"] = {
            name: checked(f"the variable {name}", value) for name, value in wanted.environment
        }
    if wanted.error_log is not None:
        own["StandardErrorPath"] = checked("the log's path", wanted.error_log)
    merged = values | own
    # A key that the table does not have keeps its place at the end, where `problems` finds it.
    filled = {
        key: merged[key] for key in (*KEYS, *(key for key in merged if key not in KEYS)) if key in merged
    }
    wrong = problems(filled)
    if wrong:
        raise ConfigError("the property list does not fit:\n" + "\n".join(wrong))
    return plistlib.dumps(filled, sort_keys=False)


def command_of(text: bytes) -> list[str]:
    """Give the words of a property list's command; empty when it cannot be read."""
    try:
        words = plistlib.loads(text).get("ProgramArguments")
    except (ValueError, AttributeError, ExpatError, plistlib.InvalidFileException):
        return []
    return [str(word) for word in words] if isinstance(words, list) else []


# --- what launchctl tells ----------------------------------------------------------------------------------------


def printed(text: str) -> dict[str, str]:
    """Read the first level of what `launchctl print` shows of a service: `name = value` lines."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        pair = re.fullmatch(r"\t([a-z][a-z ]*) = ([^{]*)", line)
        if pair:
            found.setdefault(pair[1], pair[2].strip())
    return found
