"""The Finding record: one thing that the audit says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of one directory at one moment, without its history (`since`, `pending`, `dismissed`).

    `key` is stable over restarts and moves of lines (docs/audit.md tells of what it is made for each code).
    """

    key: str
    code: str
    severity: Severity
    file: str | None
    target: str | None
    line: int | None
    message: str
    hint: str | None
    fixable: bool
    graced: bool
    """The code waits for its other half: pending until the grace period is over."""
