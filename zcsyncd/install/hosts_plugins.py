"""What each host is given: put in, taken out, looked at. Door: files.

    pi, omp              one extension file, copied                      hosts_extension
    zcode, claude-code   hooks in the host's settings                    hosts_hooks
    mcp:<client>         an MCP server in the client's settings          hosts_servers

Rule 1: only our own file or entry is touched; what cannot be read is refused.
Rule 2: that something was installed is noted in the state directory: a host that throws our entry away is found out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zcsyncd.errors import UsageError
from zcsyncd.install.hosts import HOSTS, Host
from zcsyncd.install.hosts_extension import FilePlugin
from zcsyncd.install.hosts_hooks import HookPlugin
from zcsyncd.install.hosts_places import FILE_HOSTS, HOOK_HOSTS, SERVER_PREFIX
from zcsyncd.install.hosts_reports import Report, Wish
from zcsyncd.install.hosts_servers import ServerPlugin
from zcsyncd.install.steps import HOST_STEPS

__all__ = ["NAMES", "Plugin", "PluginStep", "Report", "Wish", "plugin"]

NAMES = (*FILE_HOSTS, *HOOK_HOSTS, *(SERVER_PREFIX + name for name in (*FILE_HOSTS, *HOOK_HOSTS)))
"""What `zcsyncd plugin` knows."""


class Plugin(Protocol):
    """What is put into one host."""

    name: str

    def install(self, wish: Wish) -> list[str]:
        """Put it in, or bring it up to date; lines that tell what was done, none when it is so already."""

    def remove(self) -> list[str]:
        """Take it out; lines that tell what was done."""

    def report(self) -> Report:
        """Tell how it is."""

    def path(self, wish: Wish) -> str:
        """Give the file or folder that a host can be given by hand."""


def plugin(name: str, env: Mapping[str, str]) -> Plugin:
    """Give what is put into a host.

    Raises: UsageError, for a name that is none.
    """
    if name not in NAMES:
        raise UsageError(f"no plugin is called {name}", hint=f"there are {', '.join(NAMES)}")
    if name.startswith(SERVER_PREFIX):
        client = name.removeprefix(SERVER_PREFIX)
        return ServerPlugin(
            name, env, lambda: plugin(client, env).report().state in ("absent", "thrown-away")
        )
    return HookPlugin(name, env) if name in HOOK_HOSTS else FilePlugin(name, env)


class PluginStep:
    """A host's plugin as a step of `zcsyncd setup` and `zcsyncd uninstall`."""

    def __init__(self, host: Host, env: Mapping[str, str]) -> None:
        self._title = host.title
        self._plugin = plugin(host.name, env)
        self._server = plugin(SERVER_PREFIX + host.name, env)

    def plan(self) -> str:
        """Tell what `put` would do."""
        report = self._plugin.report()
        if report.state in ("current", "switched-off"):
            return ""
        if report.state == "unreadable":
            return f"nothing: {report.says[0]}"
        what = "the extension" if report.name in FILE_HOSTS else "hooks, in its settings"
        return f"{'put in' if report.state == 'absent' else 'bring up to date'} {what}"

    def put(self) -> list[str]:
        """Put it in."""
        report = self._plugin.report()
        return [report.says[0]] if report.state == "unreadable" else self._plugin.install(Wish())

    def present(self) -> str:
        """Tell what of ours is there, the MCP server too."""
        there = [
            one.name
            for one in (self._plugin, self._server)
            if one.report().state not in ("absent", "thrown-away", "unreadable")
        ]
        return f"take {' and '.join(there)} out of {self._title}" if there else ""

    def take(self) -> list[str]:
        """Take it out. What cannot be read is left: it keeps nothing else from being taken out."""
        there = [
            one for one in (self._plugin, self._server) if one.report().state not in ("absent", "unreadable")
        ]
        return [line for one in there for line in one.remove()]


HOST_STEPS.update({host.name: PluginStep for host in HOSTS})
