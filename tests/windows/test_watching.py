"""Watching by ReadDirectoryChangesW: nothing is lost, nobody is starved, and the end is clean."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from tests.watching.conftest import River
from zcsyncd.opening import full_names
from zcsyncd.watching import observer
from zcsyncd.watching.observer import OVERFLOW, Observing

WAIT_S = 20.0


class Sight:
    """What an `Observing` has seen below a directory, with the moment of each path's first event."""

    def __init__(self, root):
        self.root = str(root)
        self.first = {}
        self.words = []
        self.observing = Observing(asyncio.get_running_loop(), self._note)
        self.observing.start()

    def _note(self, seen):
        for _, _, path, _, word in seen:
            self.first.setdefault(os.path.relpath(path, self.root), time.perf_counter())
            self.words.append(word)

    async def until(self, fact):
        async with asyncio.timeout(WAIT_S):
            while not fact():  # noqa: ASYNC110 - any fact
                await asyncio.sleep(0.005)


def watched(root, scenario):
    """Run a scenario with a recursive watch; afterwards no thread may be left."""

    async def main():
        sight = Sight(root)
        sight.observing.watch(str(root), recursive=True)
        try:
            await scenario(sight)
        finally:
            sight.observing.stop()

    asyncio.run(main())


def save(path, text="x"):
    """Save as ZCode does: a temporary file, renamed over."""
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.tmp", path)


def test_a_steady_writer_starves_nobody(tmp_path):
    """Each save is told while the next ones are being made; the median delay is printed."""

    async def scenario(sight):
        saved = {}
        while len(saved) < 100:
            name = f"{len(saved)}.md"
            save(tmp_path / name)
            saved[name] = time.perf_counter()
            await asyncio.sleep(0.02)
        early = len(saved.keys() & sight.first.keys())
        await sight.until(lambda: saved.keys() <= sight.first.keys())
        delays = sorted(sight.first[name] - at for name, at in saved.items())
        print(f"median delay {delays[50] * 1000:.1f} ms, told before the last save {early}/100")  # noqa: T201
        assert delays[50] < 0.1
        assert early > 90

    watched(tmp_path, scenario)


def test_a_burst_is_told_whole(tmp_path):
    """Five hundred files without a pause: each is heard of."""

    async def scenario(sight):
        for number in range(500):
            (tmp_path / f"{number}.md").write_text("x")
        await sight.until(lambda: {f"{number}.md" for number in range(500)} <= sight.first.keys())
        assert OVERFLOW not in sight.words

    watched(tmp_path, scenario)


def test_lost_events_are_said(tmp_path, monkeypatch):
    """Where the system's buffer was too small, that is told instead of nothing."""
    monkeypatch.setattr(observer.winapi, "BUFFER_SIZE", 64)

    async def scenario(sight):
        for number in range(200):
            (tmp_path / f"a name that is too long for the room there is {number}.md").write_text("x")
        await sight.until(lambda: OVERFLOW in sight.words)

    watched(tmp_path, scenario)


def test_lost_events_cause_a_scan(tmp_path, monkeypatch):
    """The stream says that everything is to be looked at."""
    monkeypatch.setattr(observer.winapi, "BUFFER_SIZE", 64)
    (tmp_path / "projects").mkdir()

    async def main():
        async with River(tmp_path, mode="observer") as river:
            for number in range(100):
                (tmp_path / "projects" / f"a name that is too long for the room {number}.md").write_text("x")
            await river.until(lambda: river.unsure("overflow"))

    asyncio.run(main())


def test_what_happens_right_after_the_call_is_told(tmp_path):
    """A watch is live when `watch` returns: no moment between is missed."""

    async def scenario(sight):
        for number in range(50):
            place = tmp_path / f"d{number}"
            place.mkdir()
            sight.observing.watch(str(place), recursive=False)
            (place / "a.md").write_text("x")
            name = os.path.join(place.name, "a.md")
            await sight.until(lambda name=name: name in sight.first)
            sight.observing.unwatch(str(place), recursive=False)

    async def main():
        sight = Sight(tmp_path)
        try:
            await scenario(sight)
        finally:
            sight.observing.stop()

    asyncio.run(main())


def test_a_missing_directory_is_refused(tmp_path):
    """No watch, no thread: an error."""

    async def main():
        observing = Observing(asyncio.get_running_loop(), lambda _: None)
        with pytest.raises(FileNotFoundError):
            observing.watch(str(tmp_path / "nowhere"), recursive=True)
        observing.stop()

    asyncio.run(main())


def test_stopping_is_quick(tmp_path):
    """Twenty watches end in well under a second each, whether something happens there or not."""

    async def main():
        observing = Observing(asyncio.get_running_loop(), lambda _: None)
        for number in range(20):
            (tmp_path / f"{number}").mkdir()
            observing.watch(str(tmp_path / f"{number}"), recursive=True)
        for number in range(0, 20, 2):
            (tmp_path / f"{number}" / "a.md").write_text("x")
        began = time.monotonic()
        observing.stop()
        assert time.monotonic() - began < 5
        assert observing.is_alive()

    asyncio.run(main())


def test_saves_deletions_and_directories_are_told(tmp_path):
    """The whole way to the stream, for directories that are made while we watch."""
    (tmp_path / "projects").mkdir()
    memory = tmp_path / "projects" / "p" / "memory"

    async def main():
        async with River(tmp_path, mode="observer") as river:
            memory.mkdir(parents=True)
            await river.until(lambda: river.unsure("directories") or river.wholes(memory))
            save(memory / "a.md")
            await river.until(lambda: river.count(memory / "a.md"))
            before = river.count(memory / "a.md")
            (memory / "a.md").unlink()
            await river.until(lambda: river.count(memory / "a.md") > before)
            (memory / "sub").mkdir()
            await river.until(lambda: river.wholes(memory))
            (memory / "sub" / "b.md").write_text("x")
            await river.until(lambda: river.count(memory / "sub" / "b.md"))
            assert await river.watch.alive()

    asyncio.run(main())


def test_a_base_that_comes_goes_and_comes_again(tmp_path):
    """A root that is taken away and made again is watched again."""
    base = tmp_path / "projects"

    async def main():
        async with River(tmp_path, mode="observer") as river:
            for times in (1, 2):
                base.mkdir()
                await river.until(lambda times=times: river.unsure("base-added") == times)
                memory = base / "p" / "memory"
                memory.mkdir(parents=True)
                await river.until(lambda memory=memory: river.wholes(memory) or river.unsure("directories"))
                (memory / f"{times}.md").write_text("x")
                await river.until(lambda path=memory / f"{times}.md": river.count(path))
                base.rename(tmp_path / f"away{times}")
                await river.until(lambda times=times: river.unsure("base-removed") == times)

    asyncio.run(main())


def test_short_names_are_written_out(tmp_path):
    """`A-LONG~1.MD` and its long form are the same path, told by the long one."""
    import ctypes

    path = tmp_path / "a-long-enough-name-for-a-short-one.md"
    path.write_text("x")
    answer = ctypes.create_unicode_buffer(1024)
    assert ctypes.windll.kernel32.GetShortPathNameW(str(path), answer, 1024)
    short = answer.value
    assert "~" in short, "this volume makes no short names"
    assert full_names(short).lower() == str(path).lower()
    assert full_names(str(tmp_path / "gone~1.md")) is None


def test_a_short_name_in_an_event_is_the_long_path(tmp_path):
    """Where an event tells a short name, the path goes on as the directory has it; of what is gone, a scan tells."""
    import ctypes

    (tmp_path / "projects").mkdir()
    memory = tmp_path / "projects" / "p" / "memory"

    async def main():
        async with River(tmp_path, mode="observer") as river:
            memory.mkdir(parents=True)
            await river.until(lambda: river.unsure("directories") or river.wholes(memory))
            path = memory / "a-long-enough-name-for-a-short-one.md"
            path.write_text("x")
            await river.until(lambda: river.count(path))
            answer = ctypes.create_unicode_buffer(1024)
            ctypes.windll.kernel32.GetShortPathNameW(str(path), answer, 1024)
            before = river.count(path)
            short = str(memory / answer.value.rpartition("\\")[2])
            seen = (str(river.base), True, short, False, "modified")
            river.watch._portable._on_seen([seen])
            await river.until(lambda: river.count(path) > before)
            river.watch._portable._on_seen([(*seen[:2], str(memory / "GONE~1.MD"), False, "deleted")])
            await river.until(lambda: river.unsure("short-name"))

    asyncio.run(main())
