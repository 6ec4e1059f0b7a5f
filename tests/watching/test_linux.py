"""The Linux watch: saves, directories, links, bases that come and go, limits. All with real files."""

from __future__ import annotations

import asyncio
import mmap
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zcsyncd.layouts.layout import Tree
from zcsyncd.watching.settle import Degraded, Settled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

UNHURRIED = {"quiet_s": 0.3, "longest_s": 5.0}
"""A quiet time that a busy machine does not break within one save."""


def _write(path: Path, text: str, mode: str = "w") -> Iterator[None]:
    with path.open(mode) as file:
        yield
        for half in (text[:2], text[2:]):
            file.write(half)
            file.flush()
            yield
        os.fsync(file.fileno())
        yield


def _in_place(path: Path) -> Iterator[None]:
    yield from _write(path, "new")


def _append(path: Path) -> Iterator[None]:
    yield from _write(path, "more", "a")


def _mapped(path: Path) -> Iterator[None]:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield
        memory[0:1] = b"N"
        yield
        memory.flush()
        yield


def _temp_and_rename(path: Path) -> Iterator[None]:
    temp = path.with_name(path.name + ".tmp.1")
    yield from _write(temp, "new")
    temp.replace(path)


def _from_elsewhere(path: Path) -> Iterator[None]:
    temp = path.parents[3] / "elsewhere"
    yield from _write(temp, "new")
    temp.replace(path)


def _backup_dance(path: Path) -> Iterator[None]:
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    yield
    yield from _write(path, "new")
    yield
    backup.unlink()


def _hard_link_swap(path: Path) -> Iterator[None]:
    temp = path.with_name("swap")
    yield from _write(temp, "new")
    yield
    path.unlink()
    yield
    os.link(temp, path)
    yield
    temp.unlink()


def _set_limit(name: str, value: int) -> None:
    Path("/proc/sys/user", name).write_text(str(value))


SAVES = [_in_place, _append, _mapped, _temp_and_rename, _from_elsewhere, _backup_dance, _hard_link_swap]


def _memory_of(home: Path, project: str = "p") -> Path:
    memory = home / "projects" / project / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    return memory


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_each_way_of_saving_is_one_delivery_after_its_end(save, tmp_path, open_river):
    """However a file is saved, its path is delivered once, when it is whole, and no other name with it."""
    fact = _memory_of(tmp_path) / "fact.md"
    fact.write_text("old text")
    before = fact.read_bytes()
    seen = []

    async def main():
        async with open_river(tmp_path, **UNHURRIED) as river:
            river.on_item = lambda item: seen.append(fact.read_bytes()) if isinstance(item, Settled) else None
            for _ in save(fact):
                assert await river.watch.alive()  # all events up to this step of the save have been taken
            await river.until(lambda: river.count(fact))
            await river.flushed()
            assert river.names() == {"fact.md"}
            assert river.count(fact) == 1
            assert river.wholes(fact.parent) == 0

    asyncio.run(main())
    assert seen == [fact.read_bytes()]
    assert seen != [before]


@pytest.mark.parametrize(
    "save", [_in_place, _append, _mapped, _temp_and_rename, _from_elsewhere, _backup_dance]
)
def test_a_final_save_waits_for_no_quiet_time(save, tmp_path, open_river):
    """A close or a rename into place is delivered at once, were the quiet time an hour."""
    fact = _memory_of(tmp_path) / "fact.md"
    fact.write_text("old text")

    async def main():
        async with open_river(tmp_path, quiet_s=3600.0, longest_s=7200.0) as river:
            for _ in save(fact):
                pass
            await river.until(lambda: river.count(fact))

    asyncio.run(main())


def test_a_save_drags_no_half_written_neighbour_along(tmp_path, open_river):
    """A file that is still open and modified stays back when its neighbour is saved."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path, quiet_s=3600.0, longest_s=7200.0) as river:
            with (memory / "half.md").open("w") as half:
                half.write("ha")
                half.flush()
                for _ in _temp_and_rename(memory / "done.md"):
                    pass
                await river.until(lambda: river.count(memory / "done.md"))
                assert river.names() == {"done.md"}
                await river.flushed()
                assert river.names() == {"done.md", "half.md"}

    asyncio.run(main())


def test_a_writer_that_never_closes_is_believed_after_the_longest_wait(tmp_path, open_river):
    """Steady writes put a path off, but not for ever."""
    path = _memory_of(tmp_path) / "log.md"

    async def main():
        async with open_river(tmp_path, quiet_s=0.2, longest_s=0.4) as river:
            with path.open("w") as file:
                while not river.count(path):
                    file.write("x")
                    file.flush()
                    await asyncio.sleep(0.01)

    asyncio.run(main())


def test_both_halves_of_a_rename_are_in_one_batch_at_once(tmp_path, open_river):
    """A fact that gets another name is delivered with both, without quiet time."""
    memory = _memory_of(tmp_path)
    (memory / "old.md").write_text("x")

    async def main():
        async with open_river(tmp_path, quiet_s=3600.0, longest_s=7200.0) as river:
            (memory / "old.md").rename(memory / "new.md")
            await river.until(lambda: river.items)
            assert river.items == [
                Settled(str(memory), frozenset({str(memory / "old.md"), str(memory / "new.md")}))
            ]

    asyncio.run(main())


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.parents[3] / "away.md"),
        lambda path: path.rename(path.with_name("fact.txt")),
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, (1, 1)),
    ],
    ids=["deleted", "moved-away", "renamed-out-of-sight", "mode", "times"],
)
def test_a_disappearance_or_a_new_mode_is_delivered_after_its_quiet_time(change, tmp_path, open_river):
    """What is no _write is told too."""
    fact = _memory_of(tmp_path) / "fact.md"
    fact.write_text("x")

    async def main():
        async with open_river(tmp_path) as river:
            change(fact)
            await river.until(lambda: river.count(fact))
            await river.flushed()
            assert river.names() == {"fact.md"}

    asyncio.run(main())


def test_reading_and_other_names_are_no_news(tmp_path, open_river):
    """Neither readers nor files of other endings, nor what a host writes beside memory, wake the consumer."""
    memory = _memory_of(tmp_path)
    (memory / "fact.md").write_text("x")

    async def main():
        async with open_river(tmp_path) as river:
            assert (memory / "fact.md").read_text() == "x"
            (memory / "fact.md~").write_text("x")
            (memory / "fact.txt").write_text("x")
            (memory.parent / "session.md").write_text("x")
            (memory.parent / "other").mkdir()
            (memory.parent / "other" / "x.md").write_text("x")
            await river.flushed()
            assert river.items == []
            assert river.watch.state()[0].watches == 3

    asyncio.run(main())


def test_a_lock_is_told_when_it_comes_and_goes(tmp_path, open_river):
    """Names that only matter by being there are told, but never in a hurry."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            lock = memory / "MEMORY.md.lock"
            lock.write_text("1")
            await river.until(lambda: river.count(lock) == 1)
            lock.write_text("2")
            await river.flushed()
            assert river.count(lock) == 1
            lock.unlink()
            await river.until(lambda: river.count(lock) == 2)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["sub", ".hidden", "a/b/c", "目录", "with\nnewline", "b\udcffad"])
def test_directories_below_a_memory_directory_belong_to_it(name, tmp_path, open_river):
    """At any depth, hidden or not, whatever their name."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            below = memory / name
            below.mkdir(parents=True)
            await river.until(lambda: river.wholes(memory))
            await river.flushed()
            (below / "fact.md").write_text("x")
            await river.until(lambda: river.count(below / "fact.md"))
            wholes = river.wholes(memory)
            shutil.rmtree(memory / name.split("/")[0])
            await river.until(lambda: river.wholes(memory) > wholes)

    asyncio.run(main())


def test_a_directory_that_appears_while_it_is_written_to_loses_nothing(tmp_path, open_river):
    """Whatever is written at whatever moment of a directory's making is named, or in a directory told as whole."""
    _memory_of(tmp_path)

    def make():
        for number in range(60):
            memory = tmp_path / "projects" / f"q{number}" / "memory"
            (memory / "deep").mkdir(parents=True)
            for name in ("a.md", "deep/b.md"):
                (memory / name).write_text("x")

    async def main():
        async with open_river(tmp_path) as river:
            noted = set()

            def note(item):
                if isinstance(item, Settled):
                    noted.update(item.paths)
                    if item.whole:
                        noted.update(str(path) for path in Path(item.directory).rglob("*.md"))

            river.on_item = note
            await asyncio.to_thread(make)
            await river.flushed()
            written = {str(path) for path in (tmp_path / "projects").rglob("*.md")}
            assert len(written) == 120
            assert noted == written
            assert river.unsure("overflow") == 0

    asyncio.run(main())


def test_a_memory_directory_that_comes_and_goes_is_told_as_a_whole(tmp_path, open_river):
    """Made, removed, made again at once, moved away and back."""
    memory = _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            for change in (
                lambda: shutil.rmtree(memory),
                lambda: memory.mkdir(),
                lambda: (memory.rmdir(), memory.mkdir()),
                lambda: memory.parent.rename(tmp_path / "away"),
                lambda: (tmp_path / "away").rename(memory.parent),
                lambda: memory.rename(memory.with_name("elsewhere")),
                lambda: memory.with_name("elsewhere").rename(memory),
            ):
                before = river.wholes(memory)
                change()
                await river.until(lambda before=before: river.wholes(memory) > before)
                await river.flushed()
            (memory / "fact.md").write_text("x")
            await river.until(lambda: river.count(memory / "fact.md"))
            assert river.watch.state()[0].watches == 3

    asyncio.run(main())


def _base_gone_and_back(base: Path) -> None:
    shutil.rmtree(base)
    (base / "p" / "memory").mkdir(parents=True)


def _base_moved_and_back(base: Path) -> None:
    base.rename(base.with_name("away"))
    base.with_name("away").rename(base)


def _home_gone_and_back(base: Path) -> None:
    shutil.rmtree(base.parent.parent)
    (base / "p" / "memory").mkdir(parents=True)


def _home_moved_and_made_again(base: Path) -> None:
    base.parent.parent.rename(base.parent.parent.with_name("old"))
    (base / "p" / "memory").mkdir(parents=True)


def _home_moved_and_back(base: Path) -> None:
    above = base.parent.parent
    above.rename(above.with_name("old"))
    above.with_name("old").rename(above)


@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "in-steps"])
@pytest.mark.parametrize(
    "change",
    [
        _base_gone_and_back,
        _base_moved_and_back,
        _home_gone_and_back,
        _home_moved_and_made_again,
        _home_moved_and_back,
    ],
    ids=lambda change: change.__name__,
)
def test_a_base_that_goes_and_comes_back_is_watched_again(change, at_once, tmp_path, open_river):
    """Whatever part of the way to a base is removed, moved or made again, saves below it are told afterwards."""
    base = tmp_path / "u" / ".zcode" / "cli" / "projects"
    fact = base / "p" / "memory" / "fact.md"
    fact.parent.mkdir(parents=True)

    async def main():
        async with open_river(tmp_path, open_river.tree_of(base)) as river:
            if at_once:
                change(base)
            else:
                await asyncio.to_thread(change, base)
            await river.flushed()
            fact.write_text("x")
            await river.until(lambda: river.count(fact))

    asyncio.run(main())


def test_a_missing_base_is_waited_for_without_watching_a_home(tmp_path, open_river):
    """The nearest directory that exists is watched, not what else lies in it; the base is told when it appears."""
    home = tmp_path / "u"
    base = home / ".zcode" / "cli" / "projects"
    (home / "documents").mkdir(parents=True)

    async def main():
        async with open_river(tmp_path, open_river.tree_of(base)) as river:
            assert river.watch.state()[0].watches == 0
            (home / "documents" / "x.md").write_text("x")
            (home / "x.md").write_text("x")
            await river.flushed()
            assert river.items == []
            (base / "p" / "memory").mkdir(parents=True)
            await river.until(lambda: river.unsure("base-added"))
            (base / "p" / "memory" / "fact.md").write_text("x")
            await river.until(
                lambda: river.count(base / "p" / "memory" / "fact.md") or river.wholes(base / "p" / "memory")
            )
            await river.flushed()
            shutil.rmtree(home)
            await river.until(lambda: river.unsure("base-removed"))
            (base / "p" / "memory").mkdir(parents=True)
            await river.until(lambda: river.unsure("base-added") == 2)

    asyncio.run(main())


def test_a_tree_without_levels_is_one_memory_directory(tmp_path, open_river):
    """A directory that was allowed by hand is watched like any other, also when it is removed and made again."""
    memory = tmp_path / "notes"
    memory.mkdir()

    async def main():
        async with open_river(tmp_path, Tree("own", str(memory), ())) as river:
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            shutil.rmtree(memory)
            memory.mkdir()
            await river.until(lambda: river.wholes(memory))
            await river.flushed()
            (memory / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "b.md"))

    asyncio.run(main())


@pytest.mark.parametrize("linked", ["base", "project", "memory"])
def test_base_project_and_memory_directory_may_be_links(linked, tmp_path, open_river):
    """Saves are told in the path's own spelling, and a target that is removed and made again is noticed."""
    memory = tmp_path / "projects" / "p" / "memory"
    place = {"base": memory.parent.parent, "project": memory.parent, "memory": memory}[linked]
    target = tmp_path / "data" / "target"
    real = target / memory.relative_to(place)
    real.mkdir(parents=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)

    async def main():
        async with open_river(tmp_path) as river:
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            (real / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "b.md"))
            shutil.rmtree(tmp_path / "data")
            await river.flushed()
            assert river.wholes(memory) or river.unsure("base-removed")
            real.mkdir(parents=True)
            await river.flushed()
            (real / "c.md").write_text("x")
            await river.until(lambda: river.count(memory / "c.md") or river.wholes(memory) > 1)
            other = tmp_path / "other"
            (other / memory.relative_to(place)).mkdir(parents=True)
            spare = tmp_path / "spare"
            spare.symlink_to(other)
            spare.replace(place)
            await river.flushed()
            (memory / "d.md").write_text("x")
            await river.until(lambda: river.count(memory / "d.md"))
            assert (other / memory.relative_to(place) / "d.md").exists()

    asyncio.run(main())


def test_a_link_that_leads_nowhere_is_waited_for(tmp_path, open_river):
    """A project that is linked before its target is made is watched from then on."""
    _memory_of(tmp_path)

    async def main():
        async with open_river(tmp_path) as river:
            (tmp_path / "projects" / "q").symlink_to(tmp_path / "data" / "q")
            await river.flushed()
            assert river.items == []
            (tmp_path / "data" / "q" / "memory").mkdir(parents=True)
            await river.until(lambda: river.wholes(tmp_path / "projects" / "q" / "memory"))

    asyncio.run(main())


def test_what_is_made_while_the_way_to_a_base_is_gone_up_is_noticed(tmp_path, open_river):
    """A directory that appears right after it was found missing, before the one above it is watched."""
    base = tmp_path / "u" / "a" / "b" / "projects"
    (tmp_path / "u").mkdir()

    async def main():
        async with open_river(tmp_path) as river:
            kernel = river.watch._inotify.kernel
            add = kernel.add

            def add_late(path, mask):
                try:
                    return add(path, mask)
                except FileNotFoundError:
                    base.parent.mkdir(parents=True, exist_ok=True)
                    raise

            kernel.add = add_late
            river.watch.set_trees([open_river.tree_of(river.base), open_river.tree_of(base)])
            kernel.add = add
            base.mkdir()
            await river.until(lambda: river.unsure("base-added"))

    asyncio.run(main())


def test_linked_directories_inside_memory_are_not_entered_but_linked_files_count(tmp_path, open_river):
    """What a link in a memory directory leads to is not ours; a fact may be a link."""
    memory = _memory_of(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "fact.md").write_text("x")

    async def main():
        async with open_river(tmp_path) as river:
            (memory / "way").symlink_to(outside)
            (memory / "linked.md").symlink_to(outside / "fact.md")
            await river.until(lambda: river.count(memory / "linked.md"))
            (outside / "new.md").write_text("x")
            await river.flushed()
            assert river.names() == {"linked.md"}

    asyncio.run(main())


def test_a_directory_on_two_paths_is_told_for_both(tmp_path, open_river):
    """One watch serves links and overlapping trees."""
    memory = _memory_of(tmp_path)
    (tmp_path / "projects" / "q").symlink_to(memory.parent)
    own = Tree("own", str(memory), ())

    async def main():
        async with open_river(tmp_path, open_river.tree_of(tmp_path / "projects"), own) as river:
            (memory / "a.md").write_text("x")
            other = tmp_path / "projects" / "q" / "memory"
            await river.until(lambda: river.count(memory / "a.md") and river.count(other / "a.md"))
            river.watch.set_trees([own])
            await river.flushed()
            before = river.count(memory / "a.md")
            (memory / "a.md").write_text("y")
            await river.until(lambda: river.count(memory / "a.md") > before)
            await river.flushed()
            assert river.count(other / "a.md") == 1

    asyncio.run(main())


def test_a_directory_without_permission_is_blind_until_it_opens(in_child):
    """No error, no polling; when the permission comes back the directory is told and watched."""

    async def scenario(home):
        memory = home / "projects" / "p" / "memory"
        memory.mkdir(parents=True)
        memory.chmod(0o000)
        async with in_child.open_river(home) as river:
            assert river.watch.state()[0].watches == 2
            memory.chmod(0o700)
            await river.until(lambda: river.wholes(memory))
            await river.flushed()
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            before = river.wholes(memory)
            memory.chmod(0o000)
            await river.until(lambda: river.wholes(memory) > before)
            memory.chmod(0o700)

    in_child(scenario)


def test_ordinary_users_wait_for_a_missing_base_below_a_place_they_cannot_write(in_child):
    """The way to a base is watched as far as it needs."""

    async def scenario(home):
        base = home / "a" / "b" / "projects"
        async with in_child.open_river(home, in_child.open_river.tree_of(base)) as river:
            (base / "p" / "memory").mkdir(parents=True)
            await river.until(lambda: river.unsure("base-added"))
            (home / "a").rename(home / "c")
            await river.until(lambda: river.unsure("base-removed"))

    in_child(scenario)


@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_polling_takes_over_when_the_system_refuses_watches_and_gives_them_back(limit, in_child):
    """Out of watches or instances: it says so, changes are still told, and the next scan tries again."""

    async def scenario(home):
        for number in range(30):
            _memory_of(home, f"p{number}")
        memory = home / "projects" / "p7" / "memory"
        async with in_child.open_river(home, poll_s=0.05) as river:
            await river.until(lambda: any(isinstance(item, Degraded) for item in river.items))
            state = river.watch.state()[0]
            assert (state.kind, state.watches) == ("polling", 0)
            assert "inotify" in state.reason or "watch" in state.reason
            (memory / "a.md").write_text("x")
            await river.until(lambda: river.count(memory / "a.md"))
            await river.flushed()
            assert river.unsure("flush")
            assert await river.watch.alive()
            await river.watch.rewatch()
            assert river.watch.state()[0].kind == "polling"
            assert sum(isinstance(item, Degraded) for item in river.items) == 1
            _set_limit(limit, 1000)
            await river.watch.rewatch()
            assert river.watch.state()[0].kind == "inotify"
            (memory / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "b.md"))

    in_child(scenario, limits={limit: 20 if limit == "max_inotify_watches" else 0})


def test_thousands_of_atomic_saves_are_taken_without_loss(quick_home, open_river):
    """5,000 saves over 200 directories while the consumer is at work: each is named, nothing overflows."""
    memories = [_memory_of(quick_home, f"p{number}") for number in range(200)]

    def save_all():
        for number in range(5000):
            path = memories[number % 200] / f"f{number}.md"
            temp = path.with_name(path.name + ".tmp")
            temp.write_text("x" * 500)
            temp.rename(path)

    async def main():
        async with open_river(quick_home) as river:
            await asyncio.to_thread(save_all)
            await river.flushed()
            assert river.names() == {f"f{number}.md" for number in range(5000)}
            assert river.unsure("overflow") == 0

    asyncio.run(main())


def test_an_overflow_is_told_once_and_watches_are_complete_after_it(tmp_path, open_river):
    """One `Unsure`; directories whose making or removal was lost are found by the scan; a flush still ends."""
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 50_000:
        pytest.skip("this system's queue is too long to be filled in a test")
    memory, gone = _memory_of(tmp_path), _memory_of(tmp_path, "gone")

    async def main():
        async with open_river(tmp_path) as river:
            with (memory / "a.md").open("wb", 0) as one, (memory / "b.md").open("wb", 0) as other:
                for _ in range(most // 2 + 100):  # alternately, or the kernel would merge them
                    one.write(b"x")
                    other.write(b"x")
            late = _memory_of(tmp_path, "late")
            shutil.rmtree(gone)
            await river.flushed()
            assert river.unsure("overflow") == 1
            await river.until(lambda: river.wholes(gone))
            (late / "a.md").write_text("x")
            await river.until(lambda: river.count(late / "a.md"))

    asyncio.run(main())
