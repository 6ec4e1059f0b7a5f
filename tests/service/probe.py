"""Tries what the service's unit forbids, and tells how each went. Runs under a unit; argument: the file for the answer."""

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, ADDR_NO_RANDOMIZE, PR_GET_NO_NEW_PRIVS, PTRACE_TRACEME, SCHED_FIFO = (
    0x10000000,
    0x40000,
    39,
    0,
    1,
)


def outcome(result):
    """Give `done`, or the name of the error of the last call into the C library."""
    return "done" if result != -1 else errno.errorcode[ctypes.get_errno()]


def tried(act):
    """Give `done`, or the name of the error."""
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def apart(act):
    """Do it in a process of its own; give what it says, or by which signal it was ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(writer, act().encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return said if os.WIFEXITED(status) else signal.Signals(os.WTERMSIG(status)).name


def umask():
    old = os.umask(0)
    os.umask(old)
    return f"{old:04o}"


def writable_code():
    def act():
        mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC | mmap.PROT_READ).close()

    return tried(act)


def set_uid_file():
    place = sys.argv[1] + ".file"
    with open(place, "wb"):
        pass
    said = tried(lambda: os.chmod(place, 0o4700))
    os.chmod(place, stat.S_IRUSR)
    os.unlink(place)
    return said


def internet():
    return tried(lambda: socket.socket(socket.AF_INET).close())


def foreign_call():
    """Call the system as a 32-bit program would: getpid by `int 0x80`."""
    if platform.machine() != "x86_64":
        return "not this machine"
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC | mmap.PROT_READ)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return "done" if ctypes.CFUNCTYPE(ctypes.c_int)(at)() == os.getpid() else "another answer"


PROBES = {
    "UMask": umask,
    "LimitCORE": lambda: "none" if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) else "some",
    "NoNewPrivileges": lambda: str(libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)),
    "LockPersonality": lambda: apart(lambda: outcome(libc.personality(ADDR_NO_RANDOMIZE))),
    "MemoryDenyWriteExecute": writable_code,
    # With a number that no process has the kernel itself would answer EINVAL.
    "RestrictRealtime": lambda: outcome(
        libc.sched_setscheduler(-1, SCHED_FIFO, ctypes.byref(ctypes.c_int(1)))
    ),
    "RestrictSUIDSGID": set_uid_file,
    # With a flag that does not exist the kernel itself would answer EINVAL.
    "RestrictNamespaces": lambda: apart(lambda: outcome(libc.unshare(CLONE_NEWUSER | 1))),
    "RestrictAddressFamilies": internet,
    "SystemCallArchitectures": lambda: apart(foreign_call),
    "SystemCallFilter": lambda: apart(lambda: outcome(libc.ptrace(PTRACE_TRACEME, 0, None, None))),
    "SystemCallErrorNumber": lambda: apart(lambda: outcome(libc.ptrace(PTRACE_TRACEME, 0, None, None))),
}

with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
    # What is not asked for might end this process.
    json.dump({name: PROBES[name]() for name in sys.argv[2:]}, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
