"""Which memory directory belongs to a working directory: the three steps, over what exists. Pure.

1. The directory that is configured for it. 2. The computed one, if it exists. 3. If it does not: the only directory
with the same slug, with a warning. Else there is no memory yet, and a write makes the computed one.

Rule 1: a slug is compared as a whole, never as a prefix: `foo` is not `foo-bar`.
Rule 2: the slug `project` says nothing about a project, so step 3 never follows it, it only tells.
Rule 3: with several roots an existing directory wins over a missing one, the first root (the CLI's own) over the
others; a write makes the directory in the first root. Step 3 counts over all roots: two projects of one name under
two roots are two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from zcsyncd.layouts.layout import Root
from zcsyncd.layouts.nodepath import HERE, Platform, join, separator
from zcsyncd.layouts.zcode import MEMORY, NO_SLUG, directory_name, split_name, tree

Source = Literal["config", "computed", "only-match", "none"]

_NAMED_AT_MOST = 5
"""Candidates that one warning names: a person reads no more."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `dirs.resolve` answers."""

    dir: str | None
    """None exactly when `source` is `none`."""
    computed_dir: str
    """The directory that ZCode's CLI would make, existing or not."""
    source: Source
    others: tuple[str, ...] = ()
    """Directories of the same working directory in other layouts."""
    warnings: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, object]:
        """Give the result of `dirs.resolve` (docs/protocol.md)."""
        return {
            "dir": self.dir,
            "computedDir": self.computed_dir,
            "source": self.source,
            "others": list(self.others),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class _Place:
    root: int
    """Position of its root."""
    name: str
    path: str


def resolve(
    cwd: str,
    *,
    configured: str | None = None,
    roots: Sequence[Root],
    existing: Collection[str],
    platform: Platform = HERE,
    others: Sequence[str] = (),
) -> Resolution:
    """Find the memory directory of a working directory.

    `configured` is absolute. `roots` are ZCode's, the CLI's own first, at least one. `existing` are the memory
    directories that exist, spelled as discovered below their roots; others among them are passed over.

    Raises: InvalidParams, when `cwd` is not absolute.
    """
    slug, _, name = directory_name(cwd, platform)
    bases = [tree(root.path, platform).base for root in roots]
    computed = [join(platform, base, name, MEMORY) for base in bases]
    own = computed[0]
    if configured is not None:
        return Resolution(configured, own, "config", tuple(others))
    found = [place for path in existing if (place := _place(path, bases, platform)) is not None]
    present = [path for path in computed if path in existing]
    if present:
        chosen: str | None = present[0]
        source: Source = "computed"
        warnings = _about_roots(present, own)
    else:
        chosen, warnings = _only_match(cwd, slug, found)
        source = "only-match" if chosen is not None else "none"
    if own not in existing:
        warnings += _about_prefix(slug, chosen, own, found)
    return Resolution(chosen, own, source, tuple(others), tuple(warnings))


def _place(path: str, bases: Sequence[str], platform: Platform) -> _Place | None:
    """Tell which root a memory directory lies below, and its project directory's name; None: below none."""
    sign = separator(platform)
    ending = sign + MEMORY
    for root, base in enumerate(bases):
        name = path[len(base) + 1 : -len(ending)]
        if path == f"{base}{sign}{name}{ending}" and name and sign not in name:
            return _Place(root, name, path)
    return None


def _about_roots(present: Sequence[str], own: str) -> list[str]:
    warnings = []
    if present[0] != own:
        warnings.append(
            f"this project's memory is at {present[0]}, not below the CLI's own root, where {own} would be made"
        )
    warnings += [
        f"this project has memory under two roots: {present[0]} is taken, {other} is not"
        for other in present[1:]
    ]
    return warnings


def _only_match(cwd: str, slug: str, found: Sequence[_Place]) -> tuple[str | None, list[str]]:
    """Take step 3; what it cannot take it tells."""
    by_name: dict[str, list[_Place]] = {}
    for place in found:
        parts = split_name(place.name)
        if parts is not None and parts[0] == slug:
            by_name.setdefault(place.name, []).append(place)
    if not by_name:
        return None, []
    if slug == NO_SLUG:
        told = (
            f"the name of {cwd} has no letter or digit that a directory name keeps, so no {NO_SLUG}-… directory"
            f" is taken for it; there {_are(len(by_name))}: {_named(by_name)}"
        )
        return None, [told]
    if len(by_name) > 1:
        told = (
            f"several directories are called {slug}-…, none of them made for {cwd}, so none is taken:"
            f" {_named(by_name)}"
        )
        return None, [told]
    (places,) = by_name.values()
    chosen = min(places, key=lambda place: place.root).path
    return chosen, [f"{chosen} was made for another working directory; taken as the only one called {slug}-…"]


def _are(count: int) -> str:
    return "is one" if count == 1 else f"are {count}"


def _named(names: Collection[str]) -> str:
    ordered = sorted(names)
    shown = ", ".join(ordered[:_NAMED_AT_MOST])
    left = len(ordered) - _NAMED_AT_MOST
    return shown if left <= 0 else f"{shown} and {left} more"


def _about_prefix(slug: str, chosen: str | None, own: str, found: Sequence[_Place]) -> list[str]:
    """Tell where pi-zcode-memory, which compares the beginning of the name, would go elsewhere."""
    prefixed = sorted(place.path for place in found if place.root == 0 and place.name.startswith(f"{slug}-"))
    ours = chosen or f"{own} (not made yet)"
    if len(prefixed) == 1 and prefixed[0] != chosen:
        return [f"pi-zcode-memory would take {prefixed[0]}; here it is {ours}"]
    if len(prefixed) > 1 and chosen in prefixed:
        return [f"pi-zcode-memory sees {len(prefixed)} directories and would make {own}; here it is {ours}"]
    return []
