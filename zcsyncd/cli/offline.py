"""The offline verbs: one memory directory read directly, with the answers that the daemon would give. Door: disk.

Rule 1: nothing is written, and nothing is pending: what waits for its other half only the daemon knows. What was lost
and what was dismissed is read from the daemon's database.
Rule 2: any directory that is named may be read, whether a daemon would keep it or not. One that only a project's file
names has to lie where that project may point to, as for the daemon.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from zcsyncd.cli.alone import past_of
from zcsyncd.errors import NotFound, Refused, ZcsyncdError
from zcsyncd.layouts.own import Surroundings, judge
from zcsyncd.layouts.resolve import Resolution, resolve
from zcsyncd.layouts.zcode import ZCODE
from zcsyncd.memory.answers import find_fact, finding_answer, index_answer, list_answer, read_answer
from zcsyncd.memory.audit import RULES, SEVERITIES, audit
from zcsyncd.memory.disk import look, read_file
from zcsyncd.memory.recall import recalled
from zcsyncd.memory.why import why
from zcsyncd.places import home
from zcsyncd.settings import existing_directories, known_roots, pi_agent_dir, pi_memory_dir, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zcsyncd.config import Settings
    from zcsyncd.layouts.layout import Root
    from zcsyncd.memory.snapshot import Snapshot

LAYOUT = ZCODE
"""By whose rules a directory is read that was only named: the user asks what ZCode would make of it."""


# -- which directory -------------------------------------------------------------------------------------------------


def directory_for(cwd: str, env: Mapping[str, str]) -> str:
    """Find the memory directory of a working directory, by what lies on the disk.

    Raises:
        NotFound: there is none yet.
        Refused: a project's file names one that it may not name.
    """
    found = _resolved(cwd, env)
    if found.dir is None:
        raise no_memory(cwd, found.computed_dir)
    return found.dir


def no_memory(cwd: str, computed: str) -> NotFound:
    """Give the error for a working directory without memory."""
    return NotFound(
        f"no memory for {cwd} yet: it would be at {computed}",
        hint="name a directory, or see `zcsyncd dirs` for those that exist",
    )


def _resolved(cwd: str, env: Mapping[str, str]) -> Resolution:
    settings = read_settings(env)
    roots = [root for root in known_roots(env, settings).roots if root.layout == LAYOUT.name]
    if not roots:
        raise NotFound("ZCode's memory is switched off in the configuration", hint="name a directory")
    existing = existing_directories([LAYOUT.tree(root.path) for root in roots])
    return resolve(cwd, configured=_configured(cwd, env, roots), roots=roots, existing=existing)


def _configured(cwd: str, env: Mapping[str, str], roots: Sequence[Root]) -> str | None:
    """Give the directory that pi's settings name for a working directory.

    Raises:
        Refused: only a file of the project names it, and it lies neither there nor under a known root.
    """
    named = pi_memory_dir(env, cwd)
    if named.dir is None or named.named_by == "user":
        return named.dir
    around = Surroundings(
        roots=tuple(os.path.realpath(root.path) for root in roots),
        homes=(os.path.realpath(home(env)),),
        agent_dirs=(os.path.realpath(pi_agent_dir(env)),),
    )
    judged = judge(
        named.dir,
        os.path.realpath(named.dir),
        named_by="project-file",
        around=around,
        project=os.path.realpath(cwd),
    )
    if judged.kind != "own":
        raise Refused(
            f"a file of the project in {cwd} names {named.dir} as its memory: {judged.reason}",
            hint=f"if you trust it, name it yourself: {named.dir}",
        )
    return named.dir


# -- answers ---------------------------------------------------------------------------------------------------------


def audit_answer(directory: str, env: Mapping[str, str], severity: str) -> dict[str, object]:
    """Give the answer to `audit.get` for one directory, all findings of that severity or graver on one page."""
    settings = read_settings(env, codes=frozenset(RULES))
    snapshot = _snapshot(directory, settings)
    muted = settings.muted_in(directory)
    now_ms = time.time_ns() // 1_000_000
    past, dismissed = past_of(env, directory, snapshot, _index_bytes(directory))
    told: list[str] = [*SEVERITIES]
    del told[told.index(severity) + 1 :]
    findings = [
        finding_answer(finding, directory, now_ms, pending=False, dismissed=finding.key in dismissed)
        for finding in audit(snapshot, LAYOUT.caps, now_ms=now_ms, muted=muted, past=past)
        if finding.severity in told
    ]
    return {"total": len(findings), "findings": findings}


def memory_list(directory: str, env: Mapping[str, str]) -> dict[str, object]:
    """Give the answer to `memory.list`, all facts on one page."""
    snapshot = _snapshot(directory, read_settings(env))
    # One directory that cannot be listed, and ZCode's recall gives up on all of them.
    closed = any(stray.kind == "unreadable-directory" for stray in snapshot.strays.values())
    listed = recalled(snapshot.facts.values(), unreadable_directory=closed)
    return list_answer(snapshot, listed, limit=len(snapshot.facts))


def memory_read(
    directory: str, env: Mapping[str, str], name: str, *, full: bool, with_reasons: bool = False
) -> dict[str, object]:
    """Give the answer to `memory.read`; `with_reasons`: with what `why` asks for."""
    settings = read_settings(env, codes=frozenset(RULES))
    snapshot = _snapshot(directory, settings)
    fact = find_fact(snapshot, name)
    content, stat = read_file(directory, fact.file)
    answer = read_answer(directory, fact.file, content, stat.mtime_ns, full=full)
    if with_reasons:
        now_ms = time.time_ns() // 1_000_000
        past, _ = past_of(env, directory, snapshot, _index_bytes(directory))
        muted = settings.muted_in(directory)
        findings = audit(snapshot, LAYOUT.caps, now_ms=now_ms, muted=muted, past=past)
        answer |= why(snapshot, fact.file, LAYOUT.caps, findings)
    return answer


def memory_index(directory: str) -> dict[str, object]:
    """Give the answer to `memory.index`."""
    if not os.path.isdir(directory):
        raise _no_directory(directory)
    try:
        content, stat = read_file(directory, LAYOUT.index_name or "")
    except NotFound:
        return index_answer(directory, None, 0, LAYOUT.caps)
    return index_answer(directory, content, stat.mtime_ns, LAYOUT.caps)


def _index_bytes(directory: str) -> bytes | None:
    try:
        return read_file(directory, LAYOUT.index_name or "")[0]
    except ZcsyncdError:
        return None  # its own finding says so


def _snapshot(directory: str, settings: Settings) -> Snapshot:
    """Read a directory in one go.

    Raises:
        NotFound: it is not there.
        Unreadable: it is there but cannot be listed.
    """
    slices = look(directory, LAYOUT, None, ignored=settings.ignored)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            if done.value is None:
                raise _no_directory(directory) from None
            snapshot: Snapshot = done.value.snapshot
            return snapshot


def _no_directory(directory: str) -> NotFound:
    if os.path.lexists(directory):
        return NotFound(f"{directory} is not a directory", hint="name the directory that holds the facts")
    return NotFound(f"{directory} does not exist")
