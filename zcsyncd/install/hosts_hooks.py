"""The hooks of ZCode and Claude Code: in the host's settings, or as a plugin folder to be tried by hand. Door: files.

What is called at which event stands in `zcsyncd/plugins/<host>/hooks/`; here the command is filled in.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime

import zcsyncd
from zcsyncd.errors import Refused
from zcsyncd.install import hosts_command as command
from zcsyncd.install import hosts_entries as entries
from zcsyncd.install.files import drop_empty, put, read, take
from zcsyncd.install.hosts_files import edit, value_of
from zcsyncd.install.hosts_places import (
    HOOK_HOSTS,
    has_mcp,
    host_named,
    package_folder,
    settings_file,
    this_program,
    wanted_there,
)
from zcsyncd.install.hosts_reports import Report, State, Wish, absent, again, forget, note, older, prepare
from zcsyncd.places import home, state_dir


class HookPlugin:
    """Hooks in a host's settings."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name = name
        self._env = env
        self._shape = entries.SHAPES[name]
        self._base = host_named(name).directory(env, home(env))
        self.file = settings_file(name, env)

    def install(self, wish: Wish) -> list[str]:
        """Put the hooks in."""
        wanted_there(self.name, self._base)
        prepare(self._env)
        program = this_program(self._env)

        def change(value: dict[str, object], _before: object) -> dict[str, object]:
            present = entries.hooks_in(self.file, value, self._shape)
            ask = "PreToolUse" in present if wish.ask is None else wish.ask
            return entries.with_hooks(self.file, value, self._shape, self._wanted(program, ask=ask))

        done = edit(self.file, change, self._has)
        note(self._env, self.name, self.file)
        return [] if done == "unchanged" else [f"{done}: the hooks in {self.file}"]

    def remove(self) -> list[str]:
        """Take the hooks and the folder out."""
        done = edit(
            self.file,
            lambda value, before: entries.without_hooks(self.file, value, self._shape, before),
            self._has,
        )
        forget(self._env, self.name)
        said = [] if done == "unchanged" else [f"removed: the hooks in {self.file}"]
        folder = self._folder()
        if os.path.isdir(folder):
            for place, _, names in os.walk(folder, topdown=False):
                for name in names:
                    take(os.path.join(place, name))
                drop_empty(place)
            said.append(f"removed: {folder}")
        return said

    def report(self) -> Report:
        """Compare the hooks that are there with those that would be written now, and tell when each was called."""
        calls = last_calls(self._env, self.name)
        try:
            value = value_of(self.file)
            found = entries.hooks_in(self.file, value, self._shape)
        except Refused as error:
            return Report(self.name, "unreadable", self.file, says=(error.message,), calls=calls)
        if not found:
            return absent(self._env, self.name, self.file, calls)
        version = _hook_version(found)
        wanted = self._wanted(this_program(self._env), ask="PreToolUse" in found)
        missing = [event for event in wanted if event not in found]
        gone = next((path for path in _programs(found) if not os.path.exists(path)), None)
        state: State
        if gone is not None:
            state, said = "broken", [f"it calls {gone}, which is no longer there; {again(self.name)}"]
        elif missing:
            state, said = "incomplete", [f"{', '.join(missing)} is missing; {again(self.name)}"]
        elif entries.is_switched_off(value, self._shape):
            state, said = "switched-off", [f"{'.'.join(self._shape.switch)} is false: no hook is called"]
        elif found == wanted:
            state, said = "current", []
            if not any(calls.values()):
                said = ["no hook was called yet; a session that was running before has to be started anew"]
        elif version != zcsyncd.__version__:
            return older(self.name, self.file, version, calls)
        else:
            state, said = "changed", [f"it is not as it would be written now; {again(self.name)}"]
        return Report(self.name, state, self.file, version, tuple(said), calls)

    def path(self, wish: Wish) -> str:
        """Write the plugin folder, filled in for this installation, and give it."""
        prepare(self._env)
        program, folder = this_program(self._env), self._folder()
        texts = {
            "@hook@": command.hook(program, self.name),
            "@python@": program.python,
            "@version@": program.version,
        }
        groups = self._wanted(program, ask=bool(wish.ask))
        source = package_folder(self.name)
        for place, _, names in os.walk(source):
            for name in names:
                if not name.endswith(".json") or name == "ask.json":
                    continue
                target = os.path.join(folder, os.path.relpath(os.path.join(place, name), source))
                if name == ".mcp.json" and not has_mcp():
                    take(target)
                    continue
                value = command.filled(_template(os.path.join(place, name)), texts)
                if name == "hooks.json" and isinstance(value, dict):
                    value = {**value, "hooks": groups}
                put(target, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
        return folder

    def _folder(self) -> str:
        return os.path.join(state_dir(self._env), "plugins", self.name)

    def _has(self, value: dict[str, object]) -> bool:
        return entries.has_ours(self.file, value, self._shape)

    def _wanted(self, program: command.Program, *, ask: bool) -> dict[str, list[dict[str, object]]]:
        """Give our groups by event, as the templates have them."""
        texts = {"@hook@": command.hook(program, self.name)}
        made: dict[str, list[dict[str, object]]] = {}
        for name in ("hooks.json", "ask.json") if ask else ("hooks.json",):
            value = command.filled(_template(os.path.join(package_folder(self.name), "hooks", name)), texts)
            assert isinstance(value, dict)
            made |= value["hooks"]
        return made


def last_calls(env: Mapping[str, str], host: str) -> dict[str, str | None]:
    """Tell when each hook of a host was last called."""
    from zcsyncd.plugins.hook import DIRECTORY, STAMP
    from zcsyncd.plugins.moves import EVENTS

    found: dict[str, str | None] = {}
    for event in EVENTS:
        path = os.path.join(state_dir(env), DIRECTORY, host, STAMP + event)
        try:
            at = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
        except OSError:
            found[event] = None
        else:
            found[event] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return found


def _words(found: Mapping[str, list[dict[str, object]]]) -> list[list[str]]:
    """Give the words of each hook's command, as a shell takes them apart."""
    made = []
    for groups in found.values():
        for group in groups:
            hooks = group["hooks"]
            assert isinstance(hooks, list)
            for hook in hooks:
                args = hook.get("args")
                line = [str(hook.get("command")), *(map(str, args) if isinstance(args, list) else ())]
                text = line[-1] if len(line) == 3 and line[1] == "-c" else line[0]
                with contextlib.suppress(ValueError):
                    made.append(line if len(line) > 3 else shlex.split(text.replace(";", " ; ")))
    return made


def _hook_version(found: Mapping[str, list[dict[str, object]]]) -> str | None:
    """Give the version in a hook's command: the word after the host's name."""
    for words in _words(found):
        for number, word in enumerate(words[:-1]):
            if word in HOOK_HOSTS and words[number - 1].replace("\\", "/").endswith(entries.SCRIPT):
                return words[number + 1]
    return None


def _programs(found: Mapping[str, list[dict[str, object]]]) -> list[str]:
    """Give the interpreter and the script that hooks call."""
    made = []
    for words in _words(found):
        for number, word in enumerate(words):
            if word == "-IS" and 0 < number < len(words) - 1:
                made += [words[number - 1], words[number + 1]]
    return made


def _template(path: str) -> object:
    content = read(path)
    if content is None:
        raise Refused(f"this installation has no {path}", hint="install zcsyncd again, whole")
    return json.loads(content)
