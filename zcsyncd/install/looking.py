"""This installation, as a service would need it: interpreter, variables, what is odd about it. Door: files, subprocess.

Rule 1: the interpreter is named as it was called. In a virtual environment it is a symlink, and what it points to
does not have the package.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping

import zcsyncd
from zcsyncd.errors import Refused
from zcsyncd.install.calls import call, own_uid
from zcsyncd.install.caution import LASTING, Facts
from zcsyncd.install.wanted import MODULE_WORDS, RUN_WORDS, Wanted
from zcsyncd.places import SOCKET_VARIABLE, VARIABLES, default_address, home, log_dir
from zcsyncd.settings import CARRIED_VARIABLES, read_settings

PROBE_S = 20.0
_XDG_LINUX = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
_XDG_MACOS = (*_XDG_LINUX, "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
_USUAL = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state"}
_CACHES = (".cache", "pipx/.cache", "Library/Caches", "AppData/Local/uv/cache")
_HEAD_BYTES = 1024
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile")
_SHIMS = "shims"
"""Directories of this name hold no commands, but what chooses among them by the directory one is in."""


def wanted(env: Mapping[str, str], platform: str = sys.platform) -> Wanted:
    """Give the service as it would be installed from here.

    Raises: Refused, when the interpreter is gone; ConfigError, when a place of ours is named wrongly.
    """
    return Wanted(
        words=(interpreter(platform), *RUN_WORDS),
        environment=carried(env, platform),
        socket=_odd_socket(env, platform),
        error_log=os.path.join(log_dir(env), "service.err") if platform == "darwin" else None,
        user=_user(env) if platform == "win32" else "",
    )


def interpreter(platform: str = sys.platform) -> str:
    """Give the interpreter's path, in its own spelling; on Windows of the one without a window.

    Raises: Refused, when it is no longer there.
    """
    path = os.path.abspath(sys.executable) if sys.executable else ""
    if platform == "win32":
        windowless = os.path.join(os.path.dirname(path), "pythonw.exe")
        path = windowless if os.path.exists(windowless) else path
    if not path or not os.access(path, os.X_OK):
        raise Refused(
            f"the interpreter {path or 'of this command'} is no longer there: its virtual environment was removed",
            hint=LASTING,
        )
    return path


def carried(env: Mapping[str, str], platform: str = sys.platform) -> tuple[tuple[str, str], ...]:
    """Give the variables that the unit has to carry, sorted by name: those that are set and say more than usual."""
    standard = {"linux": _XDG_LINUX, "darwin": _XDG_MACOS}.get(platform, ())
    found = {name: env.get(name, "") for name in (*CARRIED_VARIABLES, *VARIABLES, *standard)}
    base = home(env)
    usual = {name: os.path.join(base, part) for name, part in _USUAL.items()}
    return tuple(
        sorted((name, value) for name, value in found.items() if value.strip() and value != usual.get(name))
    )


def probe(service: Wanted, env: Mapping[str, str]) -> None:
    """Make sure that the interpreter finds the package by itself, as it will have to.

    Raises: Refused.
    """
    bare = {name: value for name, value in env.items() if not name.startswith("PYTHON")}
    path = service.words[0]
    if os.path.basename(path).lower() == "pythonw.exe":  # that one cannot speak
        path = os.path.join(os.path.dirname(path), "python.exe")
    done = call([path, *MODULE_WORDS, "--version"], bare, most_s=PROBE_S)
    if done.code != 0 or zcsyncd.__version__ not in done.out:
        raise Refused(
            f"{path} does not find zcsyncd by itself, so a service could not be started: {done.said}",
            hint=f"{LASTING}; then call that one",
        )


def no_root(env: Mapping[str, str]) -> None:
    """Make sure that this is the person, not root in the person's name. Raises: Refused."""
    if sys.platform != "win32" and own_uid() == 0 and env.get("SUDO_USER", "root") != "root":
        raise Refused(
            "a service of root's would not watch your memory", hint="do it without sudo: root is not needed"
        )


def facts(service: Wanted, env: Mapping[str, str]) -> Facts:
    """Look at this installation."""
    path = service.words[0]
    package = os.path.dirname(os.path.abspath(zcsyncd.__file__))
    base = home(env)
    return Facts(
        interpreter=path,
        checkout=_checkout(path, base) or _checkout(package, base),
        passing=_passing(path, base),
        others=tuple(_others(path, env)),
        carried=tuple(name for name, _ in service.environment),
    )


def _checkout(path: str, base: str) -> str | None:
    for place in _above(path):
        # A home under version control is no project, nor are managers of interpreters that are clones themselves.
        if place != base and os.path.exists(os.path.join(place, ".git")) and _holds_project(place):
            return place
    return None


def _holds_project(place: str) -> bool:
    return any(os.path.exists(os.path.join(place, name)) for name in _PROJECT_FILES)


def _passing(path: str, base: str) -> str | None:
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp", *(os.path.join(base, part) for part in _CACHES)]  # noqa: S108 - looked at, not used
    places += [
        os.path.join(base, ".local", "share", "pipx", ".cache"),
        os.path.join(base, ".local", "pipx", ".cache"),
    ]
    around = set(_above(path))
    return next((place for place in places if os.path.normpath(place) in around), None)


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above


def _others(path: str, env: Mapping[str, str]) -> Iterator[str]:
    own = os.path.dirname(path)
    name = "zcsyncd.exe" if sys.platform == "win32" else "zcsyncd"
    seen = set()
    for place in env.get("PATH", "").split(os.pathsep):
        found = os.path.join(place, name)
        if not os.path.isabs(place) or os.path.basename(os.path.normpath(place)) == _SHIMS:
            continue
        if not os.path.isfile(found) or not os.access(found, os.X_OK):
            continue
        real = os.path.realpath(found)
        if real in seen or os.path.dirname(real) == os.path.realpath(own) or own.encode() in _head(real):
            continue
        seen.add(real)
        yield found


def _head(path: str) -> bytes:
    """Give a script's first lines, which name its interpreter."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _odd_socket(env: Mapping[str, str], platform: str) -> str | None:
    """Give the address where it is not the one that a unit computes by itself."""
    if platform != "linux":
        return None
    address = default_address(env, read_settings(env).bus_address)
    is_moved = env.get(SOCKET_VARIABLE) or os.path.dirname(address) != _usual_runtime()
    return address if is_moved else None


def _usual_runtime() -> str:
    """Give what `%t/zcsyncd` is for the manager of this user."""
    return f"/run/user/{own_uid()}/zcsyncd"


def _user(env: Mapping[str, str]) -> str:
    import getpass

    name = env.get("USERNAME") or getpass.getuser()
    domain = env.get("USERDOMAIN") or env.get("COMPUTERNAME") or "."
    return f"{domain}\\{name}"
