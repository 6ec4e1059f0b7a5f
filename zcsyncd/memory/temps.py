"""Temporary files beside the files that they are to become: their names, and those that were left. Door: os.

The form of the name is ZCode's, so that the two know each other's.
"""

from __future__ import annotations

import os
import re
import secrets
import stat as stat_bits
import time
from collections.abc import Callable

from zcsyncd.errors import ZcsyncdError
from zcsyncd.memory.folder import Folder, no_zero
from zcsyncd.memory.locks import lives

NAME_BYTES = 255
"""What a file system holds of a name."""
_TEMP = re.compile(r"(?P<name>.*)\.tmp\.(?P<pid>\d{1,10})\.[0-9a-f]{12}", re.DOTALL)


def temp_name(file: str) -> str:
    """Give a temporary file name for a file: `<name>.tmp.<pid>.<12 hex>`, ZCode's form, cut to what a name may hold."""
    ending = f".tmp.{os.getpid()}.{secrets.token_hex(6)}"
    name = file.rpartition("/")[2]
    encoded = name.encode("utf-8", "replace")
    if len(encoded) + len(ending) > NAME_BYTES:
        name = encoded[: NAME_BYTES - len(ending)].decode("utf-8", "ignore")
    return name + ending


def sweep(path: str, *, keep: Callable[[bytes], None] | None = None, young_s: float = 60.0) -> bool:
    """Remove a temporary file that a killed writer left; True when it did.

    Only a regular file whose name has the form of `temp_name`. One that bears the pid of another process that lives
    must be older than `young_s`: ZCode names its own so. One that bears our own pid is taken for a former life's:
    call this only while nothing is being written in the directory. `keep` is given the bytes before they go (they
    may be a former version's that was just out of its place); where they cannot be read then, the file stays.
    """
    name = os.path.basename(path)
    form = _TEMP.fullmatch(name)
    if form is None:
        return False
    try:
        folder = Folder.open(os.path.dirname(no_zero(path)) or ".")
    except ZcsyncdError:
        return False
    try:
        status = folder.look(name)
        if status is None or not stat_bits.S_ISREG(status.st_mode):
            return False
        pid = int(form["pid"])
        if pid != os.getpid() and time.time() - status.st_ctime < young_s and lives(pid):
            return False
        if keep is not None:
            reading = folder.read(name)
            if reading is None:
                return False
            keep(reading.existing.content)
        _remove_claim(folder, form["name"], status)
        folder.remove(name)
        folder.sync()
    except (OSError, ZcsyncdError):
        return False
    finally:
        folder.close()
    return True


def _remove_claim(folder: Folder, name: str, temp: os.stat_result) -> None:
    """Remove the empty file by which a writer that was killed had taken the name (`_Draft._claim`)."""
    claim = folder.look(name) if name else None
    if (
        claim is not None
        and stat_bits.S_ISREG(claim.st_mode)
        and claim.st_size == 0
        and claim.st_mtime_ns == temp.st_mtime_ns
        and claim.st_ino != temp.st_ino
    ):
        folder.remove(name)
