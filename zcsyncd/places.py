"""Where our own things lie: configuration, state, runtime, log, and the address of the bus. Door: platformdirs.

Rule 1: the state directory can be computed by any client without Python and without platformdirs (docs/protocol.md,
section 1), so it is written out here, and this module imports nothing heavy until somebody asks for more.
Rule 2: the environment is an argument. A variable of ours that names a place wins and must be absolute: daemon and
clients start in different directories.
Rule 3: what holds our socket and our state is private. A directory that is not is refused, never mended: whoever
opened it may have put something into it.
"""

from __future__ import annotations

import os
import stat
import sys

from zcsyncd.errors import ConfigError, Refused
from zcsyncd.opening import is_link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

APP = "zcsyncd"
STATE_VARIABLE = "ZCSYNCD_STATE_DIR"
RUNTIME_VARIABLE = "ZCSYNCD_RUNTIME_DIR"
CONFIG_VARIABLE = "ZCSYNCD_CONFIG"
SOCKET_VARIABLE = "ZCSYNCD_SOCKET"
VARIABLES = (STATE_VARIABLE, RUNTIME_VARIABLE, CONFIG_VARIABLE, SOCKET_VARIABLE)

SOCKET_NAME = "bus.sock"
ENDPOINT_NAME = "endpoint.json"
CONFIG_NAME = "config.yaml"


# --- places ------------------------------------------------------------------------------------------------------


def home(env: Mapping[str, str], platform: str = sys.platform) -> str:
    """Give the person's home directory, absolute.

    Raises: ConfigError, when neither the environment nor the system tells one.
    """
    for value in _home_candidates(env, platform):
        if _is_absolute(value, platform):
            return value
    variable = "USERPROFILE" if platform == "win32" else "HOME"
    raise ConfigError("there is no home directory to work in", hint=f"set {variable} to an absolute path")


def state_dir(env: Mapping[str, str], home: str | None = None, platform: str = sys.platform) -> str:
    """Give the directory of what lasts: the journal, saved versions, `endpoint.json`, the lock.

    `home` spares looking for one. Raises: ConfigError, for a variable that names no absolute path.
    """
    named = _named(env, STATE_VARIABLE, platform)
    if named is not None:
        return named
    if platform == "win32":
        base = _set(env, "LOCALAPPDATA", platform)
        return _join(platform, base or _join(platform, _home(env, home, platform), "AppData", "Local"), APP)
    if platform == "darwin":
        return _join(platform, _home(env, home, platform), "Library", "Application Support", APP)
    base = _set(env, "XDG_STATE_HOME", platform)
    return _join(platform, base or _join(platform, _home(env, home, platform), ".local", "state"), APP)


def endpoint_file(env: Mapping[str, str], home: str | None = None, platform: str = sys.platform) -> str:
    """Give the file in which a running daemon tells its address."""
    return _join(platform, state_dir(env, home, platform), ENDPOINT_NAME)


def runtime_dir(env: Mapping[str, str]) -> str:
    """Give the directory of the socket. It is not made here; see `private_directory`.

    Raises: ConfigError, for a variable that names no absolute path; Refused, when the system has no safe place.
    """
    return _named(env, RUNTIME_VARIABLE, sys.platform) or _ask(env, "user_runtime_dir", RUNTIME_VARIABLE)


def config_file(env: Mapping[str, str]) -> str:
    """Give the configuration file, existing or not. `ZCSYNCD_CONFIG` names another one.

    Raises: ConfigError, for a variable that names no absolute path.
    """
    named = _named(env, CONFIG_VARIABLE, sys.platform)
    return named or os.path.join(_ask(env, "user_config_dir", CONFIG_VARIABLE), CONFIG_NAME)


def log_dir(env: Mapping[str, str]) -> str:
    """Give the directory of the log: the platform's own, or inside of the state directory when that was moved."""
    named = _named(env, STATE_VARIABLE, sys.platform)
    return os.path.join(named, "log") if named is not None else _ask(env, "user_log_dir", STATE_VARIABLE)


# --- the address -------------------------------------------------------------------------------------------------


def default_address(env: Mapping[str, str], configured: str | None = None) -> str:
    """Give the address that a daemon with this environment listens at.

    `configured` is `bus.address`. The same function serves daemon and client; `endpoint.json` is the surer answer
    for a client, since a running daemon may have been started with another environment.
    """
    address = env.get(SOCKET_VARIABLE) or configured
    if sys.platform == "win32":
        return _pipe(address) if address else rf"\\.\pipe\{APP}-{user_sid()}"
    if address is not None and not address.startswith("/"):
        raise ConfigError(f"{SOCKET_VARIABLE} must be the absolute path of a socket, not {address!r}")
    return fitting_socket(address or os.path.join(runtime_dir(env), SOCKET_NAME))


def _pipe(address: str) -> str:
    from zcsyncd.bus.address import is_pipe_name

    if not is_pipe_name(address):
        raise ConfigError(
            f"{SOCKET_VARIABLE} must name a pipe of this machine, not {address!r}",
            hint=r"such as \\.\pipe\zcsyncd, with no further backslash",
        )
    return address


def fitting_socket(path: str) -> str:
    """Give `path`, or a short one that stands for it when a socket's path cannot be that long (bus/address.py)."""
    from zcsyncd.bus.address import fit_address

    return fit_address(path, _uid())


def socket_directory(env: Mapping[str, str], configured: str | None = None) -> str | None:
    """Give the directory that has to be private before a socket is bound at the default address.

    None where the person named the socket: the directory is theirs then, and the socket itself is private.
    """
    if sys.platform == "win32":
        return None
    address = default_address(env, configured)
    return None if address == (env.get(SOCKET_VARIABLE) or configured) else os.path.dirname(address)


# --- private directories -----------------------------------------------------------------------------------------


def private_directory(path: str) -> None:
    """Make a directory that only this user can enter, or make sure that it is one.

    Missing parents are made private too. Raises: Refused, when it is a symlink, no directory, somebody else's, open
    to group or others, or lies where somebody else could replace it.
    """
    path = os.path.abspath(path)
    try:
        _make(path)
        problem = privacy_problem(path)
    except OSError as error:
        raise Refused(
            f"{path} cannot be used as a private directory: {error.strerror or error}",
            hint="make its parent writable for you, or name another place (docs/config.md, Environment)",
        ) from error
    if problem is not None:
        what, mend = problem
        raise Refused(what, hint=mend)


def privacy_problem(path: str) -> tuple[str, str] | None:
    """Tell what keeps an existing directory from being private, and what to do about it; None: nothing does.

    What `private_directory` refuses, without making anything. Raises: OSError, when it cannot be looked at.
    """
    return _problem(path) or _parent_problem(os.path.dirname(path))


def _make(path: str) -> None:
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            # Somebody was faster; the checks will tell who.
            continue
        # An odd umask may have taken even our own rights.
        os.chmod(directory, 0o700)


def _problem(path: str) -> tuple[str, str] | None:
    """Tell what is wrong with the directory itself, and what to do about it."""
    found = os.lstat(path)
    if is_link(found):
        return f"{path} is a symlink", "remove it, or name the directory that it points to"
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is no directory", "move it away"
    if sys.platform == "win32":
        return None
    if found.st_uid != os.geteuid():
        return (
            f"{path} belongs to another owner (uid {found.st_uid}, not {os.geteuid()})",
            "name a place of your own, or run as its owner",
        )
    if found.st_mode & 0o077:
        return (
            f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):04o})",
            f"look whether what lies in it is yours, then: chmod 700 {path}",
        )
    return None


def _parent_problem(parent: str) -> tuple[str, str] | None:
    """Tell whether somebody else could take the directory away and put another in its place.

    A shared directory with the sticky bit (`/tmp`) is safe: only the owner of an entry can rename it.
    """
    if sys.platform == "win32":
        return None
    mend = "name a place below a directory of your own"
    trusted = (0, os.geteuid())
    if os.lstat(parent).st_uid not in trusted:
        return f"{parent} belongs to another owner (uid {os.lstat(parent).st_uid})", mend
    found = os.stat(parent)
    if found.st_uid not in trusted:
        return f"{parent} leads to a directory of another owner (uid {found.st_uid})", mend
    shared = found.st_mode & stat.S_IWOTH or (
        found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    )
    if shared and not found.st_mode & stat.S_ISVTX:
        return (
            f"{parent} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            f"chmod go-w {parent}, or {mend}",
        )
    return None


def _is_own_group(gid: int) -> bool:
    """Tell whether a group is this user's private one, as many systems make: its number is the user's."""
    if sys.platform == "win32":
        return False
    return gid == os.getegid() == os.geteuid()


# --- the environment ---------------------------------------------------------------------------------------------


def _home_candidates(env: Mapping[str, str], platform: str) -> Iterator[str]:
    if platform == "win32":
        yield env.get("USERPROFILE", "")
        yield env.get("HOMEDRIVE", "") + env.get("HOMEPATH", "")
    else:
        yield env.get("HOME", "")
    if sys.platform != "win32" and platform != "win32":
        import pwd

        try:
            yield pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            return


def _home(env: Mapping[str, str], known: str | None, platform: str) -> str:
    return known if known is not None else home(env, platform)


def _named(env: Mapping[str, str], variable: str, platform: str) -> str | None:
    """Give the place that a variable of ours names; None when it is not set."""
    value = env.get(variable)
    if not value:
        return None
    if not _is_absolute(value, platform):
        raise ConfigError(
            f"{variable} must be an absolute path, not {value!r}",
            hint="daemon and clients start in different directories",
        )
    return _normal(value, platform)


def _set(env: Mapping[str, str], variable: str, platform: str) -> str | None:
    """Give a variable of the system's; one that is not absolute counts as not set, as its rules have it."""
    value = env.get(variable, "")
    return value if _is_absolute(value, platform) else None


def _is_absolute(path: str, platform: str) -> bool:
    if platform != "win32":
        return path.startswith("/") and "\0" not in path
    return len(path) > 2 and (path[1:3] in (":\\", ":/") or path[:2] == "\\\\")


def _normal(path: str, platform: str) -> str:
    if platform == "win32":
        import ntpath

        return ntpath.normpath(path)
    import posixpath

    return posixpath.normpath("/" + path.lstrip("/"))


def _join(platform: str, first: str, *parts: str) -> str:
    sign = "\\" if platform == "win32" else "/"
    return sign.join((first.rstrip("/\\" if platform == "win32" else "/"), *parts))


def _uid() -> int:
    if sys.platform == "win32":
        return 0
    return os.geteuid()


# --- platformdirs ------------------------------------------------------------------------------------------------

_READ_BY_PLATFORMDIRS = ("HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA")


def _ask(env: Mapping[str, str], question: str, variable: str) -> str:
    """Ask platformdirs for one directory of ours, in `env`; nothing is made.

    Raises: Refused, naming the variable that gets around it, when platformdirs finds no safe place.
    """
    import warnings

    import platformdirs

    lent = _Lent(env)
    try:
        with warnings.catch_warnings():
            # It warns of a runtime directory that it passes over; what it takes instead is checked by us.
            warnings.simplefilter("ignore")
            # Without appauthor=False the name would come twice on Windows.
            return str(getattr(platformdirs.PlatformDirs(APP, appauthor=False), question))
    except (OSError, RuntimeError) as error:
        raise Refused(f"the system has no safe place for us: {error}", hint=f"set {variable}") from error
    finally:
        lent.give_back()


class _Lent:
    """The process's environment, made like `env` for a moment: platformdirs knows no other.

    Where `env` is the process's own, as in every daemon and client, nothing is touched.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        names = {*_READ_BY_PLATFORMDIRS, *(name for name in {*env, *os.environ} if name.startswith("XDG_"))}
        self._before = {name: os.environ.get(name) for name in names if os.environ.get(name) != env.get(name)}
        for name in self._before:
            _put(name, env.get(name))

    def give_back(self) -> None:
        """Put back what was there before."""
        for name, value in self._before.items():
            _put(name, value)


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


# --- Windows -----------------------------------------------------------------------------------------------------

if sys.platform == "win32":

    def user_sid() -> str:
        """Give the security identifier of the current user, as in `S-1-5-21-…`."""
        import ctypes
        from ctypes import wintypes

        advapi = ctypes.WinDLL("advapi32", use_last_error=True)
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.CloseHandle.argtypes = [wintypes.HANDLE]
        kernel.LocalFree.argtypes = [ctypes.c_void_p]
        advapi.OpenProcessToken.argtypes = [
            wintypes.HANDLE,
            wintypes.DWORD,
            ctypes.POINTER(wintypes.HANDLE),
        ]
        advapi.GetTokenInformation.argtypes = [
            wintypes.HANDLE,
            ctypes.c_int,
            ctypes.c_void_p,
            wintypes.DWORD,
            ctypes.POINTER(wintypes.DWORD),
        ]
        advapi.ConvertSidToStringSidW.argtypes = [ctypes.c_void_p, ctypes.POINTER(wintypes.LPWSTR)]
        token_query, token_user = 0x0008, 1
        token = wintypes.HANDLE()
        if not advapi.OpenProcessToken(kernel.GetCurrentProcess(), token_query, ctypes.byref(token)):
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            needed = wintypes.DWORD()
            advapi.GetTokenInformation(token, token_user, None, 0, ctypes.byref(needed))
            answer = ctypes.create_string_buffer(needed.value)
            if not advapi.GetTokenInformation(token, token_user, answer, needed, ctypes.byref(needed)):
                raise ctypes.WinError(ctypes.get_last_error())
            # The answer begins with a pointer to the identifier, which lies behind it in the same buffer.
            identifier = ctypes.cast(answer, ctypes.POINTER(ctypes.c_void_p))[0]
            text = wintypes.LPWSTR()
            if not advapi.ConvertSidToStringSidW(identifier, ctypes.byref(text)):
                raise ctypes.WinError(ctypes.get_last_error())
            spelled = str(text.value)
            kernel.LocalFree(ctypes.cast(text, ctypes.c_void_p))
        finally:
            kernel.CloseHandle(token)
        return spelled

else:

    def user_sid() -> str:
        """Tell that there is none: only Windows has them."""
        raise Refused("only Windows has security identifiers")
