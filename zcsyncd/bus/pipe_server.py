"""The bus's named pipe on Windows: claim the name, let in this user only, hand each connection to the server.
Door: ctypes, asyncio's proactor.

asyncio serves pipes by itself, but with the system's usual access list, which lets everybody read, and for clients of
other machines too; so the instances are made here.

Rule 1: owner and access list name this user and the system, nobody else; clients of other machines are rejected.
Rule 2: the first instance claims the name: nobody else's pipe of this name is joined. From then on at least one
instance exists, so the name cannot be taken while we live.
Rule 3: some instances wait at any time, so a burst of clients is not sent away.
Two private names of asyncio are used, `_proactor` and `_make_duplex_pipe_transport`; a test says so when they go.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

from zcsyncd.bus.address import is_pipe_name
from zcsyncd.bus.pipe import BUFFER_BYTES
from zcsyncd.errors import AlreadyRunning, Refused

_log = logging.getLogger("zcsyncd.bus")

WAITING_INSTANCES = 8
"""Instances that wait for a client."""

RETRY_S = 1.0
"""When the system gives no further instance, it is asked again after this."""

_DUPLEX_OVERLAPPED = 0x3 | 0x40000000
_FIRST_INSTANCE = 0x00080000
_REJECT_REMOTE = 0x8
"""Besides: bytes, no messages (0), and waiting as usual (0)."""
_UNLIMITED = 255


class NoPipes(Refused):
    """This event loop cannot use pipes."""


def access_list(sid: str) -> str:
    """Give the security descriptor of the pipe in SDDL: owned by the user, open to the user and the system only."""
    return f"O:{sid}D:P(A;;GA;;;{sid})(A;;GA;;;SY)"


if sys.platform == "win32":
    import ctypes
    from asyncio.windows_utils import PipeHandle
    from ctypes import wintypes
    from functools import partial

    from zcsyncd.bus.pipe import PipeBusy, open_handle
    from zcsyncd.places import user_sid

    class _Attributes(ctypes.Structure):
        """SECURITY_ATTRIBUTES."""

        _fields_ = (("length", wintypes.DWORD), ("descriptor", wintypes.LPVOID), ("inherit", wintypes.BOOL))

    class PipeListener:
        """All instances that wait for clients."""

        def __init__(self, address: str, make_protocol: Callable[[], asyncio.Protocol]) -> None:
            """Claim the name, and wait for clients from now on.

            Raises: AlreadyRunning when a daemon of this user listens there; Refused when anybody else does, or the
            system does not give the pipe.
            """
            if not is_pipe_name(address):
                raise Refused(
                    f"{address} is no pipe of this machine", hint=r"a pipe is named as in \\.\pipe\zcsyncd"
                )
            self.address = address
            self._loop: Any = _proactor_loop()
            self._make_protocol = make_protocol
            self._attributes = _attributes(access_list(user_sid()))
            self._waiting: dict[PipeHandle, asyncio.Future[Any]] = {}
            self._retry: asyncio.TimerHandle | None = None
            self._closed = False
            try:
                _check_free(address)
                self._offer(first=True)
                for _ in range(WAITING_INSTANCES - 1):
                    self._offer()
            except OSError as error:
                self.close()
                raise Refused(
                    f"cannot make the pipe {address}: {error.strerror or error}",
                    hint="if another program has that name, end it; ZCSYNCD_SOCKET names another pipe",
                ) from error
            except BaseException:
                self.close()
                raise

        def close(self) -> None:
            """Take in no more clients; those that are in stay. Twice is harmless."""
            self._closed = True
            if self._retry is not None:
                self._retry.cancel()
            waiting, self._waiting = self._waiting, {}
            for handle, accepting in waiting.items():
                accepting.cancel()
                handle.close()
            _free(self._attributes)

        def _offer(self, *, first: bool = False) -> None:
            handle = PipeHandle(_make_instance(self.address, self._attributes, first=first))
            try:
                accepting = self._loop._proactor.accept_pipe(handle)
            except ConnectionError:
                # Its client came and went before we had asked for one.
                handle.close()
                self._loop.call_soon(self._fill)
                return
            except BaseException:
                handle.close()
                raise
            self._waiting[handle] = accepting
            accepting.add_done_callback(partial(self._accepted, handle))

        def _accepted(self, handle: PipeHandle, accepting: asyncio.Future[Any]) -> None:
            self._waiting.pop(handle, None)
            came = not accepting.cancelled() and accepting.exception() is None
            if self._closed or not came:
                handle.close()
            else:
                self._loop._make_duplex_pipe_transport(
                    handle, self._make_protocol(), extra={"addr": self.address}
                )
            self._fill()

        def _fill(self) -> None:
            self._retry = None
            try:
                while not self._closed and len(self._waiting) < WAITING_INSTANCES:
                    self._offer()
            except OSError as error:
                _log.warning("event=no-instance reason=%r", error.strerror or str(error))
                self._retry = self._loop.call_later(RETRY_S, self._fill)

    def pipe_transport(handle: int, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Give a transport over a connected pipe's handle, which it closes in the end.

        Raises: NoPipes for a loop that cannot.
        """
        owned = PipeHandle(handle)
        try:
            made: asyncio.Transport = _proactor_loop()._make_duplex_pipe_transport(owned, protocol)
        except BaseException:
            owned.close()
            raise
        return made

    def _proactor_loop() -> Any:
        loop: Any = asyncio.get_running_loop()
        if not isinstance(loop, asyncio.ProactorEventLoop):
            raise NoPipes(
                f"{type(loop).__name__} cannot use named pipes",
                hint="run under asyncio.ProactorEventLoop, which is the default on Windows",
            )
        return loop

    def _check_free(address: str) -> None:
        """Make sure that nobody listens at the name; who does is told apart, so that a person knows what to do."""
        try:
            handle = open_handle(address)
        except FileNotFoundError:
            return
        except PipeBusy:
            pass
        except PermissionError as error:
            raise Refused(
                f"the pipe {address} is taken by a program of another user",
                hint="find out which program made it, and end it; ZCSYNCD_SOCKET names another pipe",
            ) from error
        else:
            PipeHandle(handle).close()
        raise AlreadyRunning(
            f"a daemon with another state directory listens at {address}",
            hint="stop it, or set ZCSYNCD_SOCKET to another pipe",
        )

    def _make_instance(address: str, attributes: _Attributes, *, first: bool) -> int:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateNamedPipeW.restype = wintypes.HANDLE
        kernel.CreateNamedPipeW.argtypes = [wintypes.LPCWSTR, *[wintypes.DWORD] * 6, ctypes.c_void_p]
        made = kernel.CreateNamedPipeW(
            address,
            _DUPLEX_OVERLAPPED | (_FIRST_INSTANCE if first else 0),
            _REJECT_REMOTE,
            _UNLIMITED,
            BUFFER_BYTES,
            BUFFER_BYTES,
            0,
            ctypes.byref(attributes),
        )
        if made is None or made == wintypes.HANDLE(-1).value:
            raise ctypes.WinError(ctypes.get_last_error())
        return int(made)

    def _attributes(sddl: str) -> _Attributes:
        advapi = ctypes.WinDLL("advapi32", use_last_error=True)
        convert = advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW
        convert.argtypes = [
            wintypes.LPCWSTR,
            wintypes.DWORD,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_void_p,
        ]
        descriptor = ctypes.c_void_p()
        if not convert(sddl, 1, ctypes.byref(descriptor), None):
            raise ctypes.WinError(ctypes.get_last_error())
        return _Attributes(ctypes.sizeof(_Attributes), descriptor, False)

    def _free(attributes: _Attributes) -> None:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.LocalFree.argtypes = [ctypes.c_void_p]
        descriptor, attributes.descriptor = attributes.descriptor, None
        if descriptor:
            kernel.LocalFree(descriptor)

else:

    class PipeListener:
        """Nothing: only Windows has named pipes."""

        def __init__(self, address: str, make_protocol: Callable[[], asyncio.Protocol]) -> None:
            """Say that there are none here."""
            del make_protocol
            raise NoPipes(f"{address} is no place to listen at: only Windows has named pipes")

        def close(self) -> None:
            """Do nothing."""

    def pipe_transport(handle: int, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Say that there are none here."""
        del protocol
        raise NoPipes(f"handle {handle} is no pipe: only Windows has them")
