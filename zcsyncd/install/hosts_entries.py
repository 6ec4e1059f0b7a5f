"""Our entries in a host's settings: put in, found, taken out, everything else untouched. Pure.

    hooks:  Claude Code  {"hooks": {"Stop": [{"matcher": …, "hooks": [ours]}]}}
            ZCode        {"hooks": {"enabled": true, "events": {"Stop": […]}}}
    MCP:    all others   {"mcpServers": {"zcsyncd": ours}}
            ZCode        {"mcp": {"servers": {"zcsyncd": ours}}}

Rule 1: a hook is ours when it starts our script, an MCP server when it has our name.
Rule 2: settings of another shape than the host's are refused, not mended.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zcsyncd.errors import Refused

SCRIPT = "zcsyncd/plugins/run_hook.py"
SERVER = "zcsyncd"

Value = dict[str, object]
Groups = Mapping[str, Sequence[Mapping[str, object]]]
"""An event → what is called then: groups of a matcher and hooks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a host keeps what."""

    events: tuple[str, ...] = ()
    """The members that lead to the hooks' events."""
    servers: tuple[str, ...] = ("mcpServers",)
    """The members that lead to the MCP servers."""
    switch: tuple[str, ...] = ()
    """The member that has to be true for any hook to be called."""


SHAPES: Mapping[str, Shape] = {
    "zcode": Shape(("hooks", "events"), ("mcp", "servers"), ("hooks", "enabled")),
    "claude-code": Shape(("hooks",)),
    "pi": Shape(),
    "omp": Shape(),
}


def is_ours(hook: object) -> bool:
    """Tell whether a hook starts our script."""
    if not isinstance(hook, Mapping):
        return False
    args = hook.get("args")
    words = [hook.get("command"), *(args if isinstance(args, Sequence) and not isinstance(args, str) else ())]
    return any(SCRIPT in str(word).replace("\\", "/") for word in words)


def hooks_in(path: str, value: Value, shape: Shape) -> dict[str, list[Value]]:
    """Give our groups by event, each with our hooks only."""
    found: dict[str, list[Value]] = {}
    for event, groups in _object(path, value, shape.events).items():
        for group in _list(path, groups, (*shape.events, event)):
            own = [hook for hook in _hooks(group) if is_ours(hook)]
            if own:
                assert isinstance(group, dict)
                found.setdefault(event, []).append({**group, "hooks": own})
    return found


def with_hooks(path: str, value: Value, shape: Shape, wanted: Groups) -> Value:
    """Give the settings with our hooks as wanted; the very same value when they are so already.

    A switch that is off stays off: `is_switched_off` tells.
    """
    events = {event: [dict(group) for group in groups] for event, groups in wanted.items()}
    is_on = not shape.switch or _at(value, shape.switch) is not None
    if hooks_in(path, value, shape) == events and is_on:
        return value
    made = without_hooks(path, value, shape, value)
    if shape.switch and _at(made, shape.switch) is None:
        _made(path, made, shape.switch[:-1])[shape.switch[-1]] = True
    place = _made(path, made, shape.events)
    for event, groups in events.items():
        place[event] = [*_list(path, place.get(event, []), (*shape.events, event)), *copy.deepcopy(groups)]
    return made


def has_ours(path: str, value: Value, shape: Shape) -> bool:
    """Tell whether anything of ours is in a host's settings."""
    return bool(shape.events and hooks_in(path, value, shape)) or server_in(path, value, shape) is not None


def without_hooks(path: str, value: Value, shape: Shape, before: Value | None = None) -> Value:
    """Give the settings without our hooks; what is empty by that goes, too.

    `before`: the settings before us. A switch that was not there then, and is on, was ours.
    """
    made = copy.deepcopy(value)
    events = _object(path, made, shape.events)
    for event in list(events):
        groups = _list(path, events[event], (*shape.events, event))
        left = [kept for group in groups if (kept := _without(group)) is not None]
        if left:
            events[event] = left
        elif groups:
            del events[event]
    _prune(made, shape.events)
    if shape.switch and _at(made, shape.switch) is True and _at(before or {}, shape.switch) is None:
        holder = _at(made, shape.switch[:-1])
        if isinstance(holder, dict) and not holder.keys() - {shape.switch[-1]}:
            del holder[shape.switch[-1]]
            _prune(made, shape.switch[:-1])
    return made


def is_switched_off(value: Value, shape: Shape) -> bool:
    """Tell whether the person has switched all hooks of the host off."""
    return bool(shape.switch) and _at(value, shape.switch) is False


def server_in(path: str, value: Value, shape: Shape) -> object | None:
    """Give our MCP server's entry; None without one."""
    return _object(path, value, shape.servers).get(SERVER)


def with_server(path: str, value: Value, shape: Shape, wanted: Mapping[str, object]) -> Value:
    """Give the settings with our MCP server, in which what a person added stays (`env`, `enabled`, …)."""
    before = server_in(path, value, shape)
    entry = {**(before if isinstance(before, dict) else {}), **wanted}
    if before == entry:
        return value
    made = copy.deepcopy(value)
    _made(path, made, shape.servers)[SERVER] = entry
    return made


def without_server(path: str, value: Value, shape: Shape) -> Value:
    """Give the settings without our MCP server."""
    made = copy.deepcopy(value)
    if _object(path, made, shape.servers).pop(SERVER, None) is not None:
        _prune(made, shape.servers)
    return made


# -- inside ----------------------------------------------------------------------------------------------------------


def _hooks(group: object) -> Sequence[object]:
    hooks = group.get("hooks") if isinstance(group, Mapping) else None
    return hooks if isinstance(hooks, list) else []


def _without(group: object) -> object | None:
    """Give a group without our hooks; None when that leaves nothing of it."""
    hooks = _hooks(group)
    left = [hook for hook in hooks if not is_ours(hook)]
    if len(left) == len(hooks):
        return group
    assert isinstance(group, dict)
    return {**group, "hooks": left} if left else None


def _walk(path: str, value: Value, names: Sequence[str]) -> Iterator[tuple[Value, str]]:
    """Give each object on the way and the member that leads on, as far as the way goes."""
    place = value
    for number, name in enumerate(names, 1):
        yield place, name
        below = place.get(name)
        if below is None:
            return
        if not isinstance(below, dict):
            raise _odd(path, names[:number], "an object")
        place = below


def _object(path: str, value: Value, names: Sequence[str]) -> Value:
    """Give the object that the members lead to; an empty one of nobody's when there is none."""
    for place, name in _walk(path, value, names):
        below = place.get(name)
        if below is None:
            return {}
        last = below
    assert isinstance(last, dict)
    return last


def _made(path: str, value: Value, names: Sequence[str]) -> Value:
    """Give the object that the members lead to, made where there is none."""
    place = value
    for number, name in enumerate(names, 1):
        below = place.get(name)
        if below is None:
            below = place[name] = {}
        if not isinstance(below, dict):
            raise _odd(path, names[:number], "an object")
        place = below
    return place


def _at(value: Value, names: Sequence[str]) -> object | None:
    place: object = value
    for name in names:
        place = place.get(name) if isinstance(place, dict) else None
    return place


def _prune(value: Value, names: Sequence[str]) -> None:
    """Take the objects on the way out that hold nothing any more, the innermost first."""
    for length in range(len(names), 0, -1):
        outer = _at(value, names[: length - 1])
        if isinstance(outer, dict) and outer.get(names[length - 1]) == {}:
            del outer[names[length - 1]]


def _list(path: str, value: object, names: Sequence[str]) -> list[object]:
    if not isinstance(value, list):
        raise _odd(path, names, "a list")
    return value


def _odd(path: str, names: Sequence[str], wanted: str) -> Refused:
    return Refused(
        f"{path} is left as it is: {'.'.join(names)} is not {wanted}", hint="mend it, then try again"
    )
