"""Our own pen's acts in a bed: what is refused, and what is said when the disk of the state is full in the midst."""

import contextlib
import dataclasses
import itertools
import os
import subprocess

import pytest

from tests.daemon.bed import Bed, good
from zcsyncd.daemon import desk as desk_module
from zcsyncd.daemon.desk import Desk, Place
from zcsyncd.errors import Refused, ZcsyncdError
from zcsyncd.layouts.zcode import ZCODE

READ_ONLY = dataclasses.replace(ZCODE, writable=False)
NOTE = {
    "description": "New words",
    "type": "user",
    "body": "New.\n",
    "mode": "upsert",
    "if_revision": None,
    "by": None,
}


@pytest.fixture
def bed(tmp_path):
    return Bed(tmp_path)


def files(memory):
    """Give what lies in a memory directory; nothing when it is not there."""
    if not os.path.isdir(memory.dir):
        return {}
    return {
        entry.name: (entry.stat().st_mtime_ns, open_bytes(entry.path)) for entry in os.scandir(memory.dir)
    }


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


ACTS = {
    "write": lambda desk, place, _version: desk.write(place, name="a", **NOTE),
    "write of a new fact": lambda desk, place, _version: desk.write(place, name="new", **NOTE),
    "forget": lambda desk, place, _version: desk.forget(place, name="a", if_revision=None, by=None),
    "repair": lambda desk, place, _version: desk.repair(place, apply=True, codes=None, keys=None, by=None),
    "a repair that only shows": lambda desk, place, _version: desk.repair(
        place, apply=False, codes=None, keys=None, by=None
    ),
    "restore": lambda desk, place, version: desk.restore(place, version, if_revision=None, by=None),
    "undo": lambda desk, place, _version: desk.undo(place, by=None),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("there", [True, False])
def test_a_layout_that_is_read_only_is_not_written_to(bed, act, there):
    """Whatever is asked: refused by name of directory and layout; no file is touched, none is made, nothing is told."""
    memory = bed.memory()
    if there:
        memory.save("a.md", good())
        memory.save("b.md", good())

    async def story():
        await bed.start()
        version = None
        if there:
            writable = Desk(bed.store, bed.pipeline)
            await writable.write(Place(memory.dir, ZCODE), name="a", **NOTE)
            await bed.rest()
            [version, *_] = bed.store.memory.history.versions(memory.dir, "a.md", 9)
            bed.groups.clear()
        before = files(memory)
        with pytest.raises(Refused, match="read only") as raised:
            await ACTS[act](Desk(bed.store, bed.pipeline), Place(memory.dir, READ_ONLY), version)
        assert memory.dir in str(raised.value)
        assert ZCODE.name in str(raised.value)
        await bed.rest()
        assert files(memory) == before
        assert bed.told == []

    bed.play(story)


@pytest.fixture(params=["refused", "tmpfs"])
def full(request, tmp_path):
    """A bed, and a way to fill the disk of its state for a while: told by the database, or really full."""
    if request.param == "refused":
        bed = Bed(tmp_path)

        @contextlib.contextmanager
        def refusing():
            bed.database.full = True
            yield
            bed.database.full = False

        yield bed, refusing
        return
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    place, roomy = tmp_path / "small", tmp_path / "roomy"
    place.mkdir()
    roomy.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    (place / "cli").symlink_to(roomy)  # the memory has room, the state has none

    @contextlib.contextmanager
    def filling():
        ballast = place / "ballast"
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            file.writelines(b"x" * 1024 for _ in itertools.count())
        yield
        ballast.unlink()

    try:
        yield Bed(place), filling
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("act", ["write", "forget"])
def test_a_state_that_fills_up_in_the_midst_of_an_act(full, monkeypatch, act):
    """Saved before, drawn, and not committed: what was written stands, the error names it, and once there is room the
    view is what lies on the disk, told once, with the bytes before to be had."""
    bed, filled = full
    memory = bed.memory()
    memory.save("a.md", good(name="a"))
    memory.save("MEMORY.md", "- [a](a.md) \u2014 What it says\n")

    async def story():
        await bed.start()
        desk, place = Desk(bed.store, bed.pipeline), Place(memory.dir, ZCODE)
        before = files(memory)
        with contextlib.ExitStack() as until_room:

            async def step(name):
                if name == "desk.drawn":
                    until_room.enter_context(filled())

            monkeypatch.setattr(desk_module, "step", step)
            with pytest.raises(ZcsyncdError) as raised:
                await ACTS[act](desk, place, None)
            assert set(raised.value.data["written"]) == {"a.md", "MEMORY.md"}
            assert "was written before" in raised.value.hint
            assert "state.db" in str(raised.value)
            after = files(memory)
            assert after.keys() == ({"MEMORY.md", "a.md"} if act == "write" else {"MEMORY.md"})
            assert after["MEMORY.md"] != before["MEMORY.md"]
            assert bed.told == []
        for _ in range(4):  # an empty index is believed only after a while
            await bed.pass_time(1.5)
        snapshot = bed.store.kept[memory.dir].snapshot
        assert snapshot.facts.keys() == after.keys() - {"MEMORY.md"}
        index = open_bytes(memory.path("MEMORY.md"))
        assert [entry.hook for entry in snapshot.index.entries] == (["New words"] if act == "write" else [])
        assert snapshot.index.stat.size == len(index)
        kinds = {file: kind for kind, file in bed.changes()}
        assert kinds == {"a.md": "updated" if act == "write" else "deleted", "MEMORY.md": "updated"}
        assert len(bed.changes()) == 2
        bed.store.keep()
        history = bed.store.memory.history
        for file, (_, content) in before.items():
            assert content in [history.bytes_of(one.hash) for one in history.versions(memory.dir, file, 9)], (
                file
            )

    bed.play(story)
