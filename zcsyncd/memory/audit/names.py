"""What file names say by themselves: hidden places, conflict copies, names that do not travel. Pure.

Rule 1: names change seldom, contents often: what follows from names is worked out once per set of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from zcsyncd.memory.audit.finding import Finding, shown
from zcsyncd.memory.audit.rules import found

INDEX_NAME = "MEMORY.md"
ENDING = ".md"
NAME_BYTES = 255
"""The longest name that Linux's file systems take, in bytes of UTF-8."""
KEPT_DIRECTORIES = 512
"""Sets of names that are remembered: a bound on memory; a set that was forgotten is only worked out again."""

_PLAIN = re.compile(r"[a-z0-9_\-]{1,200}\.md")
"""Names that need no second look, but for the reserved ones; nearly all are so."""
_FORBIDDEN = re.compile(r'[<>:"\\|?*\x00-\x1f]')
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {device + number for device in ("com", "lpt") for number in "0123456789¹²³"}
)
_SYNCTHING = re.compile(r"\.sync-conflict-\d")
_SYNCTHING_LOOSE = re.compile(r"\.sync-conflict(?=[-.]).*(?=\.)")
_DROPBOX = re.compile(r"\([^()]*conflicted copy[^()]*\)", re.IGNORECASE)
_NUMBERED = re.compile(r" \(\d{1,3}\)(?=\.[^.]*$)")


@dataclass(frozen=True, slots=True)
class Names:
    """What one set of names says."""

    exempt: frozenset[str]
    """Facts below a dot-directory."""
    conflict_copies: frozenset[str]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """Where something lies, and what is nearly called so."""

    exact: frozenset[str]
    """Files, and the directories above them."""
    by_case: Mapping[str, tuple[str, ...]]
    by_form: Mapping[str, tuple[str, ...]]
    """By NFC."""
    by_percent: Mapping[str, str]
    """Names that hold a `%`, by what they decode to."""
    by_near_base: Mapping[str, tuple[str, ...]]
    """Files by base name, with case, Unicode form and `-`/`_` folded."""


@lru_cache(maxsize=KEPT_DIRECTORIES)
def read_names(directory: str, facts: tuple[str, ...], others: tuple[str, ...]) -> Names:
    """Judge a directory's names: `facts`, and the `others` that rules on names speak of (the index too)."""
    every = (*facts, *others)
    conflicts = dict(_conflict_copies(every))
    return Names(
        exempt=frozenset(file for file in facts if hidden_place(file) is not None),
        conflict_copies=frozenset(conflicts),
        findings=(*_told_conflicts(directory, conflicts), *_told_unsafe(directory, every)),
    )


@lru_cache(maxsize=64)
def read_places(facts: tuple[str, ...], others: tuple[str, ...]) -> Places:
    """Order a directory's names so that a target which is not among them finds its near ones."""
    files = (*facts, *others)
    exact = frozenset(_with_directories(files))
    near: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        near[near_base(file)].append(file)
    by_case: defaultdict[str, list[str]] = defaultdict(list)
    by_form: defaultdict[str, list[str]] = defaultdict(list)
    for place in sorted(exact):
        by_case[folded(place)].append(place)
        by_form[nfc(place)].append(place)
    return Places(
        exact=exact,
        by_case={key: tuple(places) for key, places in by_case.items()},
        by_form={key: tuple(places) for key, places in by_form.items()},
        by_percent={unquote(place): place for place in exact if "%" in place},
        by_near_base={key: tuple(sorted(places)) for key, places in near.items()},
    )


def nfc(name: str) -> str:
    """Compose a name (macOS keeps and some tools write the decomposed form)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def folded(name: str) -> str:
    """Fold a name as file systems do that fold case; `casefold` would take ß for ss, which none does."""
    return nfc(name).lower()


def near_base(file: str) -> str:
    """Fold the base name as far as a slip goes: case, Unicode form, `-` for `_`."""
    return folded(file.rpartition("/")[2]).replace("-", "_")


def hidden_place(file: str) -> str | None:
    """Give the outermost dot-directory that the file lies in; None outside of one."""
    if "/" not in file or (file[0] != "." and "/." not in file):
        return None
    parts = file.split("/")[:-1]
    for depth, part in enumerate(parts):
        if part.startswith("."):
            return "/".join(parts[: depth + 1])
    return None


def _with_directories(files: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for file in files:
        yield file
        place = file.rpartition("/")[0]
        while place and place not in seen:
            seen.add(place)
            yield place
            place = place.rpartition("/")[0]


# -- conflict copies -----------------------------------------------------------------------------------------


def _conflict_copies(files: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Give each conflict copy with the file that it is a copy of (which may be gone)."""
    every: frozenset[str] | None = None
    for file in files:
        if "conflict" not in file and " (" not in file:
            continue
        folder, slash, name = file.rpartition("/")
        if match := _SYNCTHING.search(name):
            yield file, folder + slash + name[: match.start()] + "." + name.rpartition(".")[2]
            continue
        if match := _DROPBOX.search(name):
            yield file, folder + slash + name[: match.start()].rstrip() + name[match.end() :]
            continue
        match = _SYNCTHING_LOOSE.search(name) or _NUMBERED.search(name)
        if match:
            # Such a name can be a person's own choice: only its twin makes it a copy.
            every = every if every is not None else frozenset(files)
            twin = folder + slash + name[: match.start()] + name[match.end() :]
            if twin in every:
                yield file, twin


def _told_conflicts(directory: str, conflicts: Mapping[str, str]) -> Iterator[Finding]:
    for file, twin in conflicts.items():
        yield found(
            directory,
            "conflict-copy",
            f"looks like a sync tool's conflict copy of {shown(twin)}",
            file=file,
            hint=f"compare the two, keep what is right in {shown(twin)}, then remove the copy",
        )


# -- names that another system cannot hold -------------------------------------------------------------------


def _told_unsafe(directory: str, files: tuple[str, ...]) -> Iterator[Finding]:
    siblings: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for place in _with_directories(files):
        folder, _, name = place.rpartition("/")
        siblings[folder, folded(name)].append(place)
    for twins in siblings.values():
        twins.sort()
        for place in twins:
            name = place.rpartition("/")[2]
            reasons = () if _PLAIN.fullmatch(name) and not _reserved(name) else tuple(unsafe_reasons(name))
            if place != twins[0]:
                reasons = (*reasons, _twin_reason(place, twins[0]))
            if reasons:
                yield found(
                    directory,
                    "name-unsafe",
                    f"the name does not travel: {'; '.join(reasons)}",
                    file=place,
                    hint="rename it, and its entry with it, before the directory is synced or moved",
                )


def _reserved(name: str) -> bool:
    return name.partition(".")[0].rstrip(" ").lower() in _RESERVED


def unsafe_reasons(name: str) -> Iterator[str]:
    """Tell why some system cannot hold a file of this name; nothing where all can."""
    if bad := _FORBIDDEN.findall(name):
        yield f"Windows allows no {', '.join(shown(character) for character in sorted(set(bad)))} in a name"
    if name[-1:] in {".", " "}:
        yield "Windows drops a dot or blank at the end of a name"
    if _reserved(name):
        yield f"{shown(name.partition('.')[0].rstrip(' '))} is a device on Windows"
    if any("\ud800" <= character <= "\udfff" for character in name):
        yield "it is not UTF-8, and macOS holds no other names"
    elif len(name.encode()) > NAME_BYTES:
        yield f"it has more than {NAME_BYTES} bytes, and Linux holds no longer names"


def _twin_reason(place: str, twin: str) -> str:
    if nfc(place) == nfc(twin):
        return f"it differs from {shown(twin)} in Unicode form only, and macOS takes both for one"
    return f"it differs from {shown(twin)} in case only, and Windows and macOS take both for one"
