"""The way through watchdog's observer, which macOS and Windows take: run here with this system's observer."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.portable import respell

# watchdog's own observer on Linux, which only these tests use, warns in its thread when a directory is found by its
# event and by its walk at once; it goes on with one of the two.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


@pytest.mark.parametrize(
    ("path", "base", "real", "separator", "said"),
    [
        ("/var/z/p/a.md", "/var/z", "/private/var/z", "/", "/var/z/p/a.md"),
        ("/private/var/z/p/a.md", "/var/z", "/private/var/z", "/", "/var/z/p/a.md"),
        ("/private/var/z", "/var/z", "/private/var/z", "/", "/var/z"),
        ("/private/var/zoo/a", "/var/z", "/private/var/z", "/", "/private/var/zoo/a"),
        ("/u/Mu\u0308ller/z/a.md", "/u/M\u00fcller/z", "/u/M\u00fcller/z", "/", "/u/M\u00fcller/z/a.md"),
        ("/a/b", "/", "/", "/", "/a/b"),
        ("C:\\z\\p\\a.md", "C:\\z", "C:\\z", "\\", "C:\\z\\p\\a.md"),
    ],
)
def test_paths_are_told_as_the_base_spells_them(path, base, real, separator, said):
    """The real path of a link, and decomposed letters, are the same place."""
    assert respell(path, base, real, separator) == said


def _memory_of(home, project="p"):
    memory = home / "projects" / project / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    return memory


def test_saves_deletions_and_directories_are_told(tmp_path, open_river):
    """Every event means that the path is dirty; what lies beside memory does not count."""
    memory = _memory_of(tmp_path)
    (memory / "old.md").write_text("x")

    async def main():
        async with open_river(tmp_path, mode="observer") as river:
            assert river.watch.state()[0].kind == "observer"
            (memory / "a.md.tmp").write_text("x")
            (memory / "a.md.tmp").rename(memory / "a.md")
            await river.until(lambda: river.count(memory / "a.md"))
            (memory / "old.md").unlink()
            await river.until(lambda: river.count(memory / "old.md"))
            (memory.parent / "session.md").write_text("x")
            (memory / "sub").mkdir()
            await river.until(lambda: river.wholes(memory))
            (memory / "sub" / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "sub" / "b.md"))
            _memory_of(tmp_path, "q")
            await river.until(lambda: river.unsure("directories") or river.wholes(_memory_of(tmp_path, "q")))
            assert "session.md" not in river.names()
            assert await river.watch.alive()

    asyncio.run(main())


def test_a_flush_asks_for_a_scan_since_these_events_have_no_order(tmp_path, open_river):
    """Only a scan can tell that everything before the call was seen."""
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, mode="observer") as river:
            await river.flushed()
            assert river.unsure("flush") == 1

    asyncio.run(main())


def test_a_base_that_is_missing_and_one_that_is_made_again_are_watched(tmp_path, open_river):
    """The nearest directory that exists is watched for it."""
    home = tmp_path / "u"
    base = home / ".zcode" / "cli" / "projects"
    home.mkdir()

    async def main():
        async with open_river(tmp_path, open_river.tree_of(base), mode="observer") as river:
            (base / "p" / "memory").mkdir(parents=True)
            await river.until(lambda: river.unsure("base-added"))
            (base / "p" / "memory" / "a.md").write_text("x")
            await river.until(
                lambda: river.count(base / "p" / "memory" / "a.md") or river.unsure("base-added") > 1
            )
            seen = river.unsure("base-added")
            shutil.rmtree(base)
            (base / "p" / "memory").mkdir(parents=True)
            await river.until(lambda: river.unsure("base-added") > seen)
            again = river.unsure("base-added")
            (base / "p" / "memory" / "b.md").write_text("x")
            await river.until(
                lambda: river.count(base / "p" / "memory" / "b.md") or river.unsure("base-added") > again
            )

    asyncio.run(main())


def test_two_trees_below_one_missing_parent_share_its_watch(tmp_path, open_river):
    """Giving up one tree does not blind the other."""
    one, two = tmp_path / "u" / "one", Tree("own", str(tmp_path / "u" / "two"), ())
    (tmp_path / "u").mkdir()

    async def main():
        async with open_river(tmp_path, open_river.tree_of(one), two, mode="observer") as river:
            river.watch.set_trees([two])
            (tmp_path / "u" / "two").mkdir()
            await river.until(lambda: river.unsure("base-added"))
            (tmp_path / "u" / "two" / "a.md").write_text("x")
            # A base that was just found may be found once more by its own event: then it is scanned once more.
            await river.until(
                lambda: river.count(tmp_path / "u" / "two" / "a.md") or river.unsure("base-added") > 1
            )

    asyncio.run(main())


def test_a_base_that_is_taken_away_is_told(tmp_path, open_river):
    """Renamed away: it is gone from where it was, and a new one in its place is watched."""
    base = tmp_path / "projects"
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, mode="observer") as river:
            base.rename(tmp_path / "away")
            await river.until(lambda: river.unsure("base-removed"))
            memory = _memory_of(tmp_path, "r")
            await river.until(lambda: river.unsure("base-added"))
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))

    asyncio.run(main())
