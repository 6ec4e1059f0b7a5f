"""What differs between two snapshots of a directory: the kinds that `memory/changed` tells. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["added", "updated", "renamed", "deleted", "removed", "file"]


@dataclass(frozen=True, slots=True)
class Change:
    """One file (or one unit of a document) that is not what it was."""

    kind: ChangeKind
    file: str
    unit: tuple[str, ...] | None = None
    from_: str | tuple[str, ...] | None = None
    name: str | None = None
    description: str | None = None
    type: str | None = None
    revision: str | None = None
    content_hash: str | None = None
