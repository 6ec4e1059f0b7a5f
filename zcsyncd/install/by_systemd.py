"""The service under a person's own systemd. Door: systemctl, loginctl, files.

Rule 1: everything goes through `systemctl --user`; root is never needed.
Rule 2: the socket's unit is a person's choice (`--socket`). Without it `zcsyncd stop` means stop; with it the next
client starts the daemon again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from zcsyncd.errors import NoDaemon, Refused
from zcsyncd.install import systemd
from zcsyncd.install.calls import START_S, Done, call, has, must, own_uid
from zcsyncd.install.files import drop_empty, put, read, take
from zcsyncd.install.systemd import SERVICE, SOCKET
from zcsyncd.install.texts import template
from zcsyncd.install.wanted import State, Wanted
from zcsyncd.places import home

INSTEAD = "`zcsyncd run` runs the daemon in the foreground; your own supervisor can start that"
LINGERS = "/var/lib/systemd/linger"
_SHOWN = (
    "LoadState,UnitFileState,ActiveState,SubState,MainPID,StatusText,Result,ExecMainStatus,NRestarts,"
    "StateChangeTimestamp,FragmentPath,DropInPaths,Type"
)


class BySystemd:
    """A person's own manager, `systemd --user`."""

    name = "systemd"
    can_ask = True
    waits = True

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = _reaching(env)
        self._home = home(env)

    # -- what is there

    def check(self) -> None:
        """Make sure that a manager of this person answers. Raises: Refused."""
        if not has("systemctl", self.env):
            raise Refused("this system has no systemd, so no service can be installed", hint=INSTEAD)
        done = self._ask("show-environment")
        if done.code != 0:
            raise Refused(
                f"no systemd manager runs for this user: {done.said}",
                hint=f"log in directly (not by su or sudo), or have `loginctl enable-linger` done; else {INSTEAD}",
            )

    def place(self) -> str:
        """Give where the unit lies, or would lie."""
        return os.path.join(self._directory(), SERVICE)

    def _socket_place(self) -> str:
        return os.path.join(self._directory(), SOCKET)

    def _directory(self) -> str:
        """Give the person's directory of units: below `XDG_CONFIG_HOME` only if the manager looks there, too."""
        usual = os.path.join(self._home, ".config", "systemd", "user")
        base = self.env.get("XDG_CONFIG_HOME", "")
        moved = os.path.join(base, "systemd", "user")
        if not os.path.isabs(base) or moved == usual:
            return usual
        looked_in = self._ask("show", "-p", "UnitPath", "--value").out.split()
        return moved if moved in looked_in else usual

    def text(self, wanted: Wanted) -> str:
        """Give the service's unit as it would be written."""
        return systemd.service_unit(template("systemd", SERVICE).decode(), wanted)

    def _socket_text(self, wanted: Wanted) -> str:
        return systemd.socket_unit(template("systemd", SOCKET).decode(), wanted)

    def present(self) -> list[str] | None:
        """Give the command of the unit that is installed; None when none is."""
        content = read(self.place())
        return None if content is None else systemd.command_of(content.decode("utf-8", "replace"))

    def is_current(self, wanted: Wanted) -> bool:
        """Tell whether what is installed is what would be."""
        socket = read(self._socket_place())
        return read(self.place()) == self.text(wanted).encode() and (
            socket is None or socket == self._socket_text(wanted).encode()
        )

    # -- what is done

    def write(self, wanted: Wanted, *, socket: bool | None) -> list[str]:
        """Write the units, have them read, and let them start at log-in."""
        place, socket_place = self.place(), self._socket_place()
        holds_socket = os.path.lexists(socket_place)
        files = {place: self.text(wanted)}
        if socket or (socket is None and holds_socket):
            files[socket_place] = self._socket_text(wanted)
        said = []
        if socket is False and holds_socket:
            said += self._drop_socket()
        acts = {path: put(path, text.encode()) for path, text in files.items()}
        said += [f"{act}: {path}" for path, act in acts.items()]
        must(self._words("daemon-reload"), self.env)
        names = [os.path.basename(path) for path in files]
        if any(self._ask("is-enabled", name).code != 0 for name in names):
            must(self._words("enable", *names), self.env)
            said.append("enabled: it starts at log-in")
        was_running = self._is_active(SERVICE)
        if SOCKET in names and not self._is_active(SOCKET):
            # systemd takes a socket over only while its service is down.
            must(self._words("stop", SERVICE), self.env, most_s=START_S)
            must(self._words("start", SOCKET), self.env)
            said.append("started: the socket")
            if was_running:
                said += self.start()
        elif was_running and any(act != "unchanged" for act in acts.values()):
            said += self.restart()
        return said

    def _drop_socket(self) -> list[str]:
        was_running = self._is_active(SERVICE)
        must(self._words("disable", "--now", SOCKET), self.env)
        take(self._socket_place())
        if was_running:
            # Its address went with the unit; a new process makes it anew.
            must(self._words("stop", SERVICE), self.env, most_s=START_S)
            must(self._words("daemon-reload"), self.env)
            self.start()
        return [f"removed: {self._socket_place()}"]

    def remove(self) -> list[str]:
        """End the service, take the units away, and the directories that were made for them."""
        directory = self._directory()
        there = [name for name in (SOCKET, SERVICE) if os.path.lexists(os.path.join(directory, name))]
        reachable = self._ask("show-environment").code == 0
        said = []
        if there and reachable:
            if self._is_active(SERVICE) or self._is_active(SOCKET):
                must(self._words("stop", *there), self.env, most_s=START_S)
                said.append("stopped")
            must(self._words("disable", *there), self.env)
        for name in there:
            for wants in ("default.target.wants", "sockets.target.wants"):
                take(os.path.join(directory, wants, name))
            if take(os.path.join(directory, name)):
                said.append(f"removed: {os.path.join(directory, name)}")
        if there and reachable:
            must(self._words("daemon-reload"), self.env)
            self._ask("reset-failed", SERVICE, SOCKET)
        drop_empty(
            *(os.path.join(directory, wants) for wants in ("default.target.wants", "sockets.target.wants")),
            directory,
            os.path.dirname(directory),
            os.path.join(self.env.get("XDG_RUNTIME_DIR", ""), "zcsyncd"),
        )
        dropins = os.path.join(directory, f"{SERVICE}.d")
        if os.path.isdir(dropins):
            said.append(f"left: {dropins}, which is yours")
        return said

    def start(self) -> list[str]:
        """Start it; return once it is ready. Raises: NoDaemon."""
        if self.state().running:
            return []
        # One that is about to be tried again is tried now.
        return self._come_up("start", "started")

    def restart(self) -> list[str]:
        """End it and start it; return once it is ready. Raises: NoDaemon."""
        return self._come_up("restart", "restarted")

    def _come_up(self, verb: str, said: str) -> list[str]:
        self._ask("reset-failed", SERVICE)  # a person who starts it by hand is not counted against its limit
        done = call(self._words(verb, SERVICE), self.env, most_s=START_S)
        if done.code == 0:
            return [said]
        why = systemd.failure_of(self._show(SERVICE, _SHOWN)) or done.said
        raise NoDaemon(
            f"the service did not come up: {why}", hint="`zcsyncd service logs` shows what it said"
        )

    def stop(self) -> list[str]:
        """End it, and the socket that would start it again."""
        names = [name for name in (SOCKET, SERVICE) if self._is_active(name)]
        if not names:
            return []
        must(self._words("stop", *names), self.env, most_s=START_S)
        return ["stopped"]

    # -- what it tells

    def state(self) -> State:
        """Tell how it is."""
        shown = self._show(SERVICE, _SHOWN)
        installed = os.path.lexists(self.place()) or shown.get("LoadState") not in {"not-found", "", None}
        active = shown.get("ActiveState", "")
        pid = shown.get("MainPID", "0")
        return State(
            installed=installed,
            enabled=shown.get("UnitFileState") == "enabled" if installed else None,
            running=active in {"active", "reloading"},
            state=f"{active} ({shown['SubState']})" if shown.get("SubState") else active,
            pid=int(pid) if pid.isdecimal() and int(pid) else None,
            since=shown.get("StateChangeTimestamp") or None,
            says=shown.get("StatusText") or None,
            restarts=int(shown["NRestarts"]) if shown.get("NRestarts", "").isdecimal() else None,
            failure=systemd.failure_of(shown),
            socket=self._is_active(SOCKET) if os.path.lexists(self._socket_place()) else False,
        )

    def remarks(self) -> list[str]:
        """Tell about linger, drop-ins, and a unit of the whole system that ours hides."""
        said = []
        lingers = self._lingers()
        if lingers is False:
            said.append(
                "it runs while you are logged in: linger is off for you; "
                "`loginctl enable-linger` lets it run from the machine's start on"
            )
        elif lingers:
            said.append("it runs from the machine's start on, logged in or not: linger is on for you")
        else:
            said.append(
                "whether it runs while you are logged out is not known: loginctl does not tell of linger"
            )
        dropins = self._show(SERVICE, "DropInPaths").get("DropInPaths", "")
        if dropins:
            said.append(f"drop-ins change the unit: {dropins}")
        said += [
            f"a unit for all users lies in {place}; yours goes before it"
            for place in ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")
            if os.path.lexists(os.path.join(place, SERVICE))
        ]
        return said

    def _lingers(self) -> bool | None:
        done = call(["loginctl", "show-user", "--property=Linger", "--value", str(own_uid())], self.env)
        if done.code == 0 and done.out.strip() in {"yes", "no"}:
            return done.out.strip() == "yes"
        name = _login(self.env)
        if name and os.path.isdir(
            LINGERS
        ):  # what loginctl would have read; it does not know who is logged out
            return os.path.exists(os.path.join(LINGERS, name))
        return None

    def log_command(self, lines: int, *, follow: bool) -> Sequence[str] | None:
        """Give the journal's program, if the journal has something of ours and lets us read it."""
        if not has("journalctl", self.env):
            return None
        words = ["journalctl", "--user", f"--unit={SERVICE}", "--no-pager", "--quiet", "--output=short-iso"]
        if not call([*words, "--lines=1"], self.env).out.strip():
            return None
        return [*words, f"--lines={lines}", *(["--follow"] if follow else [])]

    # -- systemctl

    def _words(self, *words: str) -> list[str]:
        return ["systemctl", "--user", "--no-ask-password", "--quiet", *words]

    def _ask(self, *words: str) -> Done:
        return call(["systemctl", "--user", "--no-ask-password", "--no-pager", *words], self.env)

    def _show(self, unit: str, names: str) -> dict[str, str]:
        return systemd.properties(self._ask("show", unit, "-p", names).out)

    def _is_active(self, unit: str) -> bool:
        return self._ask("is-active", unit).out.strip() in {
            "active",
            "activating",
            "reloading",
            "deactivating",
        }


def _reaching(env: Mapping[str, str]) -> Mapping[str, str]:
    """Give an environment in which the manager is found: after `su` or in a cron job the variable is missing."""
    usual = f"/run/user/{own_uid()}"
    if env.get("XDG_RUNTIME_DIR") or not os.path.isdir(usual):
        return env
    return {**env, "XDG_RUNTIME_DIR": usual}


def _login(env: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return ""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return env.get("USER", "")
