"""The Unix socket: bind it privately, know who connects, take one from systemd, remove our own. Door: socket.

Rule 1: only the holder of the state directory's lock (zcsyncd.daemon.lock) binds or removes.
Rule 2: the socket file is 0600 from the moment it exists; its directory is the caller's business.
Rule 3: on Windows the bus is a named pipe (zcsyncd.bus.pipe_server): everything here refuses there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import MutableMapping

from zcsyncd.bus.limits import BACKLOG
from zcsyncd.errors import AlreadyRunning, Refused

FIRST_PASSED = 3
"""The first descriptor that systemd passes (sd_listen_fds(3))."""

_PROBE_S = 1.0
_XUCRED = struct.Struct("=Ii")
_XUCRED_BYTES = 76
_SOL_LOCAL = 0
_LOCAL_PEERCRED = 1
_NO_WINDOWS = "Windows has no Unix sockets for us: the bus is a named pipe there"


def bind_socket(address: str) -> socket.socket:
    """Make the daemon's listening socket; a stale file at the address is removed first.

    The caller holds the lock and has checked the directory.

    Raises: AlreadyRunning when somebody listens there (a daemon of another state directory); Refused when the place
    is taken by something else, is too long, or cannot be written to.
    """
    if sys.platform == "win32":
        raise Refused(_NO_WINDOWS)
    _remove_stale(address)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_private(made, address)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Refused(
            f"cannot make the socket {address}: {_reason(error)}", hint=_bind_hint(error)
        ) from error
    if not _is_private(address):
        made.close()
        os.unlink(address)
        raise Refused(
            f"the file system does not keep the socket {address} private",
            hint="set ZCSYNCD_RUNTIME_DIR to a local one",
        )
    made.setblocking(False)
    return made


def _bind_private(made: socket.socket, address: str) -> None:
    if sys.platform == "linux":
        # The mode of the open socket becomes the file's: no window, and nothing that other threads would notice.
        os.fchmod(made.fileno(), 0o600)
        made.bind(address)
        return
    former = os.umask(0o177)
    try:
        made.bind(address)
    finally:
        os.umask(former)


def _is_private(address: str) -> bool:
    """Make sure of the mode: an odd umask may have made it narrower, an odd file system may not keep it."""
    if stat.S_IMODE(os.lstat(address).st_mode) != 0o600:
        os.chmod(address, 0o600)
    return stat.S_IMODE(os.lstat(address).st_mode) == 0o600


def _remove_stale(address: str) -> None:
    if sys.platform == "win32":
        raise Refused(_NO_WINDOWS)
    try:
        found = os.lstat(address)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise Refused(f"cannot look at {address}: {_reason(error)}") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise Refused(
            f"{address} is in the way: it is not a socket", hint="move it away, or set ZCSYNCD_SOCKET"
        )
    if found.st_uid != os.getuid():
        raise Refused(
            f"the socket {address} belongs to another user", hint="set ZCSYNCD_SOCKET to a place of yours"
        )
    if _somebody_listens(address):
        raise AlreadyRunning(
            f"a daemon with another state directory listens at {address}",
            hint="stop it, or set ZCSYNCD_SOCKET to another place",
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)


def _somebody_listens(address: str) -> bool:
    if sys.platform == "win32":
        raise Refused(_NO_WINDOWS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            # A full backlog (EAGAIN) or a busy listener means that there is one; EPROTOTYPE is a datagram socket.
            return error.errno != errno.EPROTOTYPE
    return True


def socket_inode(address: str) -> int | None:
    """Give the inode of the file at the address, to be kept for `remove_socket`; None without one."""
    try:
        return os.lstat(address).st_ino
    except OSError:
        return None


def remove_socket(address: str, inode: int | None) -> bool:
    """Remove the socket file if it is still ours; tell whether it was.

    To be called while the socket is open: as long as it is, no other file gets its inode.
    """
    if inode is None or socket_inode(address) != inode:
        return False
    try:
        os.unlink(address)
    except OSError:
        return False
    return True


def activated_socket(environ: MutableMapping[str, str]) -> socket.socket | None:
    """Take the listening socket that systemd passed to this process; None when it passed none.

    The variables are taken out of `environ`, so that no child believes they are meant for it.

    Raises: Refused when something was passed but no listening Unix stream socket is among it.
    """
    if sys.platform == "win32":
        return None
    meant_for = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if meant_for != str(os.getpid()) or not count.isdecimal() or int(count) == 0:
        return None
    return take_passed(range(FIRST_PASSED, FIRST_PASSED + int(count)))


def take_passed(descriptors: range) -> socket.socket:
    """Take the first listening Unix stream socket among descriptors that were passed to us.

    Raises: Refused when there is none.
    """
    if sys.platform == "win32":
        raise Refused(_NO_WINDOWS)
    for descriptor in descriptors:
        try:
            os.set_inheritable(descriptor, False)
            passed = socket.socket(fileno=descriptor)
        except OSError:
            continue
        if passed.family == socket.AF_UNIX and passed.type == socket.SOCK_STREAM and _listens(passed):
            passed.setblocking(False)
            return passed
        passed.detach()
    raise Refused(
        "the service was started with sockets, but none is a listening Unix stream socket",
        hint="the unit needs ListenStream= with a path",
    )


def _listens(passed: socket.socket) -> bool:
    try:
        return bool(passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return True  # macOS may not tell; accepting will


def peer_uid(connected: socket.socket) -> int | None:
    """Tell which user the process at the other end runs as; None when the system does not tell."""
    try:
        if sys.platform == "linux":
            raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            _pid, uid, _gid = struct.unpack("3i", raw)
            return int(uid)
        if sys.platform == "darwin":
            raw = connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
            version, uid = _XUCRED.unpack_from(raw)
            return int(uid) if version == 0 else None
    except (OSError, struct.error):
        return None
    return None


def same_user(connected: socket.socket) -> bool:
    """Tell whether the other end is a process of this user; who cannot be told is not."""
    if sys.platform == "win32":
        return False
    return peer_uid(connected) == os.getuid()


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _bind_hint(error: OSError) -> str | None:
    if "too long" in str(error):
        return (
            "a Unix socket's path has at most 107 bytes (103 on macOS): set ZCSYNCD_SOCKET to a shorter one"
        )
    if error.errno == errno.ENOENT:
        return "its directory is not there"
    return "set ZCSYNCD_RUNTIME_DIR or ZCSYNCD_SOCKET to a place that you can write to"
