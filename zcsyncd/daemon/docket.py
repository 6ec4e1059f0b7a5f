"""Findings over time: what is pending, what is told, what is over. Time is an argument. Pure.

Rule 1: a finding is told once per key, over restarts too; a finding that is pending or dismissed is neither told nor
counted.
Rule 2: the clock of the grace period starts when the daemon first saw the state.
Rule 3: a directory that the state does not know is adopted: its findings count, but are not told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zcsyncd.memory.audit.finding import Finding

Adoption = Literal["no", "settled", "all"]
"""`settled`: what needs no grace is adopted; `all`: what waits for its grace too (the first scan of a new state)."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """What is remembered of a finding: since when it is there, whether it was told, and what it last said."""

    since_ms: int
    told: bool
    finding: Finding


@dataclass(frozen=True, slots=True)
class Docket:
    """A directory's findings at one moment, and what is to be told of them."""

    rows: Mapping[str, FindingRow]
    appeared: tuple[FindingRow, ...]
    cleared: tuple[FindingRow, ...]
    counts: tuple[int, int, int]
    """Errors, warnings, infos that are neither pending nor dismissed."""
    next_due_ms: int | None
    """When the next grace period ends."""


def is_pending(row: FindingRow, now_ms: int, grace_ms: int) -> bool:
    """Tell whether the finding still waits for its other half."""
    return row.finding.graced and now_ms - row.since_ms < grace_ms


def reckon(
    findings: Iterable[Finding],
    known: Mapping[str, FindingRow],
    dismissed: Collection[str],
    *,
    now_ms: int,
    grace_ms: int,
    adopt: Adoption = "no",
) -> Docket:
    """Compare what the audit says now with what is remembered."""
    rows: dict[str, FindingRow] = {}
    appeared: list[FindingRow] = []
    cleared: list[FindingRow] = []
    counts = {"error": 0, "warning": 0, "info": 0}
    next_due: int | None = None
    for finding in findings:
        was = known.get(finding.key)
        since_ms = was.since_ms if was else now_ms
        told = was.told if was else adopt == "all" or (adopt == "settled" and not finding.graced)
        row = FindingRow(since_ms, told, finding)
        if is_pending(row, now_ms, grace_ms):
            due = since_ms + grace_ms
            next_due = due if next_due is None else min(next_due, due)
        elif finding.key not in dismissed:
            counts[finding.severity] += 1
            if finding.severity != "info" and not told:
                row = FindingRow(since_ms, told=True, finding=finding)
                appeared.append(row)
        if was is not None and was.told and was.finding.severity != "info" and finding.severity == "info":
            cleared.append(was)
            row = FindingRow(since_ms, told=False, finding=finding)
        rows[finding.key] = was if was == row else row
    cleared.extend(
        was
        for key, was in known.items()
        if key not in rows and was.told and was.finding.severity != "info" and key not in dismissed
    )
    return Docket(
        rows,
        tuple(appeared),
        tuple(cleared),
        (counts["error"], counts["warning"], counts["info"]),
        next_due,
    )
