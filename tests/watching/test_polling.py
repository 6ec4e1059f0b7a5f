"""Polling: what differs between two pictures, and a tree that is only polled."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.polling import Drift, Picture, compare, take_picture
from zcsyncd.watching.reports import Names
from zcsyncd.watching.settle import Degraded

TREE = Tree("test", "/b", (str.isalpha, str.isalpha))
FILE, LATER, DIRECTORY = (1, 1, 1, 1), (2, 1, 1, 1), (7,)


@pytest.mark.parametrize(
    ("before", "after", "drift"),
    [
        (None, {}, Drift(TREE, first=True)),
        (Picture(None), None, Drift(TREE, first=False)),
        (Picture(None), {}, Drift(TREE, first=False, base="base-added")),
        (Picture({}), None, Drift(TREE, first=False, base="base-removed")),
        (Picture({"/d": {"/d/a": FILE}}), {"/d": {"/d/a": FILE}}, Drift(TREE, first=False)),
        (
            Picture({"/d": {"/d/a": FILE}}),
            {"/d": {"/d/a": LATER}},
            Drift(TREE, first=False, paths=(("/d", "/d/a"),)),
        ),
        (Picture({"/d": {"/d/a": FILE}}), {"/d": {}}, Drift(TREE, first=False, paths=(("/d", "/d/a"),))),
        (Picture({"/d": {}}), {"/d": {"/d/a": FILE}}, Drift(TREE, first=False, paths=(("/d", "/d/a"),))),
        (Picture({"/d": {}}), {"/e": {}}, Drift(TREE, first=False, whole=("/d", "/e"))),
        (
            Picture({"/d": {}}),
            {"/d": {"/d/a": DIRECTORY}},
            Drift(TREE, first=False, paths=(("/d", "/d/a"),), whole=("/d",)),
        ),
    ],
)
def test_what_differs_is_told(before, after, drift):
    """Files by name, directories as a whole, a base by its coming or going; the first picture tells nothing."""
    assert compare(TREE, before, Picture(after)) == drift


def test_a_picture_holds_what_counts_and_nothing_else(tmp_path):
    """Names that count at any depth; links to files, not to directories; what is broken does not stop it."""
    memory = tmp_path / "p" / "memory"
    (memory / "deep" / ".hid").mkdir(parents=True)
    for name in ("a.md", "a.txt", "x.lock", "deep/.hid/b.md"):
        (memory / name).touch()
    (memory / "dangling.md").symlink_to("nowhere")
    (memory / "way").symlink_to(tmp_path)
    os.mkfifo(memory / "pipe.md")
    (tmp_path / "file").touch()
    names = Names(lambda name: name.endswith(".md"), lambda name: name.endswith(".lock"))
    tree = Tree("test", str(tmp_path), (lambda _: True, lambda name: name == "memory"))
    found = take_picture(tree, names).directories
    assert found is not None
    assert {os.path.relpath(path, memory) for path in found[str(memory)]} == {
        "a.md", "x.lock", "deep", "deep/.hid", "deep/.hid/b.md", "dangling.md", "pipe.md",
    }  # fmt: skip


def _memory_of(home, project="p"):
    memory = home / "projects" / project / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    return memory


def test_a_polled_tree_tells_what_was_asked_for(tmp_path, open_river):
    """Saves, deletions, directories, a base removed and made again; a rename has both halves in one batch."""
    memory = _memory_of(tmp_path)
    (memory / "old.md").write_text("x")

    async def main():
        async with open_river(tmp_path, mode="poll", poll_s=0.02) as river:
            assert river.watch.state()[0].kind == "polling"
            assert river.items == []
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            (memory / "old.md").rename(memory / "new.md")
            await river.until(lambda: river.count(memory / "old.md"))
            both = {str(memory / "old.md"), str(memory / "new.md")}
            assert any(both <= getattr(item, "paths", frozenset()) for item in river.items)
            other = _memory_of(tmp_path, "q")
            await river.until(lambda: river.wholes(other))
            shutil.rmtree(other)
            await river.until(lambda: river.wholes(other) == 2)
            assert await river.watch.alive()
            shutil.rmtree(tmp_path / "projects")
            await river.until(lambda: river.unsure("base-removed"))
            _memory_of(tmp_path)
            await river.until(lambda: river.unsure("base-added"))
            await river.flushed()
            assert river.unsure("flush")
            assert not any(isinstance(item, Degraded) for item in river.items)

    asyncio.run(main())


def test_a_base_whose_watches_stay_silent_is_polled_for_good(tmp_path, open_river):
    """When a scan finds what no event told, the base is polled, says so, and asks for a scan once polling lives."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, poll_s=0.02) as river:
            river.watch.distrust(str(river.base), "changes came without events")
            await river.until(lambda: river.unsure("polling"))
            assert river.items[0] == Degraded(str(river.base), "changes came without events")
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            await river.watch.rewatch()
            assert river.watch.state()[0].kind == "polling"

    asyncio.run(main())
