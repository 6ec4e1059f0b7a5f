"""How agents save a memory file, one function per way. Door: os.

Source: docs/format.md, "Writing".
"""

from __future__ import annotations

import os
import secrets


def save_as_zcode(path: str, text: str) -> None:
    """Write a temporary file beside the target and rename it into place."""
    temporary = f"{path}.tmp.{os.getpid()}.{secrets.token_hex(6)}"
    with open(temporary, "xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def save_as_pi(path: str, text: str) -> None:
    """Truncate the file and write it in place."""
    with open(path, "wb") as file:
        file.write(text.encode())


def text_of(path: str) -> str:
    """Give a file's text, as an agent reads it."""
    with open(path, "rb") as file:
        return file.read().decode()
