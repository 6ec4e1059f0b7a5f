"""The doctor on the roots: where memory is looked for, and whether changes there can be told. Door: the file system.

Rule 1: memory directories are counted, never named; nothing in them is opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from zcsyncd.cli.answer import Answer, number_of, object_of, rows_of, text_of
from zcsyncd.cli.doctor_case import Case
from zcsyncd.cli.doctor_rows import Row, error, note, ok, warning
from zcsyncd.cli.mounts import is_layered, is_silent, kind_of
from zcsyncd.cli.render import counted
from zcsyncd.layouts.layout import Tree
from zcsyncd.layouts.registry import LAYOUTS
from zcsyncd.settings import existing_directories, known_roots

MOUNTS = "/proc/self/mountinfo"
_POLL = "`watch.mode: poll` in the configuration looks itself; see `zcsyncd status`"


def roots(case: Case) -> Iterator[Row]:
    """Tell of each place where memory is looked for from here, and of those where the daemon looks besides."""
    trees = _trees(case)
    daemon = object_of(case.status or {}, "daemon")
    theirs = {(text_of(row, "layout"), str(row.get("base"))): row for row in rows_of(daemon, "trees")}
    if not trees:
        yield warning(
            "roots", "no layout is switched on", "no memory is looked for", "see `zcsyncd status --config`"
        )
    for tree in trees:
        yield from _root(case, tree, theirs.pop((tree.layout, tree.base), None), runs=case.status is not None)
    for (layout, base), row in theirs.items():
        yield note(
            "roots",
            f"{layout} {case.place(base)} is watched by the daemon, too ({_how(row)})",
            "a project or the daemon's own environment names it",
        )


def _trees(case: Case) -> list[Tree]:
    layouts = {layout.name: layout for layout in LAYOUTS}
    return [
        layouts[root.layout].tree(root.path)
        for root in known_roots(case.env, case.settings).roots
        if root.layout in layouts
    ]


def _root(case: Case, tree: Tree, row: Answer | None, *, runs: bool) -> Iterator[Row]:
    name = f"{tree.layout} {case.place(tree.base)}"
    kind = _file_system(tree.base)
    data: dict[str, object] = {
        "layout": tree.layout,
        "fileSystem": kind,
        "watched": row and text_of(row, "kind"),
    }
    if not os.path.lexists(tree.base):
        yield note(
            "roots", f"{name} is not there yet", "once it is, it is looked at", None, exists=False, **data
        )
    elif not os.path.isdir(tree.base):
        yield error(
            "roots", f"{name} is no directory", "no memory can be there", "move it away", exists=True, **data
        )
        return
    elif (reason := _unreadable(tree.base)) is not None:
        yield error(
            "roots", f"{name} cannot be read: {reason}", None, "see to its permissions", exists=True, **data
        )
        return
    else:
        yield from _content(name, tree, kind, data)
    if kind is not None:
        yield from _silent(name, kind, row)
    if runs and row is None:
        yield warning(
            "roots",
            f"{name} is not watched by the daemon",
            "its environment or configuration is another one than here",
            "`zcsyncd service install` has the service take over this shell's, else start the daemon anew from here",
        )
    elif row is not None:
        yield from _watched(case, name, row)


def _content(name: str, tree: Tree, kind: str | None, data: dict[str, object]) -> Iterator[Row]:
    found = existing_directories([tree])
    closed = [path for path in found if not os.access(path, os.R_OK | os.X_OK)]
    there = f"{name}: {counted(len(found), 'memory directory', 'memory directories')}" + (
        f", {kind}" if kind else ""
    )
    yield ok("roots", there, exists=True, directories=len(found), **data)
    if closed:
        yield warning(
            "roots",
            f"{name}: {counted(len(closed), 'memory directory', 'memory directories')} cannot be read",
            "what was known of them is kept, changes are not seen",
            "see to their permissions",
            unreadable=len(closed),
        )


def _silent(name: str, kind: str, row: Answer | None) -> Iterator[Row]:
    is_polled = row is not None and row.get("kind") == "polling"
    if is_silent(kind) and not is_polled:
        yield warning(
            "roots",
            f"{name} lies on {kind}",
            "the system takes a watch there and may never tell; a scan finds changes later, and then it is polled",
            _POLL,
        )
    elif is_silent(kind):
        yield ok("roots", f"{name} lies on {kind}, and is polled")
    elif is_layered(kind):
        yield note("roots", f"{name} lies on {kind}", "what is changed in a layer below it is not told")


def _watched(case: Case, name: str, row: Answer) -> Iterator[Row]:
    words = [_how(row)]
    if row.get("lastEventAt") is not None:
        words.append(f"last event {text_of(row, 'lastEventAt')}")
    if row.get("lastScanAt") is not None:
        words.append(f"last scan {text_of(row, 'lastScanAt')}")
    data = {
        "kind": text_of(row, "kind"),
        "lastEventAt": row.get("lastEventAt"),
        "lastScanAt": row.get("lastScanAt"),
        "drift": row.get("drift"),
    }
    yield ok("roots", f"{name}: {', '.join(words)}", **data)
    if row.get("lastEventAt") is None and row.get("exists") is not False:
        yield note(
            "roots",
            f"{name} has never given an event",
            "nothing changed there since the start, or it is silent",
        )
    if number_of(row, "drift"):
        yield warning(
            "roots",
            f"{name}: {counted(number_of(row, 'drift'), 'change')} found by a scan only",
            "events of it were lost, or never came",
            _POLL,
        )
    if row.get("reason") is not None and row.get("kind") == "polling":
        yield note(
            "roots", f"{name} is polled, so changes are told later", case.veil.said(text_of(row, "reason"))
        )


def _how(row: Answer) -> str:
    kind = text_of(row, "kind", "not watched")
    return (
        "polled" if kind == "polling" else f"{kind}, {counted(number_of(row, 'watches'), 'watch', 'watches')}"
    )


def _unreadable(path: str) -> str | None:
    try:
        with os.scandir(path) as entries:
            next(entries, None)
    except OSError as failed:
        return failed.strerror or "no reason is told"
    return None


def _file_system(path: str) -> str | None:
    """Give the kind of file system that holds a path, or the nearest directory above it that exists."""
    if sys.platform != "linux":
        return None
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return kind_of(os.path.realpath(path), file)
    except OSError:
        return None
