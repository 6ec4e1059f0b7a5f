"""What `status` says: how the daemon is, what it keeps, what a person should know."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING

import zcsyncd
from zcsyncd import __version__
from zcsyncd.memory import yaml
from zcsyncd.memory.answers import time_text
from zcsyncd.places import VARIABLES
from zcsyncd.settings import CARRIED_VARIABLES

if TYPE_CHECKING:
    from zcsyncd.daemon.app import Daemon

_NO_LIBYAML = "PyYAML was built without libyaml: reading is slower, and front matter with tabs is refused"


def status(daemon: Daemon, scope: frozenset[str] | None) -> dict[str, object]:
    """Give the answer to `status`; a session does not hear of other projects' directories."""
    store, territory = daemon.store, daemon.territory
    kept = [one for directory, one in store.kept.items() if scope is None or directory in scope]
    counts = [sum(one.counts[severity] for one in kept) for severity in range(3)]
    return {
        "daemon": _daemon(daemon, all_roots=scope is None),
        "bus": _bus(daemon),
        "counts": {
            "directories": len(kept),
            "facts": sum(len(one.snapshot.facts) for one in kept),
            "findings": dict(zip(("error", "warning", "info"), counts, strict=True)),
        },
        "asked": [
            {"dir": asked.directory, "reason": asked.reason}
            for asked in territory.asked.values()
            if scope is None
        ],
        "jobs": [
            {
                "name": job.name,
                "nextRunAt": _time(job.next_run_ms),
                "lastRunAt": _time(job.last_run_ms),
                "lastError": job.last_error,
            }
            for job in daemon.schedule.states()
        ],
        "environment": _environment(daemon) if scope is None else [],
    }


def _time(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else time_text(epoch_ms)


def _daemon(daemon: Daemon, *, all_roots: bool) -> dict[str, object]:
    trees = daemon.watch.state()
    degraded = [{"base": tree.base, "reason": tree.reason} for tree in trees if tree.reason is not None]
    degraded += [{"base": directory, "reason": why} for directory, why in daemon.pipeline.put_off.items()]
    if daemon.store.last_error is not None:
        degraded.append({"base": daemon.database.path, "reason": daemon.store.last_error})
    said: dict[str, object] = {
        "version": __version__,
        "pid": os.getpid(),
        "uptimeS": round(time.monotonic() - daemon.started_monotonic),
        "rssBytes": rss_bytes(),
        "ready": daemon.ready.is_set(),
        "watcher": ", ".join(sorted({tree.kind for tree in trees})) or "none",
        "degraded": degraded if all_roots else [],
        "lastEventAt": _time(daemon.store.last_event_ms),
        "lastScanAt": _time(daemon.pipeline.last_scan_ms),
        "driftFound": daemon.pipeline.drift_found,
        "packageSkew": package_skew(),
        "startedAt": time_text(daemon.started_ms),
    }
    if all_roots:
        said["variables"] = {name: daemon.env.get(name) for name in (*VARIABLES, *CARRIED_VARIABLES)}
        said["trees"] = [
            {
                "layout": tree.layout,
                "base": tree.base,
                "exists": os.path.isdir(tree.base),
                "kind": tree.kind,
                "watches": tree.watches,
                "lastEventAt": None
                if tree.last_event_at is None
                else time_text(int(tree.last_event_at * 1000)),
                "reason": tree.reason,
                "lastScanAt": _time(daemon.pipeline.scanned_ms.get(tree.base)),
                "drift": daemon.pipeline.drift_of[tree.base],
            }
            for tree in trees
        ]
        said["complaints"] = (
            daemon.territory.all_complaints()
            + list(daemon.supervisor.complaints.values())
            + ([] if yaml.accelerated else [_NO_LIBYAML])
        )
    return said


def _bus(daemon: Daemon) -> dict[str, object]:
    counters = daemon.server.counters
    return {
        "address": daemon.address,
        "connections": counters.connections,
        "subscriptions": counters.subscriptions,
        "published": counters.published,
        "dropped": counters.dropped,
    }


def _environment(daemon: Daemon) -> list[dict[str, object]]:
    return [
        {"name": variable, "host": host, "session": value, "daemon": daemon.env.get(variable)}
        for (host, variable), value in sorted(daemon.told_environment.items())
    ]


def package_skew() -> str | None:
    """Give the version of the package that lies on the disk now, if it is not the one that runs."""
    try:
        with open(zcsyncd.__file__, encoding="utf-8") as file:
            found = re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE)
    except (OSError, ValueError):
        return None  # the package was removed, or is being written: nothing to compare with
    return found[1] if found and found[1] != __version__ else None


def rss_bytes() -> int | None:
    """Give the memory that this process holds; None where the system does not say."""
    if sys.platform == "linux":
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return None
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return None
