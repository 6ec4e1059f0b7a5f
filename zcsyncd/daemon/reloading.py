"""The configuration anew, while the daemon runs: read, compared, applied; what needs a restart is said. Pure rules
but for the one read.

Rule 1: a file with mistakes changes nothing: all of them are told, and the former settings go on.
Rule 2: everything applies at once but what `AT_START` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zcsyncd.config import Settings, effective
from zcsyncd.memory.audit import RULES
from zcsyncd.settings import read_settings

if TYPE_CHECKING:
    from zcsyncd.daemon.app import Daemon

AT_START = frozenset({"bus.address", "watch.mode", "watch.poll_s"})
"""What the daemon is built with."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One setting that is another now."""

    key: str
    was: object
    now: object

    @property
    def needs_restart(self) -> bool:
        """Whether it applies from the next start on only."""
        return self.key in AT_START

    def to_wire(self) -> dict[str, object]:
        """Give a row of the answer to `daemon.reload`."""
        return {"key": self.key, "from": self.was, "to": self.now, "restart": self.needs_restart}


def compare(was: Settings, now: Settings) -> tuple[Changed, ...]:
    """List the settings that differ, in the order of docs/config.md."""
    return tuple(
        Changed(key, old, new)
        for (key, old, _), (_, new, _) in zip(effective(was), effective(now), strict=True)
        if old != new
    )


async def reload(daemon: Daemon, env: Mapping[str, str]) -> tuple[Changed, ...]:
    """Read the configuration again and go by it.

    Raises: ConfigError, which lists every mistake; then nothing is changed.
    """
    was, now = daemon.settings, read_settings(env, codes=RULES)
    changed = compare(was, now)
    _apply(daemon, now)
    await daemon.retree()  # hosts' own settings may have changed, too
    daemon.pipeline.telling.audit_all()
    return changed


def _apply(daemon: Daemon, now: Settings) -> None:
    daemon.settings = daemon.territory.settings = now
    store, memory = daemon.store, daemon.store.memory
    store.grace_ms = int(now.audit_grace_s * 1000)
    memory.history.enabled = now.history_enabled
    memory.history.most_versions = now.history_max_versions
    memory.finder.enabled = now.search_enabled and daemon.database.can_search
    memory.unkept |= store.kept.keys()
    daemon.keeping.wake()
    daemon.pipeline.quiet_s = now.settle_quiet_ms / 1000
    daemon.watch.settle_by(now.settle_quiet_ms / 1000, now.settle_longest_ms / 1000)
    daemon.schedule_rescans()
    daemon.set_up_logs()
