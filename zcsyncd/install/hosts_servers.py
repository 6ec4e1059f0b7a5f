"""Our MCP server in a client's settings. Door: files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from zcsyncd.errors import Refused
from zcsyncd.install import hosts_command as command
from zcsyncd.install import hosts_entries as entries
from zcsyncd.install.hosts_files import edit, value_of
from zcsyncd.install.hosts_places import (
    SERVER_PREFIX,
    base_of,
    has_mcp,
    servers_file,
    this_program,
    wanted_there,
)
from zcsyncd.install.hosts_reports import Report, Wish, absent, again, forget, note, noted, prepare


class ServerPlugin:
    """Our MCP server in a client's settings."""

    def __init__(self, name: str, env: Mapping[str, str], tells_news: Callable[[], bool]) -> None:
        self.name = name
        self._env = env
        self._tells_news = tells_news
        self._client = name.removeprefix(SERVER_PREFIX)
        self._shape = entries.SHAPES[self._client]
        self.file = servers_file(self._client, env)

    def install(self, wish: Wish) -> list[str]:
        """Put the server in; without news where a plugin of ours tells them already."""
        wanted_there(self._client, base_of(self._client, self._env))
        if not has_mcp():
            raise Refused(
                "the MCP server needs the package `mcp`, which is not installed here",
                hint="`pip install 'zcsyncd[mcp]'`, or `pipx inject zcsyncd mcp`",
            )
        prepare(self._env)
        program = this_program(self._env)
        news = self._tells_news()

        def change(value: dict[str, object], _before: object) -> dict[str, object]:
            write = "--write" in self._args(value) if wish.write is None else wish.write
            wanted = command.server(program, self._client, news=news, write=write)
            return entries.with_server(self.file, value, self._shape, wanted)

        done = edit(self.file, change, self._has)
        note(self._env, self.name, self.file)
        return [] if done == "unchanged" else [f"{done}: the MCP server in {self.file}"]

    def remove(self) -> list[str]:
        """Take the server out."""
        done = edit(
            self.file, lambda value, _before: entries.without_server(self.file, value, self._shape), self._has
        )
        forget(self._env, self.name)
        return [] if done == "unchanged" else [f"removed: the MCP server in {self.file}"]

    def report(self) -> Report:
        """Compare the entry with what would be written now."""
        try:
            value = value_of(self.file)
            entry = entries.server_in(self.file, value, self._shape)
        except Refused as error:
            return Report(self.name, "unreadable", self.file, says=(error.message,))
        if entry is None:
            return absent(self._env, self.name, self.file)
        args = self._args(value)
        wanted = command.server(
            this_program(self._env), self._client, news="--no-news" not in args, write="--write" in args
        )
        version = noted(self._env, self.name)
        called = entry.get("command") if isinstance(entry, dict) else None
        if not isinstance(called, str) or not os.path.exists(called):
            said = f"it calls {called}, which is no longer there; {again(self.name)}"
            return Report(self.name, "broken", self.file, version, (said,))
        if isinstance(entry, dict) and {**entry, **wanted} == entry:
            missing = (
                () if has_mcp() else ("the package `mcp` is not installed: `pip install 'zcsyncd[mcp]'`",)
            )
            return Report(self.name, "broken" if missing else "current", self.file, version, missing)
        return Report(
            self.name,
            "changed",
            self.file,
            version,
            (f"it is not as it would be written now; {again(self.name)}",),
        )

    def path(self, _wish: Wish) -> str:
        """Give the settings file in which it stands, or would."""
        return self.file

    def _has(self, value: dict[str, object]) -> bool:
        return entries.has_ours(self.file, value, self._shape)

    def _args(self, value: dict[str, object]) -> list[object]:
        entry = entries.server_in(self.file, value, self._shape)
        args = entry.get("args") if isinstance(entry, dict) else None
        return args if isinstance(args, list) else []
