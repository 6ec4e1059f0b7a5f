"""What differs between two snapshots of a directory: the kinds that `memory/changed` tells. Pure.

Rule 1: equal bytes are no change, whatever the times say.
Rule 2: `updated` is a change of meaning (name, description, type, body); other bytes with the same meaning are `file`.
Rule 3: `renamed` needs both halves in one batch and a pair that is the only one of its content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from zcsyncd.memory.fact import Fact
from zcsyncd.memory.index import Index
from zcsyncd.memory.revision import revision
from zcsyncd.memory.snapshot import Snapshot

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
    former_hash: str | None = None
    """The hash before, of a file that was there: who merges changes knows by it what came back."""


def changes(
    before: Snapshot | None, after: Snapshot | None, files: Collection[str] | None = None
) -> tuple[Change, ...]:
    """Tell what became of each file, the index first, then by file name.

    `before` None: the directory is new, every file is `added`. `after` None: it is gone, every file is `deleted`.
    `files`: the only ones that may differ, so that a change costs the same in a large directory as in a small one.
    """
    old_facts: Mapping[str, Fact] = before.facts if before else {}
    new_facts: Mapping[str, Fact] = after.facts if after else {}
    if files is not None:
        old_facts = {file: old_facts[file] for file in files if file in old_facts}
        new_facts = {file: new_facts[file] for file in files if file in new_facts}
    told = _fact_changes(old_facts, new_facts)
    index_change = _index_change(before.index if before else None, after.index if after else None)
    return (*([index_change] if index_change else []), *told)


def _fact_changes(old: Mapping[str, Fact], new: Mapping[str, Fact]) -> list[Change]:
    gone = [old[file] for file in old if file not in new]
    come: list[Fact] = []
    told: list[Change] = []
    for file, fact in new.items():
        was = old.get(file)
        if was is fact:  # shared between the snapshots: the usual case
            continue
        if was is None:
            come.append(fact)
        elif not _same_bytes(was, fact):
            kind: ChangeKind = "file" if _same_meaning(was, fact) else "updated"
            told.append(replace(_of_fact(kind, fact), former_hash=was.content_hash))
    pairs = _renames(gone, come) if gone and come else {}
    told.extend(
        _of_fact("renamed", fact, from_=pairs[fact.file]) if fact.file in pairs else _of_fact("added", fact)
        for fact in come
    )
    moved_away = set(pairs.values())
    told.extend(
        Change("deleted", fact.file, former_hash=fact.content_hash)
        for fact in gone
        if fact.file not in moved_away
    )
    if len(told) > 1:
        told.sort(key=lambda change: change.file)
    return told


def _same_bytes(was: Fact | Index, now: Fact | Index) -> bool:
    if was.content_hash is None or now.content_hash is None:
        # What cannot be read has no hash: its size and time are all that can be compared.
        return was.content_hash == now.content_hash and _size_and_time(was) == _size_and_time(now)
    return was.content_hash == now.content_hash


def _size_and_time(file: Fact | Index) -> tuple[int, int]:
    return file.stat.size, file.stat.mtime_ns


def _same_meaning(was: Fact, now: Fact) -> bool:
    return was.meaning_hash is not None and was.meaning_hash == now.meaning_hash


def _of_fact(kind: ChangeKind, fact: Fact, from_: str | None = None) -> Change:
    return Change(
        kind,
        fact.file,
        from_=from_,
        name=fact.name,
        description=fact.description,
        type=fact.type,
        revision=revision(fact.stat.mtime_ns, fact.stat.size),
        content_hash=fact.content_hash,
    )


def _renames(gone: Iterable[Fact], come: Iterable[Fact]) -> dict[str, str]:
    """Pair vanished and appeared files of equal bytes: new name → old name. Pairs must be unique."""
    by_bytes: dict[str, tuple[list[Fact], list[Fact]]] = defaultdict(lambda: ([], []))
    for side, facts in enumerate((gone, come)):
        for fact in facts:
            if fact.content_hash is not None:
                by_bytes[fact.content_hash][side].append(fact)
    pairs: dict[str, str] = {}
    for olds, news in by_bytes.values():
        if len(olds) == len(news) == 1:
            pairs[news[0].file] = olds[0].file
        elif olds and news:
            # Copies of one text: the inode tells which went where, if it does so without doubt.
            pairs.update(_renames_by_inode(olds, news))
    return pairs


def _renames_by_inode(olds: list[Fact], news: list[Fact]) -> dict[str, str]:
    old_by_inode = {fact.stat.inode: fact.file for fact in olds if fact.stat.inode}
    new_by_inode = {fact.stat.inode: fact.file for fact in news if fact.stat.inode}
    if len(old_by_inode) != len(olds) or len(new_by_inode) != len(news):
        return {}
    return {new_by_inode[inode]: old for inode, old in old_by_inode.items() if inode in new_by_inode}


def _index_change(was: Index | None, now: Index | None) -> Change | None:
    if was is now:
        return None
    if now is None:
        assert was is not None
        return Change("deleted", was.file, former_hash=was.content_hash)
    at = revision(now.stat.mtime_ns, now.stat.size)
    if was is None:
        return Change("added", now.file, revision=at, content_hash=now.content_hash)
    if _same_bytes(was, now):
        return None
    same_text = was.text_hash is not None and was.text_hash == now.text_hash
    kind: ChangeKind = "file" if same_text and _entries(was) == _entries(now) else "updated"
    return Change(kind, now.file, revision=at, content_hash=now.content_hash, former_hash=was.content_hash)


def _entries(index: Index) -> list[tuple[str, str, str, bool]]:
    return [(entry.target, entry.title, entry.hook, entry.hidden) for entry in index.entries]
