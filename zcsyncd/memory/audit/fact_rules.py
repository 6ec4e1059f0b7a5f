"""The rules on facts, and on whatever else lies in a memory directory. Pure.

Rule 1: a finding's text never quotes a line of a fact's body.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from zcsyncd.memory.audit.finding import Finding, listed, shown
from zcsyncd.memory.audit.names import ENDING, INDEX_NAME, hidden_place, nfc
from zcsyncd.memory.audit.rules import RULES, found
from zcsyncd.memory.audit.scene import Scene
from zcsyncd.memory.fact import FILE_NAME, Remark
from zcsyncd.memory.recall import MANIFEST_FACTS, recalled
from zcsyncd.memory.revision import mtime_ms
from zcsyncd.memory.snapshot import Stray

TEMP_AGE_MS = 60_000
"""A writer needs milliseconds for a temporary file: one this old has lost its writer."""
SHOWN_NAME_CHARS = 200
"""A name may be as long as a file; a finding has to fit a line of the wire."""
_TEMP_NAME = re.compile(r"\.tmp\.\d+\.[0-9a-f]{12}$")


def fact_findings(scene: Scene) -> Iterator[Finding]:
    """Tell what each fact shows by itself."""
    for fact in scene.snapshot.facts.values():
        if fact.remarks:
            writable = fact.encoding == "utf-8" and not fact.symlink
            yield from _from_remarks(scene.directory, fact.file, fact.remarks, writable)
        if fact.symlink:
            yield _symlink(scene, fact.file)


@lru_cache(maxsize=4096)
def _from_remarks(
    directory: str, file: str, remarks: tuple[Remark, ...], writable: bool
) -> tuple[Finding, ...]:
    # A file may begin as UTF-8 and go on as something else: writes refuse that too.
    writable = writable and all(remark.code != "fact-encoding" for remark in remarks)
    return tuple(
        found(
            directory,
            remark.code,
            remark.message,
            file=file,
            target=remark.target,
            line=remark.line,
            hint=remark.hint,
            fixable=writable and remark.target != FILE_NAME,  # renaming is no mending of text
        )
        for remark in remarks
        if remark.code in RULES
    )


def _symlink(scene: Scene, file: str) -> Finding:
    return found(
        scene.directory,
        "symlink",
        "is a symlink: ZCode's memory page hides it, and writes refuse it",
        file=file,
        hint="put the file itself here if it is to be edited",
    )


# -- facts beside one another --------------------------------------------------------------------------------


def name_findings(scene: Scene) -> Iterator[Finding]:
    """Tell facts that share a name: all but the first, so that a new twin leaves the others' keys alone."""
    first: dict[str, str] = {}
    twins: defaultdict[str, list[str]] = defaultdict(list)
    for file, fact in scene.snapshot.facts.items():
        name = fact.name
        if name:
            other = first.setdefault(name, file)
            if other != file and not name.isspace():
                twins[name].append(file)
    for name, files in twins.items():
        # What was put away under a dot-directory comes last: the copy is told, not the fact.
        every = sorted((first[name], *files), key=lambda file: (file in scene.names.exempt, file))
        for file in every[1:]:
            yield found(
                scene.directory,
                "name-duplicate",
                f"its name {shown(name)} is also that of {shown(every[0])}: reading by that name is ambiguous",
                file=file,
                target=name[:SHOWN_NAME_CHARS],
                key_target=name,
                hint="rename one of them, or read it by its file name",
            )


def link_findings(scene: Scene) -> Iterator[Finding]:
    """Tell `[[links]]` that no fact answers to."""
    linking = [fact for fact in scene.snapshot.facts.values() if fact.links]
    if not linking:
        return
    answering = _answering(scene.files, tuple(fact.name for fact in scene.snapshot.facts.values()))
    for fact in linking:
        for link in fact.links:
            if link not in answering and _link_folded(link.removesuffix(ENDING)) not in answering:
                yield found(
                    scene.directory,
                    "link-dangling",
                    f"no fact answers to the link {shown(link)}",
                    file=fact.file,
                    target=link,
                    hint="write that fact, or mend the link",
                )


@lru_cache(maxsize=128)
def _answering(files: tuple[str, ...], names: tuple[str | None, ...]) -> frozenset[str]:
    """Give what links may say, as written and with `-` and `_` folded: names, paths and stems."""
    said = {name for name in names if name}
    for file in files:
        stem = file.removesuffix(ENDING)
        said |= {stem, stem.rpartition("/")[2]}
    said.add(INDEX_NAME.removesuffix(ENDING))
    return frozenset(said | {_link_folded(name) for name in said})


def _link_folded(name: str) -> str:
    return nfc(name).replace("-", "_")


def recall_findings(scene: Scene) -> Iterator[Finding]:
    """Tell the facts that ZCode's recall does not look at."""
    facts = scene.snapshot.facts
    if len(facts) <= MANIFEST_FACTS:
        return
    seen = recalled(facts.values())
    missed = sorted(file for file, fact in facts.items() if fact.listed and file not in seen)
    if missed:
        yield found(
            scene.directory,
            "fact-not-recalled",
            f"recall looks at the newest {MANIFEST_FACTS} of {len(seen) + len(missed)} facts; "
            f"it does not see {listed(missed)}",
            hint=f"merge or remove facts until {MANIFEST_FACTS} are left",
        )


def hidden_findings(scene: Scene) -> Iterator[Finding]:
    """Tell each dot-directory whose facts recall lists."""
    facts = scene.snapshot.facts
    holds: defaultdict[str, int] = defaultdict(int)
    for file in scene.names.exempt:
        place = hidden_place(file)
        if place is not None and facts[file].listed:
            holds[place] += 1
    for place, count in holds.items():
        yield found(
            scene.directory,
            "hidden-dir-recalled",
            f"recall still lists {'the fact' if count == 1 else f'the {count} facts'} in this dot-directory",
            file=place,
            hint="keep what is put away outside of the memory directory",
        )


# -- what is neither fact nor index --------------------------------------------------------------------------


def stray_findings(scene: Scene) -> Iterator[Finding]:
    """Tell what lies in the directory and is in the way."""
    for stray in scene.snapshot.strays.values():
        if stray.kind == "other-file":
            continue
        finding = _of_stray(scene, stray)
        if finding is not None:
            yield finding


def _of_stray(scene: Scene, stray: Stray) -> Finding | None:
    if stray.kind == "temp":
        return _leftover(scene, stray)
    if stray.kind == "symlinked-directory":
        return _symlink(scene, stray.file) if stray.file != INDEX_NAME else None
    if stray.kind == "unreadable-directory":
        return found(
            scene.directory,
            "dir-unreadable",
            "the directory cannot be read: ZCode then lists no fact at all",
            file=stray.file,
            hint="give yourself the permission to read it, or move it out of the memory directory",
        )
    if stray.kind == "special" and stray.file != INDEX_NAME:
        return found(
            scene.directory,
            "fact-unreadable",
            "is called like a fact but is a directory, a FIFO or a device",
            file=stray.file,
            hint="rename it",
        )
    if stray.kind == "broken-link" and stray.file != INDEX_NAME:
        return found(
            scene.directory,
            "fact-unreadable",
            "is a symlink to nothing",
            file=stray.file,
            hint="remove it, or bring back what it points to",
        )
    return None


def _leftover(scene: Scene, stray: Stray) -> Finding | None:
    age_ms = scene.now_ms - mtime_ms(stray.mtime_ns)
    if age_ms <= TEMP_AGE_MS or not _TEMP_NAME.search(stray.file):
        return None
    return found(
        scene.directory,
        "leftover-temp",
        "a writer died before it had put this in the place of the file",
        file=stray.file,
        hint="compare it with the file that it was to replace, then remove it",
    )
