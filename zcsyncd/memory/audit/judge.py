"""All rules over one snapshot, in one order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit.fact_rules import (
    fact_findings,
    hidden_findings,
    link_findings,
    name_findings,
    recall_findings,
    stray_findings,
)
from zcsyncd.memory.audit.finding import SEVERITIES, Finding, key_of
from zcsyncd.memory.audit.history_rules import with_history
from zcsyncd.memory.audit.index_rules import entry_findings, index_findings, unindexed_findings
from zcsyncd.memory.audit.scene import Scene, set_scene
from zcsyncd.memory.snapshot import Snapshot

if TYPE_CHECKING:  # past.py imports this package
    from zcsyncd.memory.past import Past

_RANKS = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def _unsafe_findings(scene: Scene) -> Iterable[Finding]:
    return scene.names.findings


_RULES: tuple[Callable[[Scene], Iterable[Finding]], ...] = (
    index_findings,
    entry_findings,
    unindexed_findings,
    fact_findings,
    name_findings,
    link_findings,
    recall_findings,
    hidden_findings,
    stray_findings,
    _unsafe_findings,
)


def audit(
    snapshot: Snapshot,
    caps: Caps,
    *,
    now_ms: int,
    muted: frozenset[str] = frozenset(),
    past: Past | None = None,
) -> tuple[Finding, ...]:
    """Tell what is wrong with a memory directory, the gravest first, then by file, line and code.

    For layouts whose rules are these (`Layout.audited`); `caps` are the layout's. `now_ms` (epoch milliseconds)
    is for what becomes wrong by age alone: a temporary file is told a minute after it was written, so a
    directory that has one is worth another audit then. `muted`: codes that are not told. `past`: what is
    remembered of the directory; None: nobody watched it, so nothing is said of what was there before. Nothing
    here raises for what a directory holds, and no two findings have one key. Source: docs/audit.md.
    """
    scene = set_scene(snapshot, caps, now_ms)
    findings = [finding for rule in _RULES for finding in rule(scene) if finding.code not in muted]
    if past is not None and (past.losses or past.removals):
        findings = with_history(findings, past, scene, muted)
    if len(findings) > 1:
        findings.sort(key=_order)
        findings = _unique(findings, snapshot.directory)
    return tuple(findings)


def _order(finding: Finding) -> tuple[int, str, int, str, str, str]:
    return (
        _RANKS[finding.severity],
        finding.file or "",
        finding.line or 0,
        finding.code,
        finding.key,
        finding.message,
    )


def _unique(findings: list[Finding], directory: str) -> list[Finding]:
    """Give every finding a key of its own: what is said twice is told once, what differs is counted."""
    kept: dict[str, Finding] = {}
    for finding in findings:
        key, number = finding.key, 1
        while (other := kept.get(key)) is not None and _differ(other, finding):
            number += 1
            key = key_of(finding.code, directory, finding.file, f"{finding.target or ''}#{number}")
        if other is None:
            kept[key] = finding if key == finding.key else replace(finding, key=key)
    return list(kept.values())


def _differ(one: Finding, other: Finding) -> bool:
    return (one.line, one.message) != (other.line, other.message)
