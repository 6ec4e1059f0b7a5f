"""Who has a file open, where that is in our way: on Windows nobody may rename over such a file. Door: ctypes.

Source: the Restart Manager (RmGetList), which installers ask the same.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _MOST_HOLDERS = 8
    _MORE_DATA = 234
    """ERROR_MORE_DATA: there are more, and those who are told are right."""

    class _Process(ctypes.Structure):
        """RM_UNIQUE_PROCESS."""

        _fields_ = (("pid", wintypes.DWORD), ("started", wintypes.FILETIME))

    class _Holder(ctypes.Structure):
        """RM_PROCESS_INFO."""

        _fields_ = (
            ("process", _Process),
            ("name", wintypes.WCHAR * 256),
            ("service", wintypes.WCHAR * 64),
            ("kind", ctypes.c_int),
            ("status", wintypes.ULONG),
            ("session", wintypes.DWORD),
            ("restartable", wintypes.BOOL),
        )

    def holders(path: str) -> list[str]:
        """Give name and pid of the programs that have a file open; empty when nobody has, or nobody tells.

        Source: the Restart Manager (RmGetList), which installers ask the same.
        """
        try:
            manager = ctypes.WinDLL("rstrtmgr")
        except OSError:
            return []
        session, key = wintypes.DWORD(), ctypes.create_unicode_buffer(33)
        if manager.RmStartSession(ctypes.byref(session), 0, key):
            return []
        try:
            files = (wintypes.LPCWSTR * 1)(path)
            if manager.RmRegisterResources(session, 1, files, 0, None, 0, None):
                return []
            found, needed, reasons = (_Holder * _MOST_HOLDERS)(), wintypes.UINT(), wintypes.DWORD()
            count = wintypes.UINT(_MOST_HOLDERS)
            failed = manager.RmGetList(
                session, ctypes.byref(needed), ctypes.byref(count), found, ctypes.byref(reasons)
            )
            if failed and failed != _MORE_DATA:
                return []
            here = os.getpid()
            return [
                f"{each.name or 'a program'} (pid {each.process.pid})"
                for each in found[: count.value]
                if each.process.pid != here
            ]
        finally:
            manager.RmEndSession(session)

else:

    def holders(path: str) -> list[str]:
        """Give nothing: elsewhere who has a file open is in nobody's way."""
        del path
        return []
