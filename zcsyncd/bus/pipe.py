"""The bus's named pipe on Windows, seen from who connects: opened as a file, with a time limit on every wait.
Door: _winapi.

Rule 1: the control client imports this module on its fast path there: no asyncio.
Rule 2: who listens must be us. A pipe that belongs to somebody else is refused before a byte is sent, and its owner
may learn who we are, but not act as us.
Rule 3: a read that nobody waits for any more goes on, and the next one takes what it brought: nothing is lost by
giving up a wait.
"""

from __future__ import annotations

import sys
from time import monotonic

from zcsyncd.errors import Refused

BUFFER_BYTES = 65_536
"""What the system holds of each direction while the other end does not read."""

_FILE_FLAG_OVERLAPPED = 0x40000000
_SECURITY_IDENTIFICATION = 0x00110000
"""SECURITY_SQOS_PRESENT, and the level at which a server may ask who we are but not act as us."""
_READ_CONTROL_AND_DATA = 0xC0000000
_OPEN_EXISTING = 3
_BUSY = 231
"""ERROR_PIPE_BUSY: no instance is free at the moment."""
_WAIT_TIMED_OUT = 121
"""ERROR_SEM_TIMEOUT, of WaitNamedPipe."""
_GONE = frozenset({109, 232, 233})
"""ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED: the other end has hung up."""
_ABORTED = 995


class PipeBusy(BlockingIOError):
    """All instances of the pipe are taken at the moment; one will be free soon."""


if sys.platform == "win32":
    import _winapi

    from zcsyncd.places import user_sid

    def open_handle(address: str) -> int:
        """Open the daemon's pipe for overlapped use and give its handle, which the caller closes.

        Raises: PipeBusy; FileNotFoundError without a server; Refused when it is another user's; OSError.
        """
        try:
            handle = _winapi.CreateFile(
                address,
                _READ_CONTROL_AND_DATA,
                0,
                0,
                _OPEN_EXISTING,
                _FILE_FLAG_OVERLAPPED | _SECURITY_IDENTIFICATION,
                0,
            )
        except OSError as error:
            if error.winerror == _BUSY:
                raise PipeBusy(error.errno, "all its instances are taken", address) from error
            raise
        try:
            _check_owner(handle, address)
        except BaseException:
            _winapi.CloseHandle(handle)
            raise
        return handle

    def _check_owner(handle: int, address: str) -> None:
        owner = owner_sid(handle)
        if owner != user_sid():
            raise Refused(
                f"the pipe {address} belongs to another user ({owner}): nothing was sent",
                hint="find out which program made it; ZCSYNCD_SOCKET names another pipe",
            )

    def owner_sid(handle: int) -> str:
        """Give the security identifier of a pipe's owner, as in `S-1-5-21-…`.

        Raises: OSError when the system does not tell.
        """
        import ctypes
        from ctypes import wintypes

        advapi = ctypes.WinDLL("advapi32", use_last_error=True)
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.LocalFree.argtypes = [ctypes.c_void_p]
        place = ctypes.POINTER(ctypes.c_void_p)
        advapi.GetSecurityInfo.argtypes = [
            wintypes.HANDLE,
            ctypes.c_int,
            wintypes.DWORD,
            place,
            place,
            place,
            place,
            place,
        ]
        advapi.GetSecurityInfo.restype = wintypes.DWORD
        advapi.ConvertSidToStringSidW.argtypes = [ctypes.c_void_p, ctypes.POINTER(wintypes.LPWSTR)]
        kernel_object, owner_information = 6, 1
        owner, descriptor = ctypes.c_void_p(), ctypes.c_void_p()
        failed = advapi.GetSecurityInfo(
            handle,
            kernel_object,
            owner_information,
            ctypes.byref(owner),
            None,
            None,
            None,
            ctypes.byref(descriptor),
        )
        if failed:
            raise ctypes.WinError(failed)
        try:
            text = wintypes.LPWSTR()
            if not advapi.ConvertSidToStringSidW(owner, ctypes.byref(text)):
                raise ctypes.WinError(ctypes.get_last_error())
            spelled = str(text.value)
            kernel.LocalFree(ctypes.cast(text, ctypes.c_void_p))
        finally:
            kernel.LocalFree(descriptor)
        return spelled

    class Pipe:
        """One end of a pipe with the few verbs of a socket that the client uses.

        Not for several threads at once.
        """

        def __init__(self, handle: int) -> None:
            self._handle: int | None = handle
            self._timeout_s: float | None = None
            self._read: _winapi.Overlapped | None = None

        @classmethod
        def connect(cls, address: str, timeout_s: float) -> Pipe:
            """Connect; while all instances are taken, wait for one.

            Raises: TimeoutError after `timeout_s`; otherwise as `open_handle`.
            """
            deadline = monotonic() + timeout_s
            while True:
                try:
                    made = cls(open_handle(address))
                except PipeBusy as error:
                    left_ms = int((deadline - monotonic()) * 1000)
                    if left_ms <= 0:
                        raise TimeoutError(error.errno, "all its instances are taken", address) from error
                    _wait_for_instance(address, left_ms)
                else:
                    made.settimeout(timeout_s)
                    return made

        def settimeout(self, timeout_s: float | None) -> None:
            """Bound every wait from now on; None: wait for ever."""
            self._timeout_s = timeout_s

        def recv(self, size: int) -> bytes:
            """Read what there is, at most `size` bytes; empty when the other end has hung up.

            Raises: TimeoutError; OSError.
            """
            try:
                if self._read is None:
                    self._read, _ = _winapi.ReadFile(self._opened(), size, overlapped=True)
                self._await(self._read)
                read, self._read = self._read, None
                read.GetOverlappedResult(True)
            except OSError as error:
                if error.winerror in _GONE:
                    self._read = None
                    return b""
                raise
            return bytes(read.getbuffer() or b"")

        def sendall(self, data: bytes) -> None:
            """Write everything.

            Raises: TimeoutError, and then a part may have been written; OSError.
            """
            view = memoryview(data)
            while view:
                write, _ = _winapi.WriteFile(self._opened(), bytes(view[:BUFFER_BYTES]), overlapped=True)
                try:
                    self._await(write)
                except BaseException:
                    _give_up(write)
                    raise
                written, _ = write.GetOverlappedResult(True)
                view = view[written:]

        def close(self) -> None:
            """Hang up. Twice is harmless."""
            handle, self._handle = self._handle, None
            read, self._read = self._read, None
            if read is not None:
                _give_up(read)
            if handle is not None:
                _winapi.CloseHandle(handle)

        def _opened(self) -> int:
            if self._handle is None:
                raise OSError("the pipe is closed")
            return self._handle

        def _await(self, under_way: _winapi.Overlapped) -> None:
            ms = _winapi.INFINITE if self._timeout_s is None else max(int(self._timeout_s * 1000), 0)
            # Of several handles, so that Ctrl-C ends the wait.
            if _winapi.WaitForMultipleObjects([under_way.event], False, ms) == _winapi.WAIT_TIMEOUT:
                raise TimeoutError("the other end does not answer")

    def _give_up(under_way: _winapi.Overlapped) -> None:
        try:
            under_way.cancel()
            under_way.GetOverlappedResult(True)
        except OSError as error:
            if error.winerror not in _GONE and error.winerror != _ABORTED:
                raise

    def _wait_for_instance(address: str, most_ms: int) -> None:
        try:
            _winapi.WaitNamedPipe(address, most_ms)
        except FileNotFoundError:
            return  # opening it says so
        except OSError as error:
            if error.winerror != _WAIT_TIMED_OUT:
                raise

else:

    def open_handle(address: str) -> int:
        """Say that there are no pipes here."""
        raise Refused(f"{address} is a named pipe: only Windows has them")

    class Pipe:
        """Nothing: only Windows has named pipes."""

        @classmethod
        def connect(cls, address: str, timeout_s: float) -> Pipe:
            """Say that there are none here."""
            del timeout_s
            raise Refused(f"{address} is a named pipe: only Windows has them")

        def settimeout(self, timeout_s: float | None) -> None:
            """Do nothing."""

        def recv(self, size: int) -> bytes:
            """Give nothing."""
            return b""[:size]

        def sendall(self, data: bytes) -> None:
            """Do nothing."""

        def close(self) -> None:
            """Do nothing."""
