"""From what was found to what is told: groups become transactions, the audit follows, grace periods end.

    found ─► (the stream has nothing more) ─► store.commit ─► (a pause) ─► store.audit ─► store.commit

Rule 1: all that the stream holds at one moment is one transaction; a lone save is told at once.
Rule 2: the audit follows the news of a change and never delays it. In a burst a directory is audited once, not at
each save.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from zcsyncd.daemon.store import Store

log = logging.getLogger(__name__)

GROUP_LOOKS = 64
"""Looks in one transaction at most: a burst must not keep its first subscriber waiting."""
AUDIT_PAUSE_S = 0.005
"""The audit waits for this long a pause after the news of a change,"""
AUDIT_LATEST_S = 0.1
"""but not longer than this."""


class Stream(Protocol):
    """What is asked of the watch: its clock, and whether more is ready."""

    @property
    def has_more(self) -> bool:
        """Whether an item is ready already."""

    def clock(self) -> float:
        """Give the time in seconds."""


class Telling:
    """Decides when the store commits and audits."""

    def __init__(self, store: Store, stream: Stream) -> None:
        self.behind: Callable[[], None] = lambda: None
        """Called after each audit: bytes or words may be left to be saved that no look brought along."""
        self._store = store
        self._stream = stream
        self._to_audit: set[str] = set()
        self._looks_in_group = 0
        self._closing: asyncio.Handle | None = None
        self._audit_timer: asyncio.TimerHandle | None = None
        self._audit_asked_at = 0.0
        self._grace_timer: asyncio.TimerHandle | None = None
        self._grace_ms: int | None = None

    # -- one transaction for all that is there at a moment

    def found(self, directory: str) -> None:
        """Take that a look has put what it found into the open group."""
        self._to_audit.add(directory)
        self.close_soon()

    def forget(self, directory: str) -> None:
        """Take that a directory is no longer kept: it is not audited."""
        self._to_audit.discard(directory)

    def close_soon(self) -> None:
        """Commit once the stream holds nothing more."""
        self._looks_in_group += 1
        if not self._stream.has_more:
            self._close()
        elif self._looks_in_group >= GROUP_LOOKS:
            self._commit()
        elif self._closing is None:
            self._closing = asyncio.get_running_loop().call_soon(self._close)

    def _close(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        self._commit()
        if self._to_audit:
            self._ask_for_audit()

    def _commit(self) -> None:
        self._looks_in_group = 0
        self._store.commit()
        self._store.keep()

    def tell_now(self) -> None:
        """Commit and audit everything that was found so far."""
        self._commit()
        self._audit()

    # -- the audit follows

    def audit_all(self) -> None:
        """Audit every directory in the next pause: what counts as a finding may be another thing now."""
        self._to_audit.update(self._store.kept)
        self._ask_for_audit()

    def _ask_for_audit(self) -> None:
        now = self._stream.clock()
        if self._audit_timer is None:
            self._audit_asked_at = now
        else:
            self._audit_timer.cancel()
        wait_s = min(AUDIT_PAUSE_S, max(0.0, self._audit_asked_at + AUDIT_LATEST_S - now))
        self._audit_timer = asyncio.get_running_loop().call_later(wait_s, self._audit)

    def _audit(self) -> None:
        if self._audit_timer is not None:
            self._audit_timer.cancel()
            self._audit_timer = None
        due, self._to_audit = self._to_audit, set()
        for directory in sorted(due):
            try:
                self._store.audit(directory)
            except Exception:
                # A bug in a rule must not silence the rules of the other directories.
                log.exception("audit failed dir=%r", directory)
        self._store.commit()
        self._store.take_words()
        self.behind()
        self.mind_graces(due)

    # -- time passes

    def mind_graces(self, directories: Iterable[str]) -> None:
        """Have directories audited again when their next grace period ends."""
        for directory in directories:
            kept = self._store.kept.get(directory)
            if kept is not None and kept.next_due_ms is not None:
                self._arm(kept.next_due_ms)

    def _arm(self, due_ms: int) -> None:
        if self._grace_timer is not None:
            if self._grace_ms is not None and self._grace_ms <= due_ms:
                return
            self._grace_timer.cancel()
        self._grace_ms = due_ms
        wait_s = max(0.0, (due_ms - self._store.clock_ms()) / 1000) + 0.002
        self._grace_timer = asyncio.get_running_loop().call_later(wait_s, self._grace_ended)

    def _grace_ended(self) -> None:
        self._grace_timer = None
        now_ms = self._store.clock_ms()
        waiting = [
            (kept.next_due_ms, directory)
            for directory, kept in self._store.kept.items()
            if kept.next_due_ms is not None
        ]
        self._to_audit.update(directory for due_ms, directory in waiting if due_ms <= now_ms)
        self._audit()
        self.mind_graces(directory for due_ms, directory in waiting if due_ms > now_ms)

    def stop(self) -> None:
        """Commit what was found, and begin nothing more."""
        for timer in (self._closing, self._audit_timer, self._grace_timer):
            if timer is not None:
                timer.cancel()
        self._commit()
        self._store.take_words()
