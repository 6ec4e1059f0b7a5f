"""The Finding record: one thing that the audit says, and the key that it is known by. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The gravest first."""
KEY_DIGITS = 12
"""48 bits: a person types a key, and two findings of one code in a store never share one by chance."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of one directory at one moment, without its history (`since`, `pending`, `dismissed`).

    `key` is stable over restarts and moves of lines (docs/audit.md tells of what it is made for each code).
    """

    key: str
    code: str
    severity: Severity
    file: str | None
    """Relative to the memory directory, with `/`; None: the finding is about the directory as a whole."""
    target: str | None
    """What it is about besides the file: an entry's target, a link, a name."""
    line: int | None
    """1-based line of `file`; None: no single line."""
    message: str
    hint: str | None
    """What to do."""
    fixable: bool
    graced: bool
    """The code waits for its other half: pending until the grace period is over."""
    by: tuple[str, str] | None = None
    """Host and id of the session whose write brought it about, where that is known."""


def key_of(code: str, directory: str, file: str | None = None, target: str | None = None) -> str:
    """Give a finding's key: the code, a colon, and 12 hex digits over directory, file and target.

    The same four give the same key for ever: people's dismissals and what was told are kept under it.
    """
    parts = (code, directory, *("-" if part is None else "+" + part for part in (file, target)))
    # Names come from the disk: one whose bytes are no UTF-8 holds lone surrogates.
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{code}:{digest[:KEY_DIGITS]}"


def counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Count findings by severity; all three are there, also at nought."""
    tally = Counter(finding.severity for finding in findings)
    return {severity: tally[severity] for severity in SEVERITIES}


def shown(name: str) -> str:
    """Put a name from the disk into a sentence: quoted, on one line, nothing invisible, of bounded length."""
    if len(name) > 200:
        name = name[:120] + "…" + name[-60:]
    if not name.isprintable():
        name = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    return f"`{name}`"


def listed(names: Iterable[str], most: int = 50) -> str:
    """Put many names into a sentence: the first `most`, and how many more there are."""
    every = list(names)
    more = len(every) - most
    return ", ".join(shown(name) for name in every[:most]) + (f" and {more} more" if more > 0 else "")
