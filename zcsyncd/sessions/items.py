"""From what became of files and entries to what is said of each: a fact and its entry are one item. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from zcsyncd.memory.entries import Entry
from zcsyncd.memory.snapshot import Snapshot
from zcsyncd.sessions.entries import EntryKind, EntryNet
from zcsyncd.sessions.files import FileNet
from zcsyncd.sessions.merge import visible_entries
from zcsyncd.sessions.session import Session
from zcsyncd.sessions.wording import Item, ItemKind

_Key = tuple[EntryKind, str, str]
"""Kind, directory, target."""
_OF_ENTRY: dict[EntryKind, ItemKind] = {
    "added": "entry-new",
    "changed": "entry-changed",
    "removed": "entry-gone",
}


@dataclass(frozen=True, slots=True)
class Scenery:
    """What the items are told against."""

    session: Session
    snapshots: Mapping[str, Snapshot]
    main: str | None
    reaches: Callable[[str, str], bool]
    """Whether the index of a directory reaches a fact."""
    entry_dirs: Collection[str]
    """Directories whose index changed in its entries: those tell of it."""

    def place(self, directory: str) -> str | None:
        """Name a directory, if it is not the session's own."""
        return None if directory == self.main else directory

    def has_read(self, directory: str, *files: str | None) -> bool:
        """Tell whether the model has read one of these, and may still know it."""
        reads = (self.session.reads.get((directory, file)) for file in files if file)
        return any(read is not None and not read.forgotten for read in reads)


def items_of(files: Iterable[FileNet], entries: Iterable[EntryNet], scenery: Scenery) -> list[Item]:
    """Give one item for each thing that the text may name; stamps are none."""
    left: dict[_Key, EntryNet] = {(net.kind, net.directory, net.target): net for net in entries}
    visible: dict[str, Mapping[str, Entry]] = {}
    items: list[Item] = []
    for net in files:
        snapshot = scenery.snapshots.get(net.directory)
        if net.directory not in visible:
            visible[net.directory] = visible_entries(snapshot) or {}
        if not net.is_index:
            item = _of_file(net, left, visible[net.directory].get(net.file), scenery)
        elif net.kind == "deleted":
            left = {key: entry for key, entry in left.items() if key[:2] != ("removed", net.directory)}
            item = Item("index-gone", net.file, place=scenery.place(net.directory), by=net.by)
        elif net.kind != "file" and net.directory not in scenery.entry_dirs:
            item = Item("index-changed", net.file, place=scenery.place(net.directory), by=net.by)
        else:
            item = None
        if item is not None:
            items.append(item)
    return [*items, *(_of_entry(net, scenery) for net in left.values())]


def _of_file(net: FileNet, left: dict[_Key, EntryNet], entry: Entry | None, scenery: Scenery) -> Item | None:
    """Give a fact's item, and take from `left` what it says along with it."""
    directory = net.directory
    snapshot = scenery.snapshots.get(directory)
    fact = snapshot.facts.get(net.file) if snapshot else None
    described = (fact.description if fact else net.text("description")) or ""
    item = Item(
        "changed",
        net.file,
        place=scenery.place(directory),
        title=entry.title if entry else "",
        hook=(entry.hook if entry else "") or described,
        by=net.by,
        read=scenery.has_read(directory, net.file, net.from_),
    )
    if net.kind == "file":
        return None
    if net.kind == "deleted":
        removed = left.pop(("removed", directory, net.file), None)
        return replace(item, kind="gone", title=removed.title if removed else item.title, hook="")
    left.pop(("changed", directory, net.file), None)
    if net.kind == "updated":
        return item
    left.pop(("added", directory, net.file), None)
    if net.kind == "added":
        return replace(item, kind="new", entry=scenery.reaches(directory, net.file))
    left.pop(("removed", directory, net.from_ or ""), None)
    return replace(item, kind="renamed", from_=net.from_ or "", updated=net.updated)


def _of_entry(net: EntryNet, scenery: Scenery) -> Item:
    snapshot = scenery.snapshots.get(net.directory)
    return Item(
        _OF_ENTRY[net.kind],
        net.target,
        place=scenery.place(net.directory),
        title=net.title,
        hook="" if net.kind == "removed" else net.hook,
        by=net.by,
        there=snapshot is not None and (net.target in snapshot.facts or net.target in snapshot.strays),
    )
