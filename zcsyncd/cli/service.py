"""The daemon as a service: installed, started, looked at, taken away. Door: the service manager, the bus.

Rule 1: each verb may be given twice; what is so already is left alone, and said so.
Rule 2: one daemon at a time: one that was started by hand makes way for the service, and that is told.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping

from zcsyncd.cli.answer import Answer
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console
from zcsyncd.cli.service_pages import changes_page, done_page, service_page
from zcsyncd.errors import ConfigError, NoDaemon, NotFound, NotReady
from zcsyncd.install import looking
from zcsyncd.install.caution import about_present, cautions
from zcsyncd.install.manager import Manager, manager
from zcsyncd.install.wanted import State
from zcsyncd.memory.audit import RULES
from zcsyncd.places import config_file, log_dir, state_dir
from zcsyncd.settings import read_settings

NOT_RUNNING = NoDaemon.exit_code
UP_S = 30.0
"""How long a service may take to answer, where its manager cannot tell when it is ready."""
LOOK_S = 0.1


def cmd_service_install(words: Namespace, console: Console) -> int:
    """Write the unit, let it start at log-in, and start it."""
    answer = install(console.env, socket=words.socket, start=words.start)
    _show_done(answer, console)
    return 0


def install(env: Mapping[str, str], *, socket: bool | None = None, start: bool = True) -> dict[str, object]:
    """Install the service; give what was done, and what a person should know.

    Raises:
        Refused: this system or this installation cannot have one.
        ConfigError: the configuration holds mistakes, so that the daemon would not start.
        NoDaemon: it does not come up.
    """
    looking.no_root(env)
    read_settings(env, codes=frozenset(RULES))
    for place in (state_dir, log_dir, config_file):
        place(env)  # a variable that names it wrongly is told before anything is written
    wanted = looking.wanted(env)
    looking.probe(wanted, env)
    its = manager(env)
    its.check()
    before = its.present()
    did = _make_way(its, env) if start else []
    did += its.write(wanted, socket=socket)
    if start:
        did += _started(its.start(), its, env)
    notes = cautions(looking.facts(wanted, env))
    if before and before[0] != wanted.words[0]:
        notes.insert(0, f"until now the unit ran {before[0]}; now it runs {wanted.words[0]}")
    return {"did": did, "notes": [*notes, *its.remarks()]}


def cmd_service_uninstall(_words: Namespace, console: Console) -> int:
    """End the service and take its unit away."""
    _show_done({"did": uninstall(console.env), "notes": []}, console)
    return 0


def uninstall(env: Mapping[str, str]) -> list[str]:
    """Take the service away; give what was done."""
    its = manager(env)
    if not its.can_ask and its.present() is not None:
        _asked_to_leave(env)
    return its.remove()


def cmd_service_start(_words: Namespace, console: Console) -> int:
    """Start the service; return once it is ready."""
    its = _installed(console.env)
    did = [] if _runs(its.state()) else [*_make_way(its, console.env), *its.start()]
    _show_done({"did": _started(did, its, console.env), "notes": []}, console)
    return 0


def cmd_service_stop(_words: Namespace, console: Console) -> int:
    """End the service; it starts again at the next log-in."""
    its = _installed(console.env)
    did = its.stop() if its.can_ask else _asked_to_leave(console.env)
    _show_done({"did": did, "notes": []}, console)
    return 0


def cmd_service_restart(_words: Namespace, console: Console) -> int:
    """End the service and start it."""
    its = _installed(console.env)
    if not its.can_ask:
        _asked_to_leave(console.env)
    did = [*_make_way(its, console.env), *its.restart()]
    _show_done({"did": _started(did, its, console.env), "notes": []}, console)
    return 0


def cmd_service_reload(_words: Namespace, console: Console) -> int:
    """Let the daemon read its configuration again, and show what changed."""
    answer = Daemon(console.env).ask("daemon.reload")
    console.show(answer, lambda: changes_page(answer, program=called(), cells=console.cells))
    return 0


def cmd_service_status(_words: Namespace, console: Console) -> int:
    """Show how the service is; exit with 3 when it does not run."""
    its = manager(console.env)
    its.check()
    answer = status(its, console.env)
    console.show(
        answer, lambda: service_page(answer, program=called(), cells=console.cells, paint=console.paint)
    )
    return 0 if answer["running"] is True else NOT_RUNNING


def _is_current(its: Manager, env: Mapping[str, str]) -> bool:
    """Tell whether the unit is the one that would be installed now; a broken configuration says nothing against it."""
    try:
        return its.is_current(looking.wanted(env))
    except ConfigError:
        return True


def status(its: Manager, env: Mapping[str, str]) -> dict[str, object]:
    """Give how the service is, and what is odd about it."""
    state = its.state()
    command = its.present()
    pid = _pid_over_bus(env) if not state.socket and (state.pid is None or not state.running) else None
    running = state.running if state.running is not None else state.installed and pid is not None
    said = [state.failure] if state.failure else []
    if command is not None:
        said += about_present(
            command,
            interpreter=looking.interpreter(),
            is_there=bool(command) and os.path.exists(command[0]),
            is_current=_is_current(its, env),
        )
    if pid is not None and state.running is False:
        said.append(
            f"a daemon that was started by hand runs (pid {pid}); `zcsyncd service start` takes its place"
        )
    return {
        "manager": its.name,
        "unit": its.place(),
        "installed": state.installed,
        "enabled": state.enabled,
        "running": running,
        "state": state.state,
        "pid": state.pid if state.pid is not None else pid if running else None,
        "since": state.since,
        "says": state.says,
        "restarts": state.restarts,
        "socket": state.socket,
        "command": command or [],
        "cautions": said,
        "notes": its.remarks() if state.installed else [],
    }


def cmd_service_show(_words: Namespace, console: Console) -> int:
    """Print the unit as it would be installed, and nothing else."""
    its = manager(console.env)
    text = its.text(looking.wanted(console.env))
    if console.as_json:
        console.say_json({"unit": its.place(), "text": text})
    else:
        console.say(text.rstrip("\n").split("\n"))
    return 0


# -- what the verbs share --------------------------------------------------------------------------------------------


def _installed(env: Mapping[str, str]) -> Manager:
    its = manager(env)
    its.check()
    if not its.state().installed:
        raise NotFound("the service is not installed", hint="`zcsyncd service install` does it")
    return its


def _runs(state: State) -> bool:
    return state.running is True


def _make_way(its: Manager, env: Mapping[str, str]) -> list[str]:
    """Stop a daemon that was started by hand: the service's own would find its place taken."""
    state = its.state()
    if state.socket or _runs(state) or (state.running is None and state.installed):
        return []
    pid = _pid_over_bus(env)
    if pid is None:
        return []
    Daemon(env).stop()
    return [f"stopped: the daemon that was started by hand (pid {pid})"]


def _asked_to_leave(env: Mapping[str, str]) -> list[str]:
    try:
        Daemon(env).stop()
    except NoDaemon:
        return []
    return ["stopped"]


def _pid_over_bus(env: Mapping[str, str]) -> int | None:
    """Give the pid of the daemon that answers; None when none does."""
    try:
        daemon = Daemon(env).ask("status").get("daemon")
    except (NoDaemon, NotReady):
        return None
    pid = daemon.get("pid") if isinstance(daemon, dict) else None
    return pid if isinstance(pid, int) else None


def _started(did: list[str], its: Manager, env: Mapping[str, str]) -> list[str]:
    """Wait until the daemon answers, where the service manager does not wait for that itself."""
    if its.waits or not did:
        return did
    until = time.monotonic() + UP_S
    while _pid_over_bus(env) is None:
        if time.monotonic() > until:
            raise NoDaemon(
                f"the service was started, but no daemon answers after {UP_S:.0f} s",
                hint="`zcsyncd service logs` shows what it said",
            )
        time.sleep(LOOK_S)
    return did


def _show_done(answer: Answer, console: Console) -> None:
    console.show(
        answer, lambda: done_page(answer, program=called(), cells=console.cells, paint=console.paint)
    )
