"""Where hosts keep their settings, and where this installation lies. Door: files, sys."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec

import zcsyncd
from zcsyncd.errors import NotFound
from zcsyncd.install.hosts import HOSTS, Host
from zcsyncd.install.hosts_command import Program
from zcsyncd.install.looking import interpreter
from zcsyncd.places import VARIABLES, home

HOOK_HOSTS = ("zcode", "claude-code")
FILE_HOSTS = ("pi", "omp")
SERVER_PREFIX = "mcp:"

_STATE_VARIABLES = (*VARIABLES, "XDG_STATE_HOME")


def agent_directory(name: str, env: Mapping[str, str]) -> str:
    """Give the agent directory of pi or omp: both read pi's variable."""
    moved = env.get("PI_CODING_AGENT_DIR", "").strip()
    return moved if os.path.isabs(moved) else host_named(name).directory(env, home(env))


def settings_file(name: str, env: Mapping[str, str]) -> str:
    """Give the file in which a host keeps its hooks."""
    base = host_named(name).directory(env, home(env))
    return (
        os.path.join(base, "cli", "config.json") if name == "zcode" else os.path.join(base, "settings.json")
    )


def servers_file(client: str, env: Mapping[str, str]) -> str:
    """Give the file in which a client keeps its MCP servers."""
    if client == "zcode":
        return settings_file(client, env)
    if client == "claude-code":
        # Beside its directory, or in the one that the variable names.
        moved = env.get("CLAUDE_CONFIG_DIR", "").strip()
        return os.path.join(moved if os.path.isabs(moved) else home(env), ".claude.json")
    return os.path.join(agent_directory(client, env), "mcp.json")


def package_folder(name: str) -> str:
    """Give a plugin as it ships with the package."""
    return os.path.join(os.path.dirname(os.path.abspath(zcsyncd.__file__)), "plugins", name)


def this_program(env: Mapping[str, str]) -> Program:
    """Give this installation as hosts have to call it.

    Raises: Refused, when the interpreter is gone.
    """
    python = interpreter(sys.platform)
    if os.path.basename(python).lower() == "pythonw.exe":  # that one has no stdout
        python = os.path.join(os.path.dirname(python), "python.exe")
    usual = {"XDG_STATE_HOME": os.path.join(home(env), ".local", "state")}
    carried = [
        (name, env[name]) for name in _STATE_VARIABLES if env.get(name) and env[name] != usual.get(name)
    ]
    script = os.path.join(os.path.dirname(package_folder("")), "run_hook.py")
    return Program(python, script, zcsyncd.__version__, tuple(sorted(carried)), sys.platform)


def has_mcp() -> bool:
    """Tell whether the package `mcp` is installed."""
    return find_spec("mcp") is not None


def host_named(name: str) -> Host:
    """Give a host by its name."""
    return next(host for host in HOSTS if host.name == name)


def base_of(name: str, env: Mapping[str, str]) -> str:
    """Give the directory in which a host keeps its own things."""
    return agent_directory(name, env) if name in FILE_HOSTS else host_named(name).directory(env, home(env))


def wanted_there(name: str, base: str) -> None:
    """Make sure that a host is there: a directory that only we made would look like one. Raises: NotFound."""
    if not os.path.isdir(base):
        raise NotFound(
            f"there is no {host_named(name).title} here: {base} does not exist",
            hint="start it once, then try again",
        )
