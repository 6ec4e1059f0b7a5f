"""One audit's look at a snapshot: what several rules need of it, gathered once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit.names import INDEX_NAME, Names, Places, folded, nfc, read_names, read_places
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot

UNNAMED_KINDS = frozenset({"temp", "lock"})
"""Strays that come and go within a write: nobody names or links them."""
CLOSED_KINDS = frozenset({"unreadable-directory", "symlinked-directory"})
"""What lies below these is not known, so nothing there is called missing."""
NOWHERE = ("", ".")
"""Targets that mean the memory directory itself, and how a stray of it would be called."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A snapshot, and what follows from it for more than one rule."""

    snapshot: Snapshot
    caps: Caps
    now_ms: int
    files: tuple[str, ...]
    """The facts' names."""
    others: tuple[str, ...]
    """The index's and the strays' names."""
    names: Names
    entries: Mapping[str, Entry]
    """The first entry that the model sees, by target."""
    hidden: Mapping[str, Entry]
    """The first hidden entry, by target."""
    index_read: bool
    """The index was read and decoded: what it does not say is not there."""
    index_writable: bool
    """Our writes take it: it is UTF-8."""

    @property
    def directory(self) -> str:
        """The memory directory."""
        return self.snapshot.directory

    def place(self, target: str) -> str | None:
        """Tell the file or directory that a target reaches, as this file system reaches it; None: none."""
        if target in self.snapshot.facts:
            return target
        places = self.places()
        if target in places.exact:
            return target
        if target in places.by_percent:
            return places.by_percent[target]
        if self.snapshot.folds_case:
            # File systems that fold case: macOS' folds the Unicode form too, Windows keeps NFC by custom.
            return (places.by_form.get(nfc(target)) or places.by_case.get(folded(target)) or (None,))[0]
        return None

    def places(self) -> Places:
        """Give all names, ordered for finding near ones."""
        return read_places(self.files, self.others)

    def unknowable(self, target: str) -> bool:
        """Tell whether it cannot be known if the target exists: it lies where nobody looked."""
        if target in NOWHERE:
            return True
        folder, _, name = target.rpartition("/")
        if name == INDEX_NAME and folder:
            return True  # a nested index is neither fact nor index: a snapshot does not hold it
        strays = self.snapshot.strays
        while folder:
            stray = strays.get(folder)
            if stray is not None and stray.kind in CLOSED_KINDS:
                return True
            folder = folder.rpartition("/")[0]
        return any(nowhere in strays for nowhere in NOWHERE)


def set_scene(snapshot: Snapshot, caps: Caps, now_ms: int) -> Scene:
    """Gather once what the rules share."""
    index = snapshot.index
    files = tuple(snapshot.facts)
    others = tuple(_other_names(snapshot))
    entries: dict[str, Entry] = {}
    hidden: dict[str, Entry] = {}
    for entry in index.entries if index else ():
        (hidden if entry.hidden else entries).setdefault(entry.target, entry)
    read = index is not None and index.content_hash is not None and index.encoding is not None
    return Scene(
        snapshot=snapshot,
        caps=caps,
        now_ms=now_ms,
        files=files,
        others=others,
        names=read_names(snapshot.directory, files, others),
        entries=entries,
        hidden=hidden,
        index_read=read,
        index_writable=index is None or _writable(index),
    )


def _writable(index: Index) -> bool:
    # A file may begin as UTF-8 and go on as something else: writes refuse that too.
    return index.encoding == "utf-8" and all(remark.code != "index-encoding" for remark in index.remarks)


def _other_names(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.index is not None:
        yield snapshot.index.file
    for file, stray in snapshot.strays.items():
        if stray.kind not in UNNAMED_KINDS and file not in NOWHERE and file not in snapshot.facts:
            yield file
