"""On what kind of file system a path lies, from Linux's list of mounts, and which kinds never tell of changes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SILENT = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "drvfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "prl_fs",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    )
)
"""File systems whose changes another machine makes, too, and whose watches may stay silent for ever."""
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.ext4", "fuse.lxcfs"})
_LAYERED = frozenset({"overlay", "aufs", "fuse.overlayfs", "ecryptfs"})
_ESCAPE = re.compile(r"\\([0-7]{3})")


def kind_of(path: str, mountinfo: Iterable[str]) -> str | None:
    """Give the kind of the file system that holds an absolute path without symlinks; None when the list has none.

    `mountinfo` has the lines of /proc/self/mountinfo (proc_pid_mountinfo(5)); of two mounts at one place the later
    one covers the former.
    """
    best, kind = -1, None
    for line in mountinfo:
        before, sign, after = line.partition(" - ")
        words = before.split(" ")
        if not sign or len(words) < 5 or not after.strip():
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), words[4])
        if _holds(point, path) and len(point) >= best:
            best, kind = len(point), after.split(" ")[0]
    return kind


def _holds(point: str, path: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def is_silent(kind: str) -> bool:
    """Tell whether a watch is taken there and may never tell anything (docs/doctor.md)."""
    return kind in _SILENT or (kind.startswith("fuse") and kind not in _LOCAL_FUSE | _LAYERED)


def is_layered(kind: str) -> bool:
    """Tell whether changes made in a layer below it are not told."""
    return kind in _LAYERED
