"""The service as a task of the Windows Task Scheduler: its XML, and the table that says what may stand in it. Pure.

Rule 1: the usual tools accept wrong tasks, or refuse them without telling the element. So every element of ours
stands in `ELEMENTS` in its order with what it may hold, and a task that does not fit is not written.
Rule 2: a task is started with the environment of the log-in. What was set in a shell only goes into the command, as
`--env NAME=VALUE`.
Rule 3: the Task Scheduler expands `%NAME%` and `$(…)` in a command and knows no way to write them as they are, so a
value that holds one is refused.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from zcsyncd.errors import ConfigError
from zcsyncd.install.wanted import Wanted, checked

NAME = "zcsyncd"
SPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"

_FLAG = "true|false"
_USER = r"S-1-[0-9-]+|[^\\/\[\]:;|=,+*?<>\x22]+\\[^\\/\[\]:;|=,+*?<>\x22]+"

ELEMENTS: Mapping[str, str | None] = {
    "Task": None,
    "Task/RegistrationInfo": None,
    "Task/RegistrationInfo/Description": ".+",
    "Task/RegistrationInfo/URI": r"\\zcsyncd",
    "Task/Triggers": None,
    "Task/Triggers/LogonTrigger": None,
    "Task/Triggers/LogonTrigger/Enabled": "true",
    "Task/Triggers/LogonTrigger/UserId": _USER,
    "Task/Principals": None,
    "Task/Principals/Principal": None,
    "Task/Principals/Principal/UserId": _USER,
    "Task/Principals/Principal/LogonType": "InteractiveToken",
    "Task/Principals/Principal/RunLevel": "LeastPrivilege",
    "Task/Settings": None,
    "Task/Settings/MultipleInstancesPolicy": "IgnoreNew",
    "Task/Settings/DisallowStartIfOnBatteries": "false",
    "Task/Settings/StopIfGoingOnBatteries": "false",
    "Task/Settings/AllowHardTerminate": "true",
    "Task/Settings/StartWhenAvailable": _FLAG,
    "Task/Settings/RunOnlyIfNetworkAvailable": "false",
    "Task/Settings/IdleSettings": None,
    "Task/Settings/IdleSettings/StopOnIdleEnd": "false",
    "Task/Settings/IdleSettings/RestartOnIdle": "false",
    "Task/Settings/AllowStartOnDemand": "true",
    "Task/Settings/Enabled": "true",
    "Task/Settings/Hidden": _FLAG,
    "Task/Settings/RunOnlyIfIdle": "false",
    "Task/Settings/WakeToRun": "false",
    "Task/Settings/ExecutionTimeLimit": "PT0S",
    "Task/Settings/Priority": "[4-7]",
    "Task/Settings/RestartOnFailure": None,
    "Task/Settings/RestartOnFailure/Interval": "PT([1-9]|[12][0-9]|30)M",
    "Task/Settings/RestartOnFailure/Count": "[1-9][0-9]{0,1}",
    "Task/Actions": None,
    "Task/Actions/Exec": None,
    "Task/Actions/Exec/Command": ".+",
    "Task/Actions/Exec/Arguments": ".+",
}
"""Every element in its order, each once; what its text has to be as a pattern, None where it holds only elements."""

ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Task": {"version": r"1\.[2-4]"},
    "Task/Principals/Principal": {"id": r"\w+"},
    "Task/Actions": {"Context": r"\w+"},
}


def problems(text: bytes | str) -> list[str]:
    """Tell everything that is wrong with a task of ours; empty when it is right."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - our own text, or one that we wrote
    except (ET.ParseError, ValueError, LookupError) as error:
        return [f"it is no XML: {error}"]
    found: list[str] = []
    seen: list[str] = []
    _look_at(root, "", found, seen)
    found += [f"{path} is missing" for path in ELEMENTS if path not in seen]
    if not found and seen != list(ELEMENTS):
        out = next(path for path, wanted in zip(seen, ELEMENTS, strict=True) if path != wanted)
        found.append(f"{out} is not in its place")
    principal, context = root.find(f".//{{{SPACE}}}Principal"), root.find(f".//{{{SPACE}}}Actions")
    if principal is not None and context is not None and principal.get("id") != context.get("Context"):
        found.append("Actions has another Context than the Principal's id")
    return found


def _look_at(element: ET.Element, above: str, found: list[str], seen: list[str]) -> None:
    space, _, name = element.tag.rpartition("}")
    path = f"{above}/{name}" if above else name
    if space != "{" + SPACE:
        found.append(f"{path} is in another namespace")
    if path not in ELEMENTS:
        found.append(f"{path} is not known")
        return
    if path in seen:
        found.append(f"{path} is there twice")
    seen.append(path)
    pattern, text = ELEMENTS[path], element.text or ""
    if pattern is None and text.strip():
        found.append(f"{path} holds text")
    elif pattern is not None and not re.fullmatch(pattern, text, re.DOTALL):
        found.append(f"{path} cannot be {text!r}")
    wanted = ATTRIBUTES.get(path, {})
    for attribute in {*wanted, *element.attrib}:
        value = element.get(attribute)
        if attribute not in wanted or value is None or not re.fullmatch(wanted[attribute], value):
            found.append(f"{path} cannot have {attribute}={value!r}")
    for inner in element:
        if pattern is not None:
            found.append(f"{path} holds elements")
        _look_at(inner, path, found, seen)


def task(template: bytes, wanted: Wanted) -> str:
    """Fill in the task, as text without a declaration of its encoding; `encoded` makes the file of it.

    Raises: ConfigError, for a value that it cannot hold, and for a template that does not fit the table.
    """
    ET.register_namespace("", SPACE)
    root = ET.fromstring(template)  # noqa: S314 - our own file
    more = [word for name, value in wanted.environment for word in ("--env", f"{name}={value}")]
    values = {
        "Task/Triggers/LogonTrigger/UserId": wanted.user,
        "Task/Principals/Principal/UserId": wanted.user,
        "Task/Actions/Exec/Command": wanted.words[0],
        "Task/Actions/Exec/Arguments": command_line([*wanted.words[1:], *more]),
    }
    for path, value in values.items():
        place = root.find("/".join(f"{{{SPACE}}}{name}" for name in path.split("/")[1:]))
        if place is not None:  # if it is not there, `problems` says so
            place.text = _as_it_is(checked(path.rpartition("/")[2], value))
    text = ET.tostring(root, encoding="unicode")
    wrong = problems(text)
    if wrong:
        raise ConfigError("the task does not fit:\n" + "\n".join(wrong))
    return text + "\n"


def _as_it_is(value: str) -> str:
    found = re.search(r"%[^%]+%|\$\(", value)
    if found is not None:
        raise ConfigError(
            f"the Task Scheduler would expand {found[0]!r} in {value!r}",
            hint="give it another value, or run `zcsyncd run` yourself",
        )
    return value


def encoded(text: str) -> bytes:
    """Give the file's bytes: UTF-16 with its mark, the one encoding that every version of the Task Scheduler reads."""
    whole = '<?xml version="1.0" encoding="UTF-16"?>\n' + text
    return b"\xff\xfe" + whole.replace("\n", "\r\n").encode("utf-16-le")


def command_line(words: list[str]) -> str:
    r"""Make one line of words, as a Windows program takes it apart again: `\` counts only before `"`."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word and not re.search(r'[\s"]', word):
        return word
    escaped = re.sub(r'(\\*)"', r"\1\1\\" + '"', word)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def command_of(text: str | bytes) -> list[str]:
    """Give program and arguments of a task, the arguments as one word; empty when it cannot be read."""
    try:
        root = ET.fromstring(text)  # noqa: S314 - what the Task Scheduler has of ours
    except (ET.ParseError, ValueError, LookupError):
        return []
    found = [root.findtext(f".//{{{SPACE}}}{name}") for name in ("Command", "Arguments")]
    return [text for text in found if text]
