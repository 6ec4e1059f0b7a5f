"""The rules on the index and its entries. Pure.

Rule 1: a read error is never "empty": of an index that cannot be read nothing else is said.
Rule 2: an entry that does not reach a file is told by what it names, never repaired by a guess between two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit.drift import share_a_word
from zcsyncd.memory.audit.finding import Finding, listed, shown
from zcsyncd.memory.audit.names import INDEX_NAME, folded, hidden_place, near_base, nfc
from zcsyncd.memory.audit.rules import RULES, found
from zcsyncd.memory.audit.scene import NOWHERE, Scene, set_scene
from zcsyncd.memory.fact import Fact, Remark
from zcsyncd.memory.index import Entry
from zcsyncd.memory.links import leaves
from zcsyncd.memory.snapshot import Snapshot

_LINE_CODES = frozenset({"entry-inline", "entry-long"})
"""Their remarks' targets are hashes of a line: part of the key, nothing to show."""
_NO_FILES = frozenset({"special", "broken-link", "symlinked-directory", "unreadable-directory"})
_QUOTED = str.maketrans({character: f"%{ord(character):02X}" for character in " ()<>#%"})


def index_findings(scene: Scene) -> Iterator[Finding]:
    """Tell what is wrong with the index as a file, and what its own lines show."""
    index = scene.snapshot.index
    if index is None:
        yield from _without_index(scene)
        return
    remarks = _from_remarks(scene.directory, index.file, index.remarks, scene.index_writable)
    alone = _reached_by_hidden_alone(scene) if scene.hidden else frozenset()
    for finding in remarks:
        if finding.code == "entry-hidden" and finding.target in alone:
            yield replace(finding, severity="warning")
        else:
            yield finding


def _without_index(scene: Scene) -> Iterator[Finding]:
    stray = scene.snapshot.strays.get(INDEX_NAME)
    if stray is not None and stray.kind in _NO_FILES:
        what = "a symlink to nothing" if stray.kind == "broken-link" else "not a regular file"
        yield found(
            scene.directory,
            "index-unreadable",
            f"is {what}: ZCode has no index",
            file=INDEX_NAME,
            hint="put a regular file in its place",
        )
        return
    facts = scene.snapshot.facts
    count = len(facts) - len(scene.names.exempt)
    if not count or any(nowhere in scene.snapshot.strays for nowhere in NOWHERE):
        return
    near = [file for file in scene.files if folded(file) == folded(INDEX_NAME)]
    how_many = "is 1 fact" if count == 1 else f"are {count} facts"
    yield found(
        scene.directory,
        "index-missing",
        f"there {how_many} but no {INDEX_NAME}: the model sees none of them",
        hint=f"rename {shown(near[0])} to {INDEX_NAME}"
        if len(near) == 1
        else f"write {INDEX_NAME} with a line for each fact: - [name](file.md) — description",
        fixable=not near and any(_indexable(scene, fact) for fact in facts.values()),
    )


@lru_cache(maxsize=1024)
def _from_remarks(
    directory: str, file: str, remarks: tuple[Remark, ...], writable: bool
) -> tuple[Finding, ...]:
    return tuple(
        found(
            directory,
            remark.code,
            remark.message,
            file=file,
            target=_plain_target(remark),
            line=remark.line,
            hint=remark.hint,
            fixable=writable,
            key_target=remark.target,
        )
        for remark in remarks
        if remark.code in RULES
    )


def _plain_target(remark: Remark) -> str | None:
    if remark.code in _LINE_CODES:
        return None
    if remark.code == "entry-duplicate" and remark.target is not None:
        return remark.target.rpartition("#")[0] or remark.target
    return remark.target


# -- entries against what is there ---------------------------------------------------------------------------


def entry_findings(scene: Scene) -> Iterator[Finding]:
    """Compare each entry that the model sees with the file that it names."""
    facts = scene.snapshot.facts
    for target, entry in scene.entries.items():
        fact = facts.get(target)
        if fact is None:
            place = scene.place(target)
            if place is None:
                yield from _dangling(scene, target, entry)
                continue
            if place != target and nfc(place) != nfc(target) and folded(place) == folded(target):
                yield _other_case(scene, target, entry, place)
            fact = facts.get(place)
        if fact is None or not entry.hook or not fact.description:
            continue
        if not share_a_word(entry.hook, fact.description):
            yield _drift(scene, target, entry)


def _dangling(scene: Scene, target: str, entry: Entry) -> Iterator[Finding]:
    if leaves(target) or scene.unknowable(target):
        return
    near = near_files(scene, target)
    if not near:
        hint = "take the entry out, or bring the file back"
    elif len(near) == 1:
        hint = f"{shown(near[0])} {_how_near(target, near[0])}: point the entry there"
    else:
        hint = f"several files come near: {listed(near, 5)}"
    yield found(
        scene.directory,
        "entry-dangling",
        f"the entry's target {shown(target)} does not exist",
        file=_index_file(scene),
        target=target,
        line=entry.line,
        hint=hint,
        fixable=len(near) == 1 and scene.index_writable,
    )


def near_files(scene: Scene, target: str) -> tuple[str, ...]:
    """Give the files that a target may mean; what lies under a dot-directory was put away, not moved."""
    facts, strays = scene.snapshot.facts, scene.snapshot.strays
    return tuple(
        file
        for file in scene.places().by_near_base.get(near_base(target), ())
        if hidden_place(file) is None
        and (file in facts or (file in strays and strays[file].kind == "other-file"))
    )


def _how_near(target: str, file: str) -> str:
    if nfc(target) == nfc(file):
        return "differs in Unicode form only"
    if folded(target) == folded(file):
        return "differs in case only"
    if folded(target).replace("-", "_") == folded(file).replace("-", "_"):
        return "differs in `-` and `_` only"
    return "lies in another folder"


def _other_case(scene: Scene, target: str, entry: Entry, place: str) -> Finding:
    return found(
        scene.directory,
        "entry-case",
        f"the entry's target {shown(target)} is {shown(place)} on disk: other systems tell them apart",
        file=_index_file(scene),
        target=target,
        line=entry.line,
        hint=f"spell it {shown(place)}",
        fixable=scene.index_writable,
    )


def _drift(scene: Scene, target: str, entry: Entry) -> Finding:
    return found(
        scene.directory,
        "entry-drift",
        f"the entry for {shown(target)} and that fact's description share no word",
        file=_index_file(scene),
        target=target,
        line=entry.line,
        hint="the fact may have moved on: bring the entry up to date",
        fixable=scene.index_writable,
    )


# -- facts that nothing reaches ------------------------------------------------------------------------------


def unindexed_findings(scene: Scene) -> Iterator[Finding]:
    """Tell each fact that no entry and no hub file reaches."""
    index = scene.snapshot.index
    if index is None or not scene.index_read:
        return
    missed = _unreached(scene)
    if not missed:
        return
    by_hidden = _places_of(scene, scene.hidden)
    full = index.lines >= scene.caps.lines
    meant = _meant_by(scene)
    for file in missed:
        if file in by_hidden:
            continue
        fact = scene.snapshot.facts[file]
        yield found(
            scene.directory,
            "fact-unindexed",
            f"no entry of {index.file} reaches it: the model does not know of it",
            file=file,
            hint=_how_to_index(scene, fact, full=full, meant=meant.get(file)),
            fixable=scene.index_writable and not full and _indexable(scene, fact),
        )


def _how_to_index(scene: Scene, fact: Fact, *, full: bool, meant: Entry | None) -> str:
    if fact.file in scene.names.conflict_copies:
        return "it is a conflict copy: settle that first"
    if meant is not None:
        return f"the entry in line {meant.line} seems to mean it: {shown(meant.target)}"
    if full:
        most = scene.caps.lines
        return f"the index is full at {most} lines: take an entry out first, or link it from a hub file"
    if not fact.file.isprintable():
        return "give it a name that an entry can hold, then add the entry"
    return f"add a line: - [title]({fact.file.translate(_QUOTED)}) — description"


def why_not_indexable(scene: Scene, fact: Fact) -> str | None:
    """Tell why a repair may not write an entry for a fact; None: it may."""
    if fact.malformed:
        return "its front matter cannot be read, so there is nothing to write into an entry"
    if fact.file in scene.names.conflict_copies:
        return "it is a conflict copy: settle that first"
    if fact.file in scene.names.exempt:
        return "it lies under a dot-directory"
    return None if fact.file.isprintable() else "its name is none that an entry can hold"


def _indexable(scene: Scene, fact: Fact) -> bool:
    return why_not_indexable(scene, fact) is None


def indexed(snapshot: Snapshot) -> frozenset[str]:
    """Give the files that the index reaches, by an entry that the model sees or through a hub file."""
    return _reached(set_scene(snapshot, Caps(0, 0), 0))  # neither caps nor time are asked for


def _reached(scene: Scene) -> frozenset[str]:
    """Give all facts that an entry reaches, or a hub file: an indexed `.md` whose own links reach them.

    Entries that ZCode cuts off or swallows count: they are written, and their loss is a finding of its own.
    """
    index = scene.snapshot.index
    direct = _places_of(scene, scene.entries)
    if index is not None and (index.swallowed or index.beyond):
        direct |= _places_of(scene, (*index.swallowed, *index.beyond))
    facts = scene.snapshot.facts
    through = set(direct)
    for file in direct:
        fact = facts.get(file)
        if fact is not None and fact.references:
            through |= _places_of(scene, fact.references)
    return frozenset(through)


def _places_of(scene: Scene, targets: Iterable[str]) -> set[str]:
    facts = scene.snapshot.facts
    return {
        place
        for target in targets
        if (place := target if target in facts else scene.place(target)) is not None
    }


def _unreached(scene: Scene) -> list[str]:
    return sorted(scene.snapshot.facts.keys() - _reached(scene) - scene.names.exempt)


def _reached_by_hidden_alone(scene: Scene) -> frozenset[str]:
    """Give the targets of hidden entries whose fact nothing else reaches."""
    if not scene.index_read:
        return frozenset()
    missed = frozenset(_unreached(scene))
    return frozenset(target for target in scene.hidden if scene.place(target) in missed)


def _meant_by(scene: Scene) -> dict[str, Entry]:
    """Map each fact to the dangling entry that can mean no other."""
    meant: dict[str, Entry] = {}
    for target, entry in scene.entries.items():
        if scene.place(target) is None and not leaves(target):
            near = near_files(scene, target)
            if len(near) == 1:
                meant.setdefault(near[0], entry)
    return meant


def _index_file(scene: Scene) -> str:
    return scene.snapshot.index.file if scene.snapshot.index else INDEX_NAME
